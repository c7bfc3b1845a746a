"""Numbers in texts, with thousands and decimals in any notation, powers of ten, codes and telephone numbers."""

import re
import unicodedata
from decimal import Decimal
from itertools import pairwise
from typing import NamedTuple

from almanac.core.multiplier_words import POWERS
from almanac.query.answering.figure import IS_PERCENT, READ, Atom, Figure, Reader, figure_as, number_of
from almanac.query.answering.figure_dates import date_of
from almanac.query.answering.figure_times import time_of
from almanac.query.answering.figure_words import PERCENT, units

_PERCENT = re.compile(PERCENT, re.IGNORECASE)
_NUMBER = r"\d{1,3}(?:[ '’]\d{3})+(?!\d)(?:[.,]\d{1,2}(?!\d))?|\d+(?:[.,]\d+)*"
_OTHER_POWERS = {"mil": 3, "billion": 9, "billions": 9}
_POWER_WORDS = "|".join(sorted(map(re.escape, [*POWERS, *_OTHER_POWERS]), key=len, reverse=True))
_POWER = re.compile(rf"\s?({_POWER_WORDS})\.?(?![^\W\d_])", re.IGNORECASE)
_CJK_POWERS = "百千仟万萬億亿兆백천만억조"
_CURRENCY_BEFORE = re.compile(
    r"(?:[^\W\d_]*\$|[₠-⃏£¥￥]|\b(?:usd|eur|vnd|gbp|chf|jpy|inr|rs\.?|nis|ils))\s?$", re.IGNORECASE
)
_WORD_AFTER = re.compile(r"[\s-]?([^\s\d\0\1.,:;!?()\[\]/\\|*_-]+)")
_CODE_BEFORE = re.compile(r"(?:^|[^\w])([A-Z]{1,5})[ -]$")


def _phone(match: re.Match[str], _: str) -> list[Figure] | None:
    digits = re.sub(r"\D", "", match[0])
    if not 7 <= len(digits) <= 15:
        return None
    return [figure_as(match[0], [("digits", digits[-8:])])]


def _grouped_digits(match: re.Match[str], _: str) -> list[Figure] | None:
    """A telephone number, an ISBN or an account in groups, which others write in one: 555-123-4567."""
    digits = re.sub(r"\D", "", match[0])
    if not 9 <= len(digits) <= 19:
        return None
    return [figure_as(match[0], [("digits", digits[-8:])], [number_of(part) for part in re.findall(r"\d+", match[0])])]


def _code(match: re.Match[str], _: str) -> list[Figure] | None:
    code = re.sub(r"[-_/]", "", match[0]).casefold()
    numbers = [number_of(part) for part in re.findall(r"\d+", match[0])]
    readings: list[list[Atom]] = [[("code", code)]]
    letters = re.match(r"[^\W\d_]+", match[0])
    if "-" in match[0] or (letters and letters[0].casefold() in units()):  # pre-2020; EUR15
        readings.append(numbers)
    return [figure_as(match[0], *readings)]


def _cjk_number(match: re.Match[str], _: str) -> list[Figure]:
    """A number with powers of ten within: 9万5千, 1억 2천만."""
    value = Decimal(0)
    for number, powers in re.findall(rf"(\d+(?:[.,]\d+)*)\s?([{_CJK_POWERS}]*)", match[0]):
        value += _values(number)[0].scaleb(sum(POWERS[power] for power in powers))
    return [figure_as(match[0], [number_of(value)])]


def _sum(match: re.Match[str], _: str) -> list[Figure]:
    """A number in parts: 12 triệu 500 nghìn."""
    parts = re.findall(rf"({_NUMBER})\s?({_POWER_WORDS})", match[0], re.IGNORECASE)
    values = [
        _values(number)[0].scaleb(POWERS.get(word.casefold()) or _OTHER_POWERS[word.casefold()])
        for number, word in parts
    ]
    return [figure_as(match[0], [number_of(sum(values, Decimal(0)))], [number_of(value) for value in values])]


