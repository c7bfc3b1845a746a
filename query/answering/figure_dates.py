"""Dates in texts: in digits or with names of months, in any order."""

import re

from almanac.query.answering.figure import READ, Atom, Figure, Reader, either, figure_as, number_of
from almanac.query.answering.figure_words import AMBIGUOUS_MONTHS, month_of

_START = r"(?<![\w\0\1.,:/])"
_JOIN = (
    r"\s*(?:[-–—~〜～…]|to|till|until|through|bis|à|au|al?|e|y|às?|and|und|et|or|oder|và|đến|tới|до|по|и|עד|ועד|إلى|"
    r"الى|حتى|و|至|到|から|부터|,|;|&)\s*"
)
_DAY = r"\d{1,2}(?:st|nd|rd|th|er|re|º|ª|°|\.)?(?!\d)"
_DAYS = rf"(?P<days>{_DAY}(?:{_JOIN}{_DAY}){{0,8}})"
_NO_MORE = r"(?!\d|[.,]\d(?!\d{3}(?!\d))|[ '’]\d{3}(?!\d))"  # "des 12 000 habitants" and "tem 9,50" are no days
_NAME = r"[^\s\d\0\1.,:;!?()\[\]/\\|*_«»\"“”-]{3,12}"
_YEAR = r"(?:\s*(?:,|de|del|of|năm|/|г\.)?\s*(?P<year>(?:1[0-9]|2[0-9])\d\d)(?!\d))"
_MONTH_NUMBER = r"(?:tháng|thg\.?)\s*(?P<number>1[0-2]|0?[1-9])(?!\d)"


def date_of(text: str, day: int, month: int, year: int | None) -> Figure | None:
    if not (1 <= day <= 31 and 1 <= month <= 12):
        return None
    d, m = str(day), str(month)
    shows: set[Atom] = {("day", m, d), ("month", m), ("ordinal", d)}
    if year is None:
        return figure_as(text, [("day", m, d)], shows={*shows, ("any year", m, d)})
    y = str(year)
    # The year may stand apart from the day: "Departures in 2026: 14 November".
    apart = frozenset({("any year", m, d), number_of(year)})
    return Figure(
        text,
        (frozenset({("date", y, m, d)}), apart),
        frozenset({*shows, ("date", y, m, d), ("month", m, y), number_of(year)}),
    )


def _month(text: str, month: int, year: int | None) -> Figure:
    if year is None:
        return figure_as(text, [("month", str(month))], shows=[("any year", str(month))])
    full: Atom = ("month", str(month), str(year))
    return Figure(
        text,
        (frozenset({full}), frozenset({("any year", str(month)), number_of(year)})),
        frozenset({full, ("month", str(month)), number_of(year)}),
    )


def _year(text: str) -> int:
    return int(text) + (2000 if len(text) == 2 else 0)


def _iso_date(match: re.Match[str], _: str) -> list[Figure] | None:
    return either(match[0], [date_of(match[0], int(match["d"]), int(match["m"]), int(match["y"]))])


def _numeric_date(match: re.Match[str], _: str) -> list[Figure] | None:
    a, b, year = int(match["a"]), int(match["b"]), _year(match["y"])
    return either(match[0], [date_of(match[0], a, b, year), date_of(match[0], b, a, year)])


def _short_date(match: re.Match[str], _: str) -> list[Figure]:
    a, b = int(match["a"]), int(match["b"])
    parts = figure_as(match[0], [number_of(a), number_of(b)])  # 24/7
    return either(match[0], [date_of(match[0], a, b, None), date_of(match[0], b, a, None), parts]) or [parts]


def _named_date(match: re.Match[str], _: str) -> list[Figure] | None:
    groups = match.groupdict()
    word, number = groups.get("name"), groups.get("number")
    month = int(number) if number else month_of(word or "")
    if month is None:
        return None
    year = int(groups["year"]) if groups.get("year") else None
    is_ambiguous = (word or "").casefold().rstrip(".") in AMBIGUOUS_MONTHS
    if not groups.get("days"):
        # "l'un des 1900 habitants"
        counted = [figure_as(match[0], [number_of(year)])] if is_ambiguous and year is not None else []
        return either(match[0], [_month(match[0], month, year), *counted])
    days = [int(day) for day in re.findall(r"\d+", groups["days"])]
    figures = [date_of(match[0], day, month, year) for day in days]
    if is_ambiguous and re.search(r"\d,\d", groups["days"]):
        return None
    if is_ambiguous and year is None:
        return either(match[0], [*figures, figure_as(match[0], [number_of(day) for day in days])])
    return None if None in figures else [figure for figure in figures if figure]


def _cjk_date(match: re.Match[str], _: str) -> list[Figure] | None:
    year = _year(match["y"]) if match["y"] else None
    month = int(match["m"])
    if not match["d"]:
        return [_month(match[0], month, year)] if 1 <= month <= 12 else None
    return either(match[0], [date_of(match[0], int(match["d"]), month, year)])


_FLAGS = re.IGNORECASE
DATES: tuple[Reader, ...] = (
    (
        re.compile(rf"{_START}(?P<y>[12]\d{{3}})(?P<s>[-/.])(?P<m>\d{{1,2}})(?P=s)(?P<d>\d{{1,2}})(?!\d)", _FLAGS),
        _iso_date,
        READ,
    ),
    (
        re.compile(
            rf"{_START}(?P<a>\d{{1,2}})(?P<s>[-/.])\s?(?P<b>\d{{1,2}})(?P=s)\s?(?P<y>\d{{4}}|\d{{2}})(?![\d])", _FLAGS
        ),
        _numeric_date,
        READ,
    ),
    (
        re.compile(r"(?:(?P<y>\d{4})\s*[年년]\s*)?(?<!\d)(?P<m>\d{1,2})\s*[月월]\s*(?:(?P<d>\d{1,2})\s*[日일号號])?"),
        _cjk_date,
        READ,
    ),
    (
        re.compile(
            rf"(?<![\d.,:/\0\1]){_DAYS}(?:\s*(?:(?:de|of)\s|d['’]))?[\s-]*(?:{_MONTH_NUMBER}|(?P<name>"
            rf"{_NAME}))\.?{_YEAR}?",
            _FLAGS,
        ),
        _named_date,
        READ,
    ),
    (re.compile(rf"(?<!\w){_MONTH_NUMBER}{_YEAR}?", _FLAGS), _named_date, READ),
    (re.compile(rf"(?<!\w)(?P<name>{_NAME})\.?\s+{_DAYS}{_NO_MORE}{_YEAR}?", _FLAGS), _named_date, READ),
    (re.compile(rf"(?<!\w)(?P<name>{_NAME})\.?{_YEAR}", _FLAGS), _named_date, READ),
    (re.compile(rf"{_START}(?P<a>\d{{1,2}})/(?P<b>\d{{1,2}})(?![\d/])"), _short_date, READ),
)
