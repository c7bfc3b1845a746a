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
from babel import Locale

from almanac.core.locales import locale_of, primary
from almanac.schemas.declaration.field_rules import Calendar
from almanac.schemas.declaration.field_values import UNIX_FORMATS
from almanac.spiders.mapping.calendars import calendar_hint, check_calendar, with_gregorian_date
from almanac.spiders.mapping.casing import has_two_i, lower
from almanac.spiders.mapping.notations import is_month_first
from almanac.spiders.mapping.numbers import plain_digits, shown
from almanac.spiders.mapping.unix_times import read_unix_time, unix_hint

_NUMERIC = re.compile(r"(\d{1,4})([./-])\s?(\d{1,2})\2\s?(\d{1,4})\.?(?:,?[ T](\d{1,2}):(\d{2})(?::(\d{2}))?)?")
_SLASHED = re.compile(r"(?<![\d/])(\d{1,2})(/)(\d{1,2})/(\d{4}|\d\d)(?![\d/])")
_ABSOLUTE = {"STRICT_PARSING": True, "REQUIRE_PARTS": ["day", "month", "year"], "PARSERS": ["absolute-time"]}
_DECLARED = {"PARSERS": ["custom-formats"]}
_COMMON_YEARS = range(1600, 2300)
_YEAR_FIRST = frozenset(("ko", "ja", "zh", "hu", "eu"))  # also where the year has two digits: 24. 1. 25.
_YEAR_BEHIND = re.compile(r"(\d\d?月\d\d?日)\D{0,3}(\d{4}年)")  # 12月3日（2026年）
# As feeds, mails and HTTP headers are dated, always with English names: Wed, 02 Dec 2026 10:00:00 +0100 (RFC 5322, 3.3
# and 4.3).
_INTERNET = re.compile(
    r"(?:[A-Z]{3}, ?)?\d\d? [A-Z]{3} \d\d(?:\d\d)? \d\d:\d\d(?::\d\d)? (?:[+-]\d{4}|UTC?|GMT|Z|[ECMP][SD]T)",
    re.IGNORECASE,
)
_FULL_YEAR = re.compile(r"(?<![+\d$£€¥₫])\d{4}(?!\d)")
# A year of two digits stands beside its month, since dateparser takes hours, last days and prices for years, too:
# `14. marts kl. 20`, `March 14-16`, `March 14, 18+`.
_SHORT_YEAR = re.compile(
    r"\d\d?(?P<mark>[./-])\s?\d\d?(?P=mark)\s?\d\d(?!\d)|(?<!\d)(?P<cjk>\d\d)\s?[年년]"
    r"|(?P<month>[^\d\s.,'/–-]+)(?:\.?[\s./-]?(?:\sde\s)?|\.?\s\d\d?(?:st|nd|rd|th)?,\s)'?(?P<year>\d\d)"
    r"(?=(?:,|\)|\.|\sг\.?)?(?:$|\s+(?:\w+\.?\s+)?\d?\d(?::\d\d|\s?[ap]m)))",
    re.IGNORECASE,
)
_DAY_END = re.compile(r"(?<=T)24(?=:00(?::00(?:\.0+)?)?(?![\d:.]))")  # ISO 8601 gives the end of a day so, too
# What follows an hour of the clock besides CLDR's words for it, in languages where an hour long is not meant.
_CLOCK_WORDS = {
    **dict.fromkeys(("es", "pt"), "horas"),
    "fr": "heures",
    "nl": "uur",
    "cs": r"hod(?:in|\.)?",
    "ru": "час(?:ов|а)",
    "hu": "óra(?:kor)?",
    "zh": "[点點]",
}
_BESIDE_TIME = re.compile(r"\bkl(?:\.|ockan|okken)?\s(?=\d?\d:\d\d)|(?<=\d:\d\d)\s?hod\b\.?")
_HALF_OF_DAY = re.compile(r"(?<=\d)\s?([ap])\.?\sm\b\.?", re.IGNORECASE)  # p. m., as Spanish writes it
_ORDINAL = re.compile(r"(?<=\d)\s?(?:[ºª°]|ης?)(?!\w)")  # 1º de maio, 1η Μαρτίου
_MARK = re.compile(r"\s[·|•]\s")
# Names of months that dateparser lacks, and those that it has, by their place in CLDR.
_OTHER_MONTHS = {"th": (("th", "abbreviated"), ("th", "wide")), "ar": (("ar_SY", "wide"), ("ar", "wide"))}
_OTHER_NAMES = {"no": "nb", "iw": "he", "tl": "fil", "in": "id", "prs": "fa"}  # as dateparser names them


