"""Numbers in figures: what texts state, and whether the numbers of a statement stand there.

Digits are compared, not notations: `1,250.00`, `1.250,00` and `1 250` are one number, and what can be read in two ways
(`9.500`, `9.30`) stands where one of the two does. Numbers in words, names of months and units are not read.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import NamedTuple

from almanac.core.invisible import without_invisible

Stated = frozenset[str]
"""What texts state: numbers (`14`), those outside of dates (`=14`), dates (`11/14/2026`), and digits of fractions
(`<95`) and of whole thousands (`>95`), which tell that 9500000 is 9.5 million."""

_FIGURE = re.compile(
    r"(?<![\d.])(?P<date>\d{4}([-./])\d{1,2}\2\d{1,2}|\d{1,2}([-./])\d{1,2}\3\d{4})(?!\d)"
    r"|\d+(?:[.,'’]\d+| \d{3}(?!\d))*"
)
_HOUR = re.compile(r"(?<!\d)([01]?\d|2[0-3])[:h][0-5]\d(?!\d)")
_CLOCK = re.compile(r"\d{1,2}\.\d\d")
_ADDRESS = re.compile(r"https?://\S+|www\.\S+|\S+@\S+")
_SEPARATORS = str.maketrans("٫٬", ".,")


class _Figure(NamedTuple):
    """A figure stands where all of one of `needs` is stated, and states `shows` itself."""

    needs: list[set[str]]
    shows: set[str]


def stated_by(texts: Iterable[str]) -> Stated:
    """What texts state in figures; the hours of times by either clock."""
    stated: set[str] = set()
    for text in map(_plain, texts):
        stated.update(shown for figure in _figures(text) for shown in figure.shows)
        stated.update(str((int(hour[1]) + 12) % 24) for hour in _HOUR.finditer(text))
    return frozenset(stated)


def is_supported(statement: str, stated: Stated, stated_in_question: Stated = frozenset()) -> bool:
    """Whether all numbers of a statement stand in what its passages state; those of addresses are not looked at.

    Numbers of the question are no evidence: "Yes, it costs 5 euros" needs a passage that says so. They may be
    repeated beside one that the passages add: "For 2 adults it is 500 € each".
    """
    figures = list(_figures(_plain(_ADDRESS.sub(" ", statement))))
    missing = [figure for figure in figures if not _stands(figure, stated)]
    is_added = any(_stands(figure, stated) and not _stands(figure, stated_in_question) for figure in figures)
    return not missing or (is_added and all(_stands(figure, stated_in_question) for figure in missing))


def _stands(figure: _Figure, stated: Stated) -> bool:
    return any(needed <= stated for needed in figure.needs)


def _plain(text: str) -> str:
    """The text with ASCII separators; raised and lowered digits stand apart, as in `25 m 2`."""
    if text.isascii():
        return text
    signs = (f" {c}" if unicodedata.category(c) == "No" else c for c in without_invisible(text))
    return unicodedata.normalize("NFKC", "".join(signs)).translate(_SEPARATORS)


def _figures(text: str) -> Iterator[_Figure]:
    for match in _FIGURE.finditer(text):
        if match["date"]:
            yield _date([_value(number) for number in re.findall(r"\d+", match["date"])])
        elif match[0] != "00":  # minutes
            yield _number(match[0])


def _date(numbers: list[str]) -> _Figure:
    """A date stands where the same one does, or its other numbers outside of dates: the month may stand in words."""
    whole = "/".join(sorted(numbers))
    months = [place for place, number in enumerate(numbers) if int(number) <= 12]
    partly = [{f"={number}" for place, number in enumerate(numbers) if place != month} for month in months]
    return _Figure([{whole}, {f"={number}" for number in numbers}, *partly], {whole, *numbers})


def _number(written: str) -> _Figure:
    parts, separators = re.split(r"\D", written), re.findall(r"\D", written)
    whole = fraction = ""
    if len(set(separators)) < 2 and (not separators or (len(parts[-1]) == 3 and all(len(p) > 1 for p in parts[1:]))):
        whole = _value("".join(parts))
    if separators and separators[-1] in ".," and separators.count(separators[-1]) == 1:
        fraction = _value(f"{''.join(parts[:-1])}.{parts[-1]}")
    needs = [{value} for value in (whole, fraction) if value]
    if not needs or " " in separators or _CLOCK.fullmatch(written) or len(parts[-1]) > 3:
        needs.append({_value(part) for part in parts if part.strip("0")})  # 7,14,21; on 14 500 people; May 5,2026
    shows = set[str]().union(*needs)
    shows |= {f"={number}" for number in shows}
    if "." in fraction and len(parts[-1]) < 3:
        needs.append({f">{_significant(fraction)}"})
        shows.add(f"<{_significant(fraction)}")
    if len(whole) > 3:
        needs.append({f"<{_significant(whole)}"})
        shows.add(f">{_significant(whole)}")
    return _Figure(needs, shows)


def _value(digits: str) -> str:
    return format(Decimal(digits).normalize(), "f")


def _significant(number: str) -> str:
    return number.replace(".", "").strip("0")
