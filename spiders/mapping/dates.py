"""Reads dates and times in the notation of a language.

A date needs day, month and year. Relative ones such as "yesterday" are refused, since a stored page is read again
later.
"""

import re
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any

import dateparser  # type: ignore[import-untyped]  # ships no types

from almanac.core.locales import primary
from almanac.schemas.declaration.field_values import UNIX_FORMATS
from almanac.spiders.mapping.casing import has_two_i, lower
from almanac.spiders.mapping.eras import with_common_years
from almanac.spiders.mapping.locales import is_month_first
from almanac.spiders.mapping.numbers import plain_digits, shown
from almanac.spiders.mapping.solar_hijri import check_year, is_dated_by_sun, with_gregorian_dates
from almanac.spiders.mapping.times import with_plain_times
from almanac.spiders.mapping.unix_times import read_unix_time, unix_hint

_NUMERIC = re.compile(r"(\d{1,4})([./-])\s?(\d{1,2})\2\s?(\d{1,4})\.?(?:,?[ T](\d{1,2}):(\d{2})(?::(\d{2}))?)?")
_OF_DIGITS = re.compile(r"\d([./-])\s?\w{1,3}\1\s?\d|^\d{8}$")
_SLASHED = re.compile(r"(?<![\d/])(\d{1,2})(/)(\d{1,2})/(\d{4}|\d\d)(?![\d/])")
_ABSOLUTE = {"STRICT_PARSING": True, "REQUIRE_PARTS": ["day", "month", "year"], "PARSERS": ["absolute-time"]}
_DECLARED = {"PARSERS": ["custom-formats"]}
_BUDDHIST_ERA = 543
_BUDDHIST_CENTURY = 2500  # of a Thai year of two digits
# pages in them also give Hijri dates, which depend on sightings of the moon: 1445/08/20 is in 2024
_LUNAR = frozenset(("ar", "ur"))
_LUNAR_YEARS = range(1300, 1501)
_COMMON_YEARS = range(1600, 2300)
_YEAR_FIRST = frozenset(("ko", "ja", "zh", "hu"))  # also where the year has two digits: 24. 1. 25.
_THAI_MONTHS = dict(
    zip(
        ("ม.ค", "ก.พ", "มี.ค", "เม.ย", "พ.ค", "มิ.ย", "ก.ค", "ส.ค", "ก.ย", "ต.ค", "พ.ย", "ธ.ค"),
        (
            "มกราคม",
            "กุมภาพันธ์",
            "มีนาคม",
            "เมษายน",
            "พฤษภาคม",
            "มิถุนายน",
            "กรกฎาคม",
            "สิงหาคม",
            "กันยายน",
            "ตุลาคม",
            "พฤศจิกายน",
            "ธันวาคม",
        ),
        strict=True,
    )
)
# As Syria, Lebanon, Jordan and Iraq name the months, in the names that dateparser knows.
_LEVANTINE_MONTHS = dict(
    zip(
        (
            "كانون الثاني",
            "شباط",
            "آذار",
            "نيسان",
            "أيار",
            "حزيران",
            "تموز",
            "آب",
            "أيلول",
            "تشرين الأول",
            "تشرين الثاني",
            "كانون الأول",
        ),
        ("يناير", "فبراير", "مارس", "أبريل", "مايو", "يونيو", "يوليو", "أغسطس", "سبتمبر", "أكتوبر", "نوفمبر", "ديسمبر"),
        strict=True,
    )
)
_LEVANTINE = re.compile(rf"(?<!\w)({'|'.join(_LEVANTINE_MONTHS)})(?!\w)")
# As feeds, mails and HTTP headers are dated, always with English names: Wed, 02 Dec 2026 10:00:00 +0100 (RFC 5322, 3.3
# and 4.3).
_INTERNET = re.compile(
    r"(?:[A-Z]{3}, ?)?\d\d? [A-Z]{3} \d\d(?:\d\d)? \d\d:\d\d(?::\d\d)? (?:[+-]\d{4}|UTC?|GMT|Z|[ECMP][SD]T)",
    re.IGNORECASE,
)
_DAY_END = re.compile(r"(?<=T)24(?=:00(?::00(?:\.0+)?)?(?![\d:.]))")  # ISO 8601 gives the end of a day so, too
_THAI_SHORT = re.compile(rf"(?<![\u0e00-\u0e7f])({'|'.join(map(re.escape, _THAI_MONTHS))})\.?(?![\u0e00-\u0e7f])")
_THAI_ERA = re.compile(r"พ\.?\s?ศ\.?\s?")
_SHORT_YEAR = re.compile(r"(?<!\d)(\d\d)$")
_ORDINAL = re.compile(r"(?<=\d)\s?(?:[ºª°]|ης?)(?!\w)")  # 1º de maio, 1η Μαρτίου
_MARK = re.compile(r"\s[·|•]\s")
_OTHER_NAMES = {"no": "nb", "iw": "he", "tl": "fil", "in": "id", "prs": "fa"}  # as dateparser names them