@lru_cache(maxsize=4096)
def read_date(text: str, language: str, date_format: str | None = None, calendar: Calendar | None = None) -> datetime:
    """The datetime that a text names: midnight if it has no time, with a UTC offset if it has one. Raises ValueError if
    it cannot be read.

    With `date_format`, exactly that: strptime, with month names of the language or English, or a Unix time. Otherwise
    ISO 8601, the form of feeds and mails, or the language's own notation: 03/04/2024 is read by language and region
    (plain `en` as en-US), 03.04.2024 day first everywhere. Where the language is not known, a date with two possible
    readings is refused, and so is one that is hardly Gregorian where no `calendar` is declared.
    """
    plain = plain_digits(text)
    if date_format in UNIX_FORMATS:
        return read_unix_time(plain, date_format)
    if date_format is not None:
        return _by_format(plain, date_format, language)
    if calendar is not None and calendar != "gregorian":
        written = with_gregorian_date(plain, calendar)
        try:
            return read_date(written, language, None, "gregorian")
        except ValueError as error:
            raise ValueError(f"{error} (the page has {shown(text)})") from error
    moment = _by_iso(plain) or _by_internet(plain)
    if moment is None:
        numeric = _NUMERIC.fullmatch(plain)
        moment = _by_order(numeric, language) if numeric else _by_words(plain, language)
    if moment is None:
        year = _FULL_YEAR.search(plain)
        is_gregorian = calendar is not None or (year is not None and int(year[0]) in _COMMON_YEARS)
        raise ValueError(
            f"not a date: {shown(text)}; `pattern` takes the part that is one, and `format` says how it is written"
            f"{'' if is_gregorian else calendar_hint(language)}"
        )
    if calendar is None:
        check_calendar(moment.year, plain, language)
    return moment


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
        if re.search("%[aAbBp]", date_format) and (moment := _by_translated_names(text, date_format, language)):
            return moment
        raise ValueError(f"{shown(text)} is not a date of the form {date_format}") from error


def _by_translated_names(text: str, date_format: str, language: str) -> datetime | None:
    """Reads names of months and days in the language. dateparser translates short names to full ones, so %b is tried as
    %B.
    """
    full = date_format.replace("%b", "%B").replace("%a", "%A")
    for written in dict.fromkeys((text, text.replace(".", ""))):
        moment = _dateparser(written, language, _DECLARED, [date_format, full, full.replace(".", "")])
        if moment is not None:
            return moment
    return None


def _by_order(match: re.Match[str], language: str) -> datetime:
    """Reads dates of digits: year first, or day and month by language. With dots, day first everywhere."""
    first, mark, second, third = match[1], match[2], match[3], match[4]
    time = [int(part) for part in match.groups()[4:] if part]
    if len(first) > 2 or (primary(language) in _YEAR_FIRST and len(first) == 2 and len(third) <= 2):
        return _moment(first, second, third, time, match[0])
    month_first = is_month_first(language) if mark != "." else False
    readings = {}
    for is_american in (True, False) if month_first is None else (month_first, not month_first):
        day, month = (second, first) if is_american else (first, second)
        try:
            readings[is_american] = _moment(third, month, day, time, match[0])
        except ValueError:
            continue
    distinct = list(dict.fromkeys(readings.values()))
    if not distinct:
        raise ValueError(f"not a date: {shown(match[0])}")
    if month_first is None and len(distinct) > 1:
        raise ValueError(f"day or month first in {shown(match[0])}? Declare the language, or a format such as %d/%m/%Y")
    return distinct[0]