def _plain_number(match: re.Match[str], text: str) -> list[Figure]:
    written = match["n"]
    before, after = text[max(0, match.start() - 8) : match.start()], text[match.end() : match.end() + 40]
    values = _values(written)
    powers = _powers(after)
    if powers:
        scaled = [value.scaleb(powers.power) for value in values]
        # A single letter may be something else: 5 m, 4K.
        values = [*scaled, *values] if powers.is_unsure else scaled
    readings: list[list[Atom]] = [[number_of(value)] for value in values]
    parts = re.split(r"[ '’]", written)
    if len(parts) > 1:
        readings.append([number_of(_values(part)[0]) for part in parts])
    is_percent = bool(_PERCENT.match(after.lstrip(" -"))) or bool(re.search(r"(?:百分之|yüzde|%)\s?$", before))
    if is_percent:
        readings = [[*reading, IS_PERCENT] for reading in readings]
    if code := _CODE_BEFORE.search(before):
        readings.append([("code", code[1].casefold() + written)])
    if re.match(r"(?:st|nd|rd|th|er|re|e|ème|º|ª)(?!\w)", after):
        readings.append([("ordinal", written)])
    if two := re.fullmatch(r"(\d{1,2})\.(\d{2})", written):  # 14.11, 17.30
        day, time = (
            date_of(written, int(two[1]), int(two[2]), None),
            time_of(written, int(two[1]), int(two[2]), half=None),
        )
        readings += [list(reading) for figure in (day, time) if figure for reading in figure.readings]
    digits = re.sub(r"\D", "", written)
    if written.isdigit() and len(written) >= 9:  # telephone numbers, which texts write in groups
        readings.append([("digits", digits[-8:])])
    shows: list[Atom] = [number_of(value) for value in values]
    if len(digits) >= 7:
        shows.append(("digits", digits[-8:]))
    is_measured = is_percent or powers or _CURRENCY_BEFORE.search(before) or _has_unit(after)
    return [
        figure_as(
            match[0], *readings, shows=shows, is_count=not is_measured and written.isdigit() and int(written) < 100
        )
    ]


def _has_unit(after: str) -> bool:
    word = _WORD_AFTER.match(after)
    return word is not None and (word[1].casefold() in units() or unicodedata.category(word[1][0]) == "Sc")


class _Powers(NamedTuple):
    """Power of ten behind a number, the characters that express it, and whether they may mean something else."""

    power: int
    length: int
    is_unsure: bool


def _powers(after: str) -> _Powers | None:
    power = length = 0
    is_unsure = False
    while match := _POWER.match(after, length):
        word = match[1].casefold()
        power += POWERS.get(word) or _OTHER_POWERS[word]
        length, is_unsure = match.end(), is_unsure or (len(word) < 3 and word.isascii())
    return _Powers(power, length, is_unsure) if power else None


def _values(written: str) -> list[Decimal]:
    """What a written number may be worth: 9.500 is 9500 or 9.5."""
    plain = re.sub(r"[ '’]", "", written)
    marks = re.findall(r"[.,]", plain)
    groups = re.split(r"[.,]", plain)
    joined = Decimal("".join(groups))
    if not marks:
        return [joined]
    is_grouped = (
        all(len(group) in (2, 3) for group in groups[1:-1]) and len(groups[-1]) == 3 and 1 <= len(groups[0]) <= 3
    )
    if len(set(marks)) == 2:
        return (
            [Decimal("".join(groups[:-1]) + "." + groups[-1])]
            if all(a == b for a, b in pairwise(marks[:-1]))
            else [Decimal(g) for g in groups]
        )
    if len(marks) > 1:
        return [joined] if is_grouped else [Decimal(group) for group in groups]
    decimal = Decimal(".".join(groups))
    return [joined, decimal] if is_grouped and groups[0] != "0" else [decimal]


_FLAGS = re.IGNORECASE
# Before times: 978-3-16-148410-0 has no hours.
GROUPED_DIGITS: Reader = (
    re.compile(r"(?<![\w.,/-])(?:\(\d{3}\)\s?|\d{1,4}-)\d{1,7}(?:-\d{1,7}){1,4}(?![\w/-]|[.,]\d)"),
    _grouped_digits,
    READ,
)
NUMBERS: tuple[Reader, ...] = (
    (re.compile(r"(?<![\w.,])(?:\+|\(?0|1[-. ]?[89]00[-. ])[\d\s().\-–/]{5,20}\d(?!\d|,\d)"), _phone, READ),
    (re.compile(r"(?<![\w\0\1])(?=[\w/-]*\d)[A-Za-zÀ-ɏΑ-ωА-я][\w]*(?:[-_/][\w]+)*"), _code, READ),
    (
        re.compile(rf"(?<!\d)(?:\d+(?:[.,]\d+)*\s?[{_CJK_POWERS}]+(?![克米瓦])\s?)+(?:\d{{1,4}}(?![\d.,]))?"),
        _cjk_number,
        READ,
    ),
    (
        re.compile(
            rf"(?<!\d)(?:(?:{_NUMBER})\s(?:{_POWER_WORDS})\s){{1,3}}(?:{_NUMBER})\s(?:{_POWER_WORDS})\b", _FLAGS
        ),
        _sum,
        READ,
    ),
    (re.compile(rf"(?<!\d)(?P<n>{_NUMBER})"), _plain_number, READ),
)