@lru_cache(maxsize=4096)
def read_date(text: str, language: str, date_format: str | None = None) -> datetime:
    """The datetime that a text names: midnight if it has no time, with a UTC offset if it has one. Raises ValueError if
    it cannot be read.

    With `date_format`, exactly that: strptime, with month names of the language or English, or a Unix time. Otherwise
    ISO 8601, the form of feeds and mails, or the language's own notation: 03/04/2024 is read by language and region
    (plain `en` as en-US), 03.04.2024 day first everywhere. Where the language is not known, a date with two possible
    readings is refused. Persian and Pashto years from 1200 on are Solar Hijri, Thai ones Buddhist, Japanese and
    Taiwanese ones may be of an era: all are converted.
    """
    plain = plain_digits(text)
    if date_format in UNIX_FORMATS:
        return read_unix_time(plain, date_format)
    if date_format is not None:
        return _by_format(plain, date_format, language)
    if is_dated_by_sun(language):
        plain = with_gregorian_dates(plain)
    moment = _by_iso(plain) or _by_internet(plain)
    if moment is None:
        numeric = _NUMERIC.fullmatch(plain)
        moment = _by_order(numeric, language) if numeric else _by_words(plain, language)
    if moment is None:
        raise ValueError(f"not a date: {shown(text)}")
    if _OF_DIGITS.search(plain):
        _check_calendar(moment.year, text, language)
    return moment


def _check_calendar(year: int, text: str, language: str) -> None:
    """Raises ValueError if a date of digits may be one of another calendar than the Gregorian."""
    if is_dated_by_sun(language):
        check_year(year, text)
    if primary(language) in _LUNAR and year in _LUNAR_YEARS:
        raise ValueError(
            f"a Gregorian or a Hijri year in {shown(text)}? A format such as %Y-%m-%d takes it as Gregorian"
        )


def _by_iso(text: str) -> datetime | None:
    if text.isdigit():
        return _compact(text)
    begun, is_end = _DAY_END.subn("00", text)
    try:
        return datetime.fromisoformat(begun) + timedelta(days=is_end)
    except (ValueError, OverflowError):
        return None


def _by_internet(text: str) -> datetime | None:
    """The datetime of a text in the form of feeds, mails and HTTP headers; None where it is none."""
    if not _INTERNET.fullmatch(text):
        return None
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    if moment.year not in _COMMON_YEARS:
        return None  # of another calendar
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)  # -0000: in UTC, where the place is not told


def _compact(digits: str) -> datetime:
    """Reads 20240503; other runs of digits, such as Unix times, are refused."""
    try:
        if len(digits) == 8:
            return datetime.strptime(digits, "%Y%m%d")
    except ValueError:
        pass
    raise ValueError(f"not a date: {shown(digits)}{unix_hint(digits)}")


def _by_format(text: str, date_format: str, language: str) -> datetime:
    try:
        return datetime.strptime(text, date_format)
    except ValueError as error:
        if re.search("%[aAbBp]", date_format) and (found := _by_translated_names(text, date_format, language)):
            return found
        raise ValueError(f"{shown(text)} is not a date of the form {date_format}") from error


def _by_translated_names(text: str, date_format: str, language: str) -> datetime | None:
    """Reads names of months and days in the language. dateparser translates short names to full ones, so %b is tried as
    %B.
    """
    full = date_format.replace("%b", "%B").replace("%a", "%A")
    for written in dict.fromkeys((text, text.replace(".", ""))):
        found = _dateparser(written, language, _DECLARED, [date_format, full, full.replace(".", "")])
        if found is not None:
            return found
    return None