def _moment(year: str, month: str, day: str, time: list[int], text: str) -> datetime:
    if len(year) not in (2, 4):
        raise ValueError(f"not a date: {shown(text)}")
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
    settings = {**_ABSOLUTE, "DATE_ORDER": order}
    # else dateparser takes the hour for a day or, of `14 mars, 20h`, for a year
    with_hour = _hour(language).sub(lambda hour: f" {hour[1]}:{hour[2] or '00'}", written)
    moment = _dateparser(with_hour, language, settings)
    if moment is None or _FULL_YEAR.search(with_hour):
        return moment
    is_dated = (
        match["mark"]
        or (
            int(match["cjk"] or match["year"]) == moment.year % 100
            and (match["cjk"] or _dateparser(f"1 {match['month']} 2000", language, settings))
        )
        for match in _SHORT_YEAR.finditer(with_hour)
    )
    return moment if any(is_dated) else None


def _written_out(text: str, language: str) -> str:
    """The text as dateparser knows it.

    It knows few notations of times, no ordinal marks, no Turkish I without a dot, no year behind the month in Japanese,
    not all names that months have in Arabic, and takes มี.ค. (March) for January.
    """
    text = _MARK.sub(", ", _ORDINAL.sub("", _YEAR_BEHIND.sub(r"\2\1", text)))
    text = _BESIDE_TIME.sub("", _HALF_OF_DAY.sub(r" \1m", text))
    if months := _months(primary(language)):
        names = "|".join(map(re.escape, months))
        text = re.sub(rf"(?<![^\W\d])({names})\.?(?![^\W\d])", lambda month: f" {months[month[1]]} ", text)
    return lower(" ".join(text.split()), language) if has_two_i(language) else " ".join(text.split())


@lru_cache(maxsize=256)
def _hour(language: str) -> re.Pattern[str]:
    """Matches an hour with `h`, or with the language's word for it: 21h30, 20 h, 18 Uhr, 18時."""
    locale = locale_of(language)
    word = re.escape(re.sub(r"[H'\s]", "", locale.datetime_skeletons["H"].pattern)) if locale else ""
    words = "|".join(filter(None, ("h", word, _CLOCK_WORDS.get(primary(language)))))
    minutes = r"(?:\s?([0-5]\d)(?:\s?(?:min|分|분))?)?"
    return re.compile(rf"(?<![\d:.,–-])([01]?\d|2[0-3])\s?(?:{words}){minutes}(?!\w|\s?\d)", re.IGNORECASE)


@lru_cache(maxsize=8)
def _months(language: str) -> dict[str, str]:
    """What dateparser calls a month, by a name that it does not know, longer names first; both are CLDR's."""
    if language not in _OTHER_MONTHS:
        return {}
    other, known = (Locale.parse(tag).months["format"][width].values() for tag, width in _OTHER_MONTHS[language])
    pairs = ((name.rstrip("."), meant) for name, meant in zip(other, known, strict=True))
    return dict(sorted(pairs, key=lambda pair: -len(pair[0])))


def _dateparser(
    text: str, language: str, settings: dict[str, Any], formats: list[str] | None = None
) -> datetime | None:
    name = _OTHER_NAMES.get(primary(language), primary(language))
    known = name if name in _known_languages() else "en"
    try:
        moment: datetime | None = dateparser.parse(text, date_formats=formats, languages=[known], settings=settings)
    except (ValueError, OverflowError, RecursionError):  # digits outside any calendar
        return None
    return moment


@lru_cache(maxsize=1)
def _known_languages() -> frozenset[str]:
    from dateparser.data.languages_info import language_order  # type: ignore[import-untyped]  # ships no types

    return frozenset(language_order)
