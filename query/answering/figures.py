"""Figures of a text, numbers, dates and times as written in any language, and whether other texts state them too."""

import re
import unicodedata
from collections.abc import Iterable
from functools import partial

from almanac.core.invisible import without_invisible
from almanac.query.answering.figure import IS_PERCENT, READ, Atom, Figure, Read, Reader
from almanac.query.answering.figure_dates import DATES
from almanac.query.answering.figure_numbers import GROUPED_DIGITS, NUMBERS
from almanac.query.answering.figure_times import TIMES
from almanac.query.answering.figure_words import PERCENT, month_of, with_digits

_PERCENT = re.compile(PERCENT, re.IGNORECASE)
_WORD = re.compile(r"[^\s\d.,:;!?()\[\]/|*-]{3,12}")
_PLAIN = {
    "٪": "%",
    "٫": ".",
    "٬": ",",
    "،": ",",
    "−": "-",
    "‐": "-",
    "‑": "-",
    "‒": "-",
    "⁄": "/",
    "״": '"',
    "׳": "'",
    "\u2009": " ",
    "\u202f": " ",
}
_FRACTIONS = {"½": ".5", "¼": ".25", "¾": ".75"}


def figures_of(text: str) -> list[Figure]:
    """The figures of a text written in digits, of whatever script. Addresses (URLs, e-mail) are left out; numbers in
    words are no figures.
    """
    return _Reader(_plain(text)).read()


class Stated:
    """What texts state in figures. Numbers in words count, too: "fourteen days" states 14."""

    def __init__(self, texts: Iterable[str]) -> None:
        found: set[Atom] = set()
        for text in texts:
            plain = _plain(text)
            for version in dict.fromkeys((plain, with_digits(plain))):
                for figure in _Reader(version).read():
                    found |= figure.shows
            if _PERCENT.search(plain):
                found.add(IS_PERCENT)
            for month in filter(None, map(month_of, _WORD.findall(plain))):
                found |= {("month", str(month)), ("any year", str(month))}
        self.atoms = frozenset(found)

    def has(self, figure: Figure) -> bool:
        """Whether one of the figure's readings is stated."""
        return any(reading <= self.atoms for reading in figure.readings)

    def joined(self, other: "Stated") -> "Stated":
        """What either states."""
        made = Stated(())
        made.atoms = self.atoms | other.atoms
        return made


def _plain(text: str) -> str:
    """The text with ASCII digits, separators and full-width signs, without marks of direction."""
    if text.isascii():
        return text
    changed = "".join(_PLAIN.get(c) or _plain_sign(c) for c in without_invisible(text))
    return re.sub(r"(?<=\d)(½|¼|¾)", lambda found: _FRACTIONS[found[0]], changed)


def _plain_sign(c: str) -> str:
    if c.isascii() or c.isalpha():
        return c
    if c.isdecimal():
        return str(unicodedata.decimal(c))
    kind, _, base = unicodedata.decomposition(c).partition(" ")
    if kind == "<sub>" and unicodedata.category(c) == "No":  # CO₂
        return chr(int(base, 16))
    return (
        unicodedata.normalize("NFKC", c)
        if kind in ("<wide>", "<narrow>", "<noBreak>", "<compat>") and unicodedata.category(c) != "No"
        else c
    )


class _Reader:
    """Reads the figures of one plain text, dates before times before numbers; what has been read is masked."""

    def __init__(self, text: str) -> None:
        self.text = self.left = text
        self.found: list[tuple[int, Figure]] = []

    def read(self) -> list[Figure]:
        if not any(c.isdigit() for c in self.text):
            return []
        for pattern, reader, mask in _READERS:
            self.left = pattern.sub(partial(self._take, reader=reader, mask=mask), self.left)
        return [figure for _, figure in sorted(self.found, key=lambda one: one[0])]

    def _take(self, match: re.Match[str], reader: Read, mask: str) -> str:
        figures = reader(match, self.text)
        if figures is None:
            return match[0]
        self.found += [(match.start(), figure) for figure in figures]
        return mask * len(match[0])


def _no_figure(_match: re.Match[str], _text: str) -> list[Figure]:
    return []


_READERS: tuple[Reader, ...] = (
    (re.compile(r"https?://\S+|www\.\S+|\S+@\S+\.\w+|(?<=[\d\s])[ckd]?m[23]\b", re.IGNORECASE), _no_figure, READ),
    *DATES,
    GROUPED_DIGITS,
    *TIMES,
    *NUMBERS,
)
