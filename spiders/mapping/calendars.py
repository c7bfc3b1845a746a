"""Dates of other calendars than the Gregorian one: their years, and for Solar Hijri (jalali) months and days."""

import re
from datetime import date, timedelta

from almanac.core.locales import primary
from almanac.schemas.declaration.field_rules import Calendar
from almanac.spiders.mapping.numbers import shown

# The calendar that pages in a language are dated by, besides the Gregorian one. That of Arabic and Urdu pages depends
# on sightings of the moon.
_OTHER_CALENDARS: dict[str, Calendar | None] = {
    **dict.fromkeys(("fa", "prs", "ps"), "jalali"),
    **dict.fromkeys(("ar", "ur"), None),
    "th": "buddhist",
    "ja": "japanese",
    "zh": "minguo",
}
_COMMON_YEARS = range(1700, 2300)  # no page in these languages means another Gregorian year, by digits alone
_ONLY_DIGITS = re.compile(r"\d[./ -]\s?\d\d?[./ -]\s?\d|\d{8}$")
# Years beyond the end of an era count on: 平成35年 was printed before that end was known.
_ERAS = {
    **dict.fromkeys(("明治", "M"), 1867),
    **dict.fromkeys(("大正", "T"), 1911),
    **dict.fromkeys(("昭和", "S"), 1925),
    **dict.fromkeys(("平成", "H"), 1988),
    **dict.fromkeys(("令和", "R"), 2018),
}
_LETTER = r"[^\d\s.,:/-]"
_BEHIND_MONTH = rf"(?:(?<=[./-]\d[./-])|(?<=[./-]\d\d[./-])|(?<={_LETTER})|(?<={_LETTER}[\s.])|(?<={_LETTER}\.\s))"
_YEARS = {
    "buddhist": re.compile(
        rf"(?:พ\.?\s?ศ\.?\s?)?(?<![\d:])(?P<year>2[1-9]\d\d(?!\d)|{_BEHIND_MONTH}(?<!เวลา\s)\d\d(?=$|[\s,]))"
    ),
    "japanese": re.compile(rf"(?<![A-Za-z])(?P<era>{'|'.join(_ERAS)})\.?\s?(?P<year>元|\d\d?)\s?(?=[年./-])"),
    "minguo": re.compile(r"(?:(?:中[華华])?民[國国]\s?)?(?<!\d)(?P<year>元|\d{1,3})\s?(?=[年./-])"),
}

# Within these years every 33 years have the same eight leap years; the vernal equinoxes of later ones do not follow
# this rule.
_JALALI_YEARS = range(1200, 1501)
_LEAP_YEARS = frozenset((1, 5, 9, 13, 17, 22, 26, 30))
_NEW_YEAR = 1403, date(2024, 3, 20)
# As Iran, Afghanistan and Pashto name them.
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
_ARABIC_LETTERS = str.maketrans("يىك", "ییک")  # as Arabic keyboards write them
_MARK = r"\s?[./-]\s?"
_JALALI = (
    re.compile(r"^(?P<year>\d{4})(?P<month>\d\d)(?P<day>\d\d)$"),
    re.compile(rf"(?<![\d./-])(?P<year>\d{{4}}){_MARK}(?P<month>\d\d?){_MARK}(?P<day>\d\d?)(?!\d|[./-]\d)"),
    re.compile(rf"(?<![\d./-])(?P<day>\d\d?){_MARK}(?P<month>\d\d?){_MARK}(?P<year>\d{{4}})(?!\d|[./-]\d)"),
    re.compile(rf"(?<!\d)(?P<day>\d\d?)\s?(?P<month>{'|'.join(_NUMBERS)})(?:\s?ماه)?[\s،]+(?P<year>\d{{4}})(?!\d)"),
)


def with_gregorian_date(text: str, calendar: Calendar) -> str:
    """The text with the year of its date, or for jalali its date, in the Gregorian calendar. Raises ValueError if it
    has none of the calendar.
    """
    text = text.translate(_ARABIC_LETTERS) if calendar == "jalali" else text
    patterns = _JALALI if calendar == "jalali" else (_YEARS[calendar],)
    match = next(filter(None, (pattern.search(text) for pattern in patterns)), None)
    if match is None:
        raise ValueError(
            f"no date of the calendar {calendar} in {shown(text)}: `pattern` takes the part that is one; without "
            "`calendar`, dates are Gregorian"
        )
    return f"{text[: match.start()]}{_gregorian(calendar, match)}{text[match.end() :]}"


def _gregorian(calendar: Calendar, match: re.Match[str]) -> date | int:
    year = 1 if match["year"] == "元" else int(match["year"])
    if calendar == "jalali":
        return from_jalali(year, _NUMBERS.get(match["month"]) or int(match["month"]), int(match["day"]))
    if calendar == "buddhist":
        return (year if year > 99 else year + 2500) - 543
    return year + (_ERAS[match["era"]] if calendar == "japanese" else 1911)


def check_calendar(year: int, text: str, language: str) -> None:
    """Raises ValueError for the year of a date that may be of another calendar on pages in the language."""
    calendar = _OTHER_CALENDARS.get(primary(language), "gregorian")
    is_short = calendar in ("jalali", "buddhist") and not re.search(r"\d{4}", text)
    is_early = year < _COMMON_YEARS.start and _ONLY_DIGITS.search(text) is not None
    if calendar != "gregorian" and (is_short or is_early or year >= _COMMON_YEARS.stop):
        raise ValueError(
            f"the year of {shown(text)} may be no Gregorian one{calendar_hint(language)}; if it is, declare "
            "`calendar: gregorian`"
        )


def calendar_hint(language: str) -> str:
    """What to declare for a date that may be of another calendar, to go after a message; empty for most languages."""
    calendar = _OTHER_CALENDARS.get(primary(language))
    return f"; if it is of another calendar, declare `calendar: {calendar}`" if calendar else ""


def from_jalali(year: int, month: int, day: int) -> date:
    """The Gregorian date of a Solar Hijri one. Raises ValueError if there is no such date, or if its year is not one
    from 1200 to 1500.
    """
    days = 31 if month <= 6 else 30 if month < 12 or _is_leap(year) else 29
    if year not in _JALALI_YEARS or not 1 <= month <= 12 or not 1 <= day <= days:
        raise ValueError(f"not a date of the Solar Hijri calendar: {year}/{month}/{day}")
    known, new_year = _NEW_YEAR
    leap_days = sum(map(_is_leap, range(min(year, known), max(year, known))))
    days_between = 365 * (year - known) + (leap_days if year > known else -leap_days)
    return new_year + timedelta(days_between + 30 * (month - 1) + min(month - 1, 6) + day - 1)


def _is_leap(year: int) -> bool:
    return year % 33 in _LEAP_YEARS