def _by_order(match: re.Match[str], language: str) -> datetime:
    """Reads dates of digits: year first, or day and month by language. With dots, day first everywhere."""
    first, mark, second, third = match[1], match[2], match[3], match[4]
    time = [int(part) for part in match.groups()[4:] if part]
    if len(first) > 2 or (primary(language) in _YEAR_FIRST and len(first) == 2 and len(third) <= 2):
        return _moment(first, second, third, time, match[0], language)
    month_first = is_month_first(language) if mark != "." else False
    readings = {}
    for is_american in (True, False) if month_first is None else (month_first, not month_first):
        day, month = (second, first) if is_american else (first, second)
        try:
            readings[is_american] = _moment(third, month, day, time, match[0], language)
        except ValueError:
            continue
    distinct = list(dict.fromkeys(readings.values()))
    if not distinct:
        raise ValueError(f"not a date: {shown(match[0])}")
    if month_first is None and len(distinct) > 1:
        raise ValueError(f"day or month first in {shown(match[0])}? Declare the language, or a format such as %d/%m/%Y")
    return distinct[0]


def _moment(year: str, month: str, day: str, time: list[int], text: str, language: str) -> datetime:
    if len(year) not in (2, 4):
        raise ValueError(f"not a date: {shown(text)}")
    if len(year) == 2 and is_dated_by_sun(language):
        raise ValueError(f"a year of two digits may be Solar Hijri or Gregorian: {shown(text)}")
    if primary(language) == "th":
        full_year = _of_common_era(int(year) if len(year) == 4 else _BUDDHIST_CENTURY + int(year))
    else:
        full_year = int(year) if len(year) == 4 else datetime.strptime(year, "%y").year
    try:
        return datetime(full_year, int(month), int(day), *time)  # type: ignore[arg-type]  # hour, minute, second
    except ValueError as error:
        raise ValueError(f"not a date: {shown(text)}") from error


def _by_words(text: str, language: str) -> datetime | None:
    """Reads dates in words with dateparser, in the language; in English if dateparser lacks the language. None if it
    cannot.
    """
    order = "YMD" if primary(language) in _YEAR_FIRST else "MDY" if is_month_first(language) else "DMY"
    written = _written_out(text, primary(language))
    if numeric := _NUMERIC.fullmatch(written):
        return _by_order(numeric, language)
    if is_month_first(language) is None and (numeric := _SLASHED.search(written)):
        _by_order(numeric, language)  # raises if it may be read in two ways
    found = _dateparser(written, language, {**_ABSOLUTE, "DATE_ORDER": order})
    return found.replace(year=_of_common_era(found.year)) if found and primary(language) == "th" else found


def _written_out(text: str, language: str) -> str:
    """The text as dateparser knows it.

    It knows few notations of times, no ordinal marks, no Turkish I without a dot, and takes มี.ค. (March) for January
    and Thai years of two digits for those of the common era.
    """
    text = with_plain_times(_MARK.sub(", ", _ORDINAL.sub("", with_common_years(text, language))), language)
    if has_two_i(language):
        return lower(text, language)
    if language == "ar":
        return _LEVANTINE.sub(lambda match: _LEVANTINE_MONTHS[match[1]], text)
    if language != "th":
        return text
    text = _THAI_SHORT.sub(lambda match: f" {_THAI_MONTHS[match[1]]} ", _THAI_ERA.sub("", text)).strip()
    return _SHORT_YEAR.sub(lambda match: str(_BUDDHIST_CENTURY + int(match[1])), " ".join(text.split()))


def _of_common_era(year: int) -> int:
    return year - _BUDDHIST_ERA if year > _BUDDHIST_CENTURY - 100 else year


def _dateparser(
    text: str, language: str, settings: dict[str, Any], formats: list[str] | None = None
) -> datetime | None:
    name = _OTHER_NAMES.get(primary(language), primary(language))
    known = name if name in _known_languages() else "en"
    try:
        found: datetime | None = dateparser.parse(text, date_formats=formats, languages=[known], settings=settings)
    except (ValueError, OverflowError, RecursionError):  # digits outside any calendar
        return None
    return found


@lru_cache(maxsize=1)
def _known_languages() -> frozenset[str]:
    from dateparser.data.languages_info import language_order  # type: ignore[import-untyped]  # ships no types

    return frozenset(language_order)
