"""Dates of the Solar Hijri calendar, in which Persian, Dari and Pashto pages are dated: 1402/12/11 is 2024-03-01."""

import re
from datetime import date, timedelta

from almanac.core.locales import primary
from almanac.spiders.mapping.numbers import shown

_LANGUAGES = frozenset(("fa", "prs", "ps"))
# Within these years every 33 years have the same eight leap years; the vernal equinoxes of later ones do not follow
# this rule.
_FIRST, _LAST = 1200, 1500
_GREGORIAN = 1700  # no page means an earlier Gregorian year by digits alone
_LEAP_YEARS = frozenset((1, 5, 9, 13, 17, 22, 26, 30))
_NEW_YEAR = 1403, date(2024, 3, 20)
_MONTHS = (
    ("فروردین", "حمل", "وری"),
    ("اردیبهشت", "ثور", "غویی"),
    ("خرداد", "جوزا", "غبرګولی"),
    ("تیر", "سرطان", "چنګاښ"),
    ("مرداد", "امرداد", "اسد", "زمری"),
    ("شهریور", "سنبله", "وږی"),
    ("مهر", "میزان", "تله"),
    ("آبان", "عقرب", "لړم"),
    ("آذر", "قوس", "لیندۍ"),
    ("دی", "جدی", "مرغومی"),
    ("بهمن", "دلو", "سلواغه"),
    ("اسفند", "حوت", "کب"),
)
_NUMBERS = {name: number for number, names in enumerate(_MONTHS, 1) for name in names}
_ERA = r"(?:\s?\(?(?:ه\.?\s?ش|هـ\.?\s?ش|هجری شمسی|هجری خورشیدی|شمسی|خورشیدی)\b\.?\)?)?"
_WORDS = re.compile(
    rf"(?<!\d)(\d{{1,2}})\s?(?:م|ام|\s)?\s?({'|'.join(sorted(_NUMBERS, key=len, reverse=True))})\s?(?:ماه)?\s?،?\s"
    rf"?(?:سال\s)?(\d{{4}})(?!\d){_ERA}"
)
_YEAR_FIRST = re.compile(rf"(?<![\d./-])(\d{{4}})([./-])\s?(\d\d?)\2\s?(\d\d?)(?!\d|[./-]\d){_ERA}")
_YEAR_LAST = re.compile(rf"(?<![\d./-])(\d\d?)([./-])\s?(\d\d?)\2\s?(\d{{4}})(?!\d|[./-]\d){_ERA}")
_COMPACT = re.compile(r"(\d{4})(\d\d)(\d\d)")
_SPACED_DAY = re.compile(r"\b(یک|دو|سه|چهار|پنج)\s(?=شنبه)")
_ARABIC_LETTERS = str.maketrans("يىك", "ییک")  # as Arabic keyboards write them


def is_dated_by_sun(language: str) -> bool:
    """Whether pages in the language are dated by the Solar Hijri calendar, besides the Gregorian one."""
    return primary(language) in _LANGUAGES


def with_gregorian_dates(text: str) -> str:
    """The text with its Solar Hijri dates, of digits or words, in ISO 8601. Raises ValueError for a date that the
    calendar lacks, or that is beyond it.

    A year from 1200 to 1699 is taken as one of this calendar, a later one as Gregorian.
    """
    if compact := _COMPACT.fullmatch(text):
        return _iso(compact[1], int(compact[2]), compact[3], text)
    text = _SPACED_DAY.sub(r"\1", text.translate(_ARABIC_LETTERS))
    text = _WORDS.sub(lambda match: _iso(match[3], _NUMBERS[match[2]], match[1], match[0]), text)
    text = _YEAR_FIRST.sub(lambda match: _iso(match[1], int(match[3]), match[4], match[0]), text)
    return _YEAR_LAST.sub(lambda match: _iso(match[4], int(match[3]), match[1], match[0]), text)


def check_year(year: int, text: str) -> None:
    """Raises ValueError for the year of a date of digits, not a Solar Hijri one, where it is too early for a Gregorian
    year.
    """
    if year < _GREGORIAN:
        raise ValueError(f"the year is neither a Gregorian nor a Solar Hijri one, {_FIRST} to {_LAST}: {shown(text)}")


def _iso(year: str, month: int, day: str, text: str) -> str:
    if not _FIRST <= int(year) < _GREGORIAN:
        return text
    if int(year) > _LAST:
        check_year(int(year), text)
    return gregorian(int(year), month, int(day)).isoformat()


def gregorian(year: int, month: int, day: int) -> date:
    """The Gregorian date of a Solar Hijri one. Raises ValueError if there is no such date, or if its year is not one
    from 1200 to 1500.
    """
    if not _FIRST <= year <= _LAST or not 1 <= month <= 12 or not 1 <= day <= _days(year, month):
        raise ValueError(f"not a date of the Solar Hijri calendar: {year}/{month}/{day}")
    known, new_year = _NEW_YEAR
    leap_days = sum(_is_leap(between) for between in range(min(year, known), max(year, known)))
    days = 365 * (year - known) + (leap_days if year > known else -leap_days)
    return new_year + timedelta(days + 30 * (month - 1) + min(month - 1, 6) + day - 1)


def _days(year: int, month: int) -> int:
    if month == 12:
        return 30 if _is_leap(year) else 29
    return 31 if month <= 6 else 30


def _is_leap(year: int) -> bool:
    return year % 33 in _LEAP_YEARS
