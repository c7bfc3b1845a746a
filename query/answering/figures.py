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
"""What texts state: numbers (`14`), those outside of dates (`=14`), dates (`11/14/2026`), digits that stand together
(`#5551234`), digits of fractions (`<95`) and of whole thousands (`>95`), which tell that 9500000 is 9.5 million."""

_FIGURE = re.compile(
    r"(?<![\d.])(?P<date>\d{4}([-./])\d{1,2}\2\d{1,2}|\d{1,2}([-./])\d{1,2}\3\d{4})(?!\d)"
    r"|(?<!\d)(?P<hour>\d{1,2})(?:[:h](?P<minute>\d\d)(?!\d)|(?=\s?[ap]\.?\s?m\b))(?:\s?(?P<half>[ap])\.?\s?m\b)?"
    r"|(?<!\d)\d{1,3}(?:[ '’]\d{3})+(?!\d)(?:[.,]\d+)?|\d+(?:[.,]\d+)*",
    re.IGNORECASE,
)
_TOGETHER = re.compile(r"(?:\d[-(). ]{0,2}){6,}\d")  # telephone numbers, ISBNs
_ADDRESS = re.compile(r"https?://\S+|www\.\S+|\S+@\S+")
_SEPARATORS = {"٫": ".", "٬": ","}


class _Figure(NamedTuple):
    """A figure stands where all of one of `needs` is stated, and states `shows` itself."""

    needs: list[set[str]]
    shows: set[str]


def stated_by(texts: Iterable[str]) -> Stated:
    """What texts state in figures."""
    found: set[str] = set()
    for text in map(_plain, texts):
        found.update(f"#{_digits(together[0])}" for together in _TOGETHER.finditer(text))
        found.update(shown for figure in _figures(text) for shown in figure.shows)
    return frozenset(found)


def is_supported(statement: str, stated: Stated, asked: Stated = frozenset()) -> bool:
    """Whether all numbers of a statement stand in what its passages state; those of addresses are not looked at.

    Numbers that were `asked` are no evidence: "Yes, it costs 5 euros" needs a passage that says so. They may be
    repeated beside one that the passages add: "For 2 adults it is 500 € each".
    """
    text = _plain(_ADDRESS.sub(" ", statement))
    together = {found[0]: f"#{_digits(found[0])}" for found in _TOGETHER.finditer(text)}
    is_added, is_repeated = False, False
    for written in (written for written, digits in together.items() if digits in stated):
        text = text.replace(written, " ")
        is_added |= together[written] not in asked
    for figure in _figures(text):
        was_asked = _stands(figure, asked)
        if _stands(figure, stated):
            is_added |= not was_asked
        elif was_asked:
            is_repeated = True
        else:
            return False
    return is_added or not is_repeated


def without_figures(text: str) -> str:
    """A text without numbers and times, but with codes, such as TO1101."""
    plain = _plain(text)
    return _FIGURE.sub(lambda found: found[0] if plain[: found.start()][-1:].isalpha() else " ", plain)


def _stands(figure: _Figure, stated: Stated) -> bool:
    return any(needed <= stated for needed in figure.needs)


def _plain(text: str) -> str:
    """The text with ASCII digits and separators; raised and lowered ones stand apart, as in `25 m 2`."""
    if text.isascii():
        return text
    signs = (
        str(unicodedata.decimal(c)) if c.isdecimal() else f" {c}" if unicodedata.category(c) == "No" else c
        for c in without_invisible(text)
    )
    return unicodedata.normalize("NFKC", "".join(_SEPARATORS.get(sign, sign) for sign in signs))


def _figures(text: str) -> Iterator[_Figure]:
    for found in _FIGURE.finditer(text):
        if found["date"]:
            yield _date(list(map(_value, re.findall(r"\d+", found["date"]))))
        elif found["hour"]:
            yield _time(int(found["hour"]), int(found["minute"] or 0), (found["half"] or "").lower())
        else:
            yield _number(found[0])


def _date(numbers: list[str]) -> _Figure:
    """A date stands where the same one does, or where its numbers do; the month may stand there in words."""
    whole = "/".join(sorted(numbers))
    months = (place for place, number in enumerate(numbers) if int(number) <= 12)
    partly = [{f"={number}" for place, number in enumerate(numbers) if place != month} for month in months]
    return _Figure([{whole}, {f"={number}" for number in numbers}, *partly], {whole, *numbers})


def _time(hour: int, minute: int, half: str) -> _Figure:
    """A time of the afternoon stands by either clock: 17:30, 5:30 p.m., and 5:30 beside a word for it."""
    later = hour % 12 + 12 if half == "p" else hour
    minutes = {str(minute)} if minute else set()
    hours = {str(hour), str(later), *([str(hour - 12)] if hour > 12 else [])}
    shows = {str(hour), str(later)} | minutes
    return _Figure([{clock} | minutes for clock in hours], shows | {f"={number}" for number in shows})


def _number(text: str) -> _Figure:
    parts, separators = re.split(r"\D", text), re.findall(r"\D", text)
    values, fractions = [], set[str]()
    if len(set(separators)) < 2 and (not separators or (len(parts[-1]) == 3 and all(len(p) > 1 for p in parts[1:]))):
        values.append(_value("".join(parts)))
    if separators and separators[-1] in ".," and separators.count(separators[-1]) == 1:
        values.append(_value(f"{''.join(parts[:-1])}.{parts[-1]}"))
        fractions = {_significant(values[-1])} if len(parts[-1]) < 3 and "." in values[-1] else set()
    readings = [{value} for value in values]
    is_clock = re.fullmatch(r"\d{1,2}\.\d\d", text)
    if not values or " " in separators or is_clock or len(parts[-1]) > 3:  # 7,14,21; on 14 500 people came; May 5,2026
        readings.append({_value(part) for part in parts if part.strip("0")})
    numbers = set[str]().union(*readings)
    thousands = {_significant(value) for value in values if value.isdecimal() and len(value) > 3}
    wide = {f">{digits}" for digits in fractions}, {f"<{digits}" for digits in thousands}
    shows = {f"<{digits}" for digits in fractions} | {f">{digits}" for digits in thousands}
    return _Figure(
        [*readings, *({one} for both in wide for one in both)], numbers | {f"={one}" for one in numbers} | shows
    )


def _value(digits: str) -> str:
    return format(Decimal(digits).normalize(), "f")


def _significant(value: str) -> str:
    return value.replace(".", "").strip("0")


def _digits(text: str) -> str:
    return re.sub(r"\D", "", text)
