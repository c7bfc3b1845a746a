"""Figures of a text, numbers, dates and times as written in any language, and whether other texts state them too."""

import re
import unicodedata
from collections.abc import Callable, Iterable
from decimal import Decimal
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from almanac.core.invisible import without_invisible
from almanac.core.multiplier_words import POWERS
from almanac.query.answering.figure_words import (
    AFTER_NOON,
    AFTER_NOON_FIRST,
    AMBIGUOUS_MONTHS,
    BEFORE_NOON,
    BEFORE_NOON_FIRST,
    PERCENT,
    month_of,
    units,
    with_digits,
)

Atom = tuple[str, ...]  # ("number", "9500000"), ("date", "2026", "11", "14"), …
_Atoms = frozenset[Atom]


class Figure(NamedTuple):
    """A figure of a text.

    `readings` are what it may mean: a text states the figure if it shows all atoms of one of them. `shows` is what the figure itself shows. `is_count` is
    whether it may be a count or an age, a whole number below 100 without currency, unit or percent sign.
    """

    text: str
    readings: tuple[_Atoms, ...]
    shows: _Atoms
    is_count: bool = False


def figures_of(text: str) -> list[Figure]:
    """The figures of a text written in digits, of whatever script. Addresses (URLs, e-mail) are left out; numbers in words are no figures."""
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
                found.add(_IS_PERCENT)
        self.atoms = frozenset(found)

    def has(self, figure: Figure) -> bool:
        """Whether one of the figure's readings is stated."""
        return any(reading <= self.atoms for reading in figure.readings)

    def joined(self, other: "Stated") -> "Stated":
        """What either states."""
        made = Stated(())
        made.atoms = self.atoms | other.atoms
        return made


_IS_PERCENT: Atom = ("percent",)
_PERCENT = re.compile(PERCENT, re.IGNORECASE)
_READ, _READ_TIME = "\0", "\1"  # stand for characters that have been read, so that places stay
_START = r"(?<![\w\0\1.,:/])"
_JOIN = r"\s*(?:[-–—~〜～…]|to|till|until|through|bis|à|au|al?|e|y|às?|and|und|et|or|oder|và|đến|tới|до|по|и|עד|ועד|إلى|الى|حتى|و|至|到|から|부터|,|;|&)\s*"
_DASH = r"\s*(?:[-–—~〜～]|to|till|until|through|bis|à|al?|às?|đến|tới|до|по|עד|ועד|إلى|الى|حتى|至|到|から|부터)\s*"
_DAY = r"\d{1,2}(?:st|nd|rd|th|er|re|º|ª|°|\.)?(?!\d)"
_DAYS = rf"(?P<days>{_DAY}(?:{_JOIN}{_DAY}){{0,8}})"
_NAME = r"[^\s\d\0\1.,:;!?()\[\]/\\|*_«»\"“”-]{3,12}"
_YEAR = r"(?:\s*(?:,|de|del|of|năm|/|г\.)?\s*(?P<year>(?:1[0-9]|2[0-9])\d\d)(?!\d))"
_MONTH_NUMBER = r"(?:tháng|thg\.?)\s*(?P<number>1[0-2]|0?[1-9])(?!\d)"
_HOUR = r"h(?:rs?|eures?|oras?|ours?)?\b|uhr\b|o['’]clock|giờ|час(?:ов|а)?\b|ч\b|godz\w*|時(?!間)|时|点|點|시(?!간)|बजे"
_SURE_HOUR = re.compile(r"uhr|o['’]clock|時|时|बजे", re.IGNORECASE)
_AT = r"\b(?:at|um|gegen|ab|a las?|às|alle|lúc|kl\.?|в|с)|בשעה|الساعة|時刻"
_NOON = rf"(?:(?P<am>{BEFORE_NOON})|(?P<pm>{AFTER_NOON}))"
_NOON_FIRST = rf"(?:(?P<am_first>{BEFORE_NOON_FIRST})|(?P<pm_first>{AFTER_NOON_FIRST}))"
_NUMBER = r"\d{1,3}(?:[ '’]\d{3})+(?!\d)(?:[.,]\d{1,2}(?!\d))?|\d+(?:[.,]\d+)*"
_OTHER_POWERS = {"mil": 3, "billion": 9, "billions": 9}
_POWER_WORDS = "|".join(sorted(map(re.escape, [*POWERS, *_OTHER_POWERS]), key=len, reverse=True))
_POWER = re.compile(rf"\s?({_POWER_WORDS})\.?(?![^\W\d_])", re.IGNORECASE)
_CJK_POWERS = "百千仟万萬億亿兆백천만억조"
_CURRENCY_BEFORE = re.compile(r"(?:[^\W\d_]*\$|[₠-⃏£¥￥]|\b(?:usd|eur|vnd|gbp|chf|jpy|inr|rs\.?|nis|ils))\s?$", re.IGNORECASE)
_WORD_AFTER = re.compile(r"[\s-]?([^\s\d\0\1.,:;!?()\[\]/\\|*_-]+)")
_CODE_BEFORE = re.compile(r"(?:^|[^\w])([A-Z]{2,5})[ -]$")


def _plain(text: str) -> str:
    """The text with ASCII digits, separators and full-width signs, without marks of direction."""
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
    return unicodedata.normalize("NFKC", c) if kind in ("<wide>", "<narrow>", "<noBreak>", "<compat>") and unicodedata.category(c) != "No" else c


_PLAIN = {"٪": "%", "٫": ".", "٬": ",", "،": ",", "−": "-", "‐": "-", "‑": "-", "‒": "-", "⁄": "/", "״": '"', "׳": "'", "\u2009": " ", "\u202f": " "}
_FRACTIONS = {"½": ".5", "¼": ".25", "¾": ".75"}


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

    def _take(self, match: re.Match[str], reader: "_Read", mask: str) -> str:
        figures = reader(match, self)
        if figures is None:
            return match[0]
        self.found += [(match.start(), figure) for figure in figures]
        return mask * len(match[0])


_Read = Callable[[re.Match[str], _Reader], list[Figure] | None]


def _no_figure(_match: re.Match[str], _reader: _Reader) -> list[Figure]:
    return []


def _number(value: Decimal | int | str) -> Atom:
    return ("number", format(Decimal(value).normalize(), "f"))


def _as(text: str, *readings: Iterable[Atom], shows: Iterable[Atom] = (), is_count: bool = False) -> Figure:
    sets = tuple(frozenset(reading) for reading in readings)
    return Figure(text, sets, frozenset(shows).union(*sets), is_count)


def _date(text: str, day: int, month: int, year: int | None) -> Figure | None:
    if not (1 <= day <= 31 and 1 <= month <= 12):
        return None
    d, m = str(day), str(month)
    shows: set[Atom] = {("day", m, d), ("month", m), ("ordinal", d)}
    if year is None:
        return _as(text, [("day", m, d)], shows={*shows, ("any year", m, d)})
    full: Atom = ("date", str(year), m, d)
    # The year may stand apart from the day: "Departures in 2026: 14 November".
    return Figure(text, (frozenset({full}), frozenset({("any year", m, d), _number(year)})), frozenset({*shows, full, ("month", m, str(year)), _number(year)}))


def _month(text: str, month: int, year: int | None) -> Figure:
    if year is None:
        return _as(text, [("month", str(month))], shows=[("any year", str(month))])
    full: Atom = ("month", str(month), str(year))
    return Figure(text, (frozenset({full}), frozenset({("any year", str(month)), _number(year)})), frozenset({full, ("month", str(month)), _number(year)}))


def _either(text: str, figures: Iterable[Figure | None]) -> list[Figure] | None:
    """One figure that may be any of these; None where there is none."""
    known = [figure for figure in figures if figure is not None]
    if not known:
        return None
    return [Figure(text, tuple(r for f in known for r in f.readings), frozenset().union(*(f.shows for f in known)), all(f.is_count for f in known))]


def _year(text: str) -> int:
    return int(text) + (2000 if len(text) == 2 else 0)


def _iso_date(match: re.Match[str], _: _Reader) -> list[Figure] | None:
    return _either(match[0], [_date(match[0], int(match["d"]), int(match["m"]), int(match["y"]))])


def _numeric_date(match: re.Match[str], _: _Reader) -> list[Figure] | None:
    a, b, year = int(match["a"]), int(match["b"]), _year(match["y"])
    return _either(match[0], [_date(match[0], a, b, year), _date(match[0], b, a, year)])


def _short_date(match: re.Match[str], _: _Reader) -> list[Figure]:
    a, b = int(match["a"]), int(match["b"])
    parts = _as(match[0], [_number(a), _number(b)])  # 24/7
    return _either(match[0], [_date(match[0], a, b, None), _date(match[0], b, a, None), parts]) or [parts]


def _named_date(match: re.Match[str], _: _Reader) -> list[Figure] | None:
    groups = match.groupdict()
    word, number = groups.get("name"), groups.get("number")
    month = int(number) if number else month_of(word or "")
    if month is None:
        return None
    year = int(groups["year"]) if groups.get("year") else None
    if not groups.get("days"):
        return [_month(match[0], month, year)]
    days = [int(day) for day in re.findall(r"\d+", groups["days"])]
    figures = [_date(match[0], day, month, year) for day in days]
    if (word or "").casefold().rstrip(".") in AMBIGUOUS_MONTHS and year is None:
        return _either(match[0], [*figures, _as(match[0], [_number(day) for day in days])])
    return None if None in figures else [figure for figure in figures if figure]


def _cjk_date(match: re.Match[str], _: _Reader) -> list[Figure] | None:
    year = _year(match["y"]) if match["y"] else None
    month = int(match["m"])
    if not match["d"]:
        return [_month(match[0], month, year)] if 1 <= month <= 12 else None
    return _either(match[0], [_date(match[0], int(match["d"]), month, year)])


def _time(text: str, hour: int, minute: int, *, half: bool | None, plain: Iterable[Iterable[Atom]] = (), shows: Iterable[Atom] = ()) -> Figure | None:
    """A time of day. `half` is False for a.m., True for p.m., None where nothing says which; `plain` are readings as numbers."""
    if hour > 24 or minute > 59:
        return None
    clock: Atom = ("clock", str(hour), str(minute))  # as a twelve-hour clock shows it
    if half is not None and hour <= 12:
        return _as(text, [("time", str((hour % 12 + 12 * half) * 60 + minute))], *plain, shows=[clock, *shows])
    exact = _as(text, [("time", str(hour % 24 * 60 + minute))], *plain, shows=shows)
    return exact if hour > 12 or half is not None else exact._replace(readings=(*exact.readings, frozenset({clock})))


def _half(match: re.Match[str]) -> bool | None:
    groups = match.groupdict()
    return True if groups.get("pm") or groups.get("pm_first") else False if groups.get("am") or groups.get("am_first") else None


def _clock(match: re.Match[str], _: _Reader) -> list[Figure] | None:
    hour, minute, separator = int(match["h"]), int(match["m"]), match["sep"]
    half = _half(match)
    if separator == "." and half is None and not match["word"]:
        return None
    amounts = [] if separator in ":." else [[_number(hour), _number(minute)]]  # 2h30 may be two hours and thirty minutes
    return _either(match[0], [_time(match[0], hour, minute, half=half, plain=amounts)])


def _hours(match: re.Match[str], _: _Reader) -> list[Figure] | None:
    word, half, hour = match["word"] or "", _half(match), int(match["h"])
    if not word and half is None and not match["at"]:
        return None
    if word.casefold() == "uhr" and match["am"]:
        half = None  # "um 9 Uhr am Montag"
    minute = 30 if match["half"] else 0
    plain = [] if half is not None or _SURE_HOUR.match(word) or minute else [[_number(hour)]]
    found = _time(match[0], hour, minute, half=half, plain=plain)
    return [found] if found else None


def _hour_before_time(match: re.Match[str], _: _Reader) -> list[Figure] | None:
    """The first hour of "9–11:30 a.m." and "from 9 to 17 Uhr"."""
    hour = int(match["h"])
    if hour > 24:
        return None
    times = [_time(match["h"], hour, 0, half=half) for half in ((None, False, True) if hour <= 12 else (None,))]
    return _either(match["h"], [*times, _as(match["h"], [_number(hour)])])


def _range(match: re.Match[str], _: _Reader) -> list[Figure] | None:
    """Both ends of "10–18", which may be hours."""
    first, last = int(match["a"]), int(match["b"])
    if first > 24 or last > 24:
        return None
    ends = [[_time(match["a"], first, 0, half=None)], [_time(match["b"], last, 0, half=None)]]
    if last <= 12 and last < first:  # from 9 to 5
        ends[1].append(_time(match["b"], last, 0, half=True))
    made = []
    for number, times in ((first, ends[0]), (last, ends[1])):
        made += _either(str(number), [*times, _as(str(number), [_number(number)])]) or []
    return made


def _phone(match: re.Match[str], _: _Reader) -> list[Figure] | None:
    digits = re.sub(r"\D", "", match[0])
    if not 7 <= len(digits) <= 15:
        return None
    return [_as(match[0], [("digits", digits[-8:])])]


def _code(match: re.Match[str], _: _Reader) -> list[Figure] | None:
    code = re.sub(r"[-_/]", "", match[0]).casefold()
    numbers = [_number(part) for part in re.findall(r"\d+", match[0])]
    readings: list[list[Atom]] = [[("code", code)]]
    letters = re.match(r"[^\W\d_]+", match[0])
    if "-" in match[0] or (letters and letters[0].casefold() in units()):  # pre-2020; EUR15
        readings.append(numbers)
    return [_as(match[0], *readings)]


def _cjk_number(match: re.Match[str], _: _Reader) -> list[Figure]:
    """A number with powers of ten within: 9万5千, 1억 2천만."""
    value = Decimal(0)
    for number, powers in re.findall(rf"(\d+(?:[.,]\d+)*)\s?([{_CJK_POWERS}]*)", match[0]):
        value += _values(number)[0].scaleb(sum(POWERS[power] for power in powers))
    return [_as(match[0], [_number(value)])]


def _sum(match: re.Match[str], _: _Reader) -> list[Figure]:
    """A number in parts: 12 triệu 500 nghìn."""
    parts = re.findall(rf"({_NUMBER})\s?({_POWER_WORDS})", match[0], re.IGNORECASE)
    values = [_values(number)[0].scaleb(POWERS.get(word.casefold()) or _OTHER_POWERS[word.casefold()]) for number, word in parts]
    return [_as(match[0], [_number(sum(values, Decimal(0)))], [_number(value) for value in values])]


def _plain_number(match: re.Match[str], reader: _Reader) -> list[Figure]:
    written = match["n"]
    before, after = reader.text[max(0, match.start() - 8) : match.start()], reader.text[match.end() : match.end() + 40]
    values = _values(written)
    powers = _powers(after)
    if powers:
        scaled = [value.scaleb(powers.power) for value in values]
        # A single letter may be something else: 5 m, 4K.
        values = [*scaled, *values] if powers.is_unsure else scaled
    readings: list[list[Atom]] = [[_number(value)] for value in values]
    parts = re.split(r"[ '’]", written)
    if len(parts) > 1:
        readings.append([_number(_values(part)[0]) for part in parts])
    is_percent = bool(_PERCENT.match(after.lstrip(" -"))) or bool(re.search(r"(?:百分之|yüzde|%)\s?$", before))
    if is_percent:
        readings = [[*reading, _IS_PERCENT] for reading in readings]
    if code := _CODE_BEFORE.search(before):
        readings.append([("code", code[1].casefold() + written)])
    if re.match(r"(?:st|nd|rd|th|er|re|e|ème|º|ª)(?!\w)", after):
        readings.append([("ordinal", written)])
    if two := re.fullmatch(r"(\d{1,2})\.(\d{2})", written):  # 14.11, 17.30
        day, time = _date(written, int(two[1]), int(two[2]), None), _time(written, int(two[1]), int(two[2]), half=None)
        readings += [list(reading) for figure in (day, time) if figure for reading in figure.readings]
    digits = re.sub(r"\D", "", written)
    shows: list[Atom] = [_number(value) for value in values]
    if len(digits) >= 7:
        shows.append(("digits", digits[-8:]))
    is_measured = is_percent or powers or _CURRENCY_BEFORE.search(before) or _has_unit(after)
    return [_as(match[0], *readings, shows=shows, is_count=not is_measured and written.isdigit() and int(written) < 100)]


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
    is_grouped = all(len(group) in (2, 3) for group in groups[1:-1]) and len(groups[-1]) == 3 and 1 <= len(groups[0]) <= 3
    if len(set(marks)) == 2:
        return [Decimal("".join(groups[:-1]) + "." + groups[-1])] if all(a == b for a, b in pairwise(marks[:-1])) else [Decimal(g) for g in groups]
    if len(marks) > 1:
        return [joined] if is_grouped else [Decimal(group) for group in groups]
    decimal = Decimal(".".join(groups))
    return [joined, decimal] if is_grouped and groups[0] != "0" else [decimal]


_FLAGS = re.IGNORECASE
_READERS: tuple[tuple[re.Pattern[str], _Read, str], ...] = (
    (re.compile(r"https?://\S+|www\.\S+|\S+@\S+\.\w+|(?<=[\d\s])[ckd]?m[23]\b", _FLAGS), _no_figure, _READ),
    (re.compile(rf"{_START}(?P<y>[12]\d{{3}})(?P<s>[-/.])(?P<m>\d{{1,2}})(?P=s)(?P<d>\d{{1,2}})(?!\d)", _FLAGS), _iso_date, _READ),
    (re.compile(rf"{_START}(?P<a>\d{{1,2}})(?P<s>[-/.])\s?(?P<b>\d{{1,2}})(?P=s)\s?(?P<y>\d{{4}}|\d{{2}})(?![\d])", _FLAGS), _numeric_date, _READ),
    (re.compile(r"(?:(?P<y>\d{4})\s*[年년]\s*)?(?<!\d)(?P<m>\d{1,2})\s*[月월]\s*(?:(?P<d>\d{1,2})\s*[日일号號])?"), _cjk_date, _READ),
    (re.compile(rf"(?<![\d.,:/\0\1]){_DAYS}(?:\s*(?:(?:de|of)\s|d['’]))?[\s-]*(?:{_MONTH_NUMBER}|(?P<name>{_NAME}))\.?{_YEAR}?", _FLAGS), _named_date, _READ),
    (re.compile(rf"(?<!\w){_MONTH_NUMBER}{_YEAR}?", _FLAGS), _named_date, _READ),
    (re.compile(rf"(?<!\w)(?P<name>{_NAME})\.?\s+{_DAYS}{_YEAR}?", _FLAGS), _named_date, _READ),
    (re.compile(rf"(?<!\w)(?P<name>{_NAME})\.?{_YEAR}", _FLAGS), _named_date, _READ),
    (re.compile(rf"{_START}(?P<a>\d{{1,2}})/(?P<b>\d{{1,2}})(?![\d/])"), _short_date, _READ),
    (
        re.compile(
            rf"(?:{_NOON_FIRST}\s?|\0t)?(?<![\d.,:/])(?P<h>\d{{1,2}})\s?(?P<sep>:|\.|g|h|{_HOUR})\s?(?P<m>[0-5]\d)(?![\d])(?!\.\d)(?::\d\d(?:\.\d+)?)?(?!:)"
            rf"(?:\s?(?:分|phút|분))?(?:\s?(?P<word>{_HOUR}))?(?:\s?{_NOON})?",
            _FLAGS,
        ),
        _clock,
        _READ_TIME,
    ),
    (
        re.compile(
            rf"(?:{_NOON_FIRST}\s?|(?P<at>{_AT})[\s-]?)?(?<![\d.,:/])(?P<h>\d{{1,2}})(?![\d:/]|[.,]\d)(?:\s?(?P<word>{_HOUR})(?P<half>半)?)?(?:\s?{_NOON})?",
            _FLAGS,
        ),
        _hours,
        _READ_TIME,
    ),
    (re.compile(rf"(?<![\d.,:/])(?P<h>\d{{1,2}}){_DASH}(?:(?:um|às?|las?|les?|{_AT})\s*)?(?=\x01)", _FLAGS), _hour_before_time, _READ_TIME),
    (re.compile(rf"(?<![\d.,:/])(?P<a>\d{{1,2}}){_DASH}(?P<b>\d{{1,2}})(?![\d:/%]|[.,]\d|\s?%|{_DASH}\d)", _FLAGS), _range, _READ),
    (re.compile(r"(?<![\w.,])(?:\+|\(?0|1[-. ]?[89]00[-. ])[\d\s().\-–/]{5,20}\d(?!\d|,\d)"), _phone, _READ),
    (re.compile(r"(?<![\w\0\1])(?=[\w/-]*\d)[A-Za-zÀ-ɏΑ-ωА-я][\w]*(?:[-_/][\w]+)*"), _code, _READ),
    (re.compile(rf"(?<!\d)(?:\d+(?:[.,]\d+)*\s?[{_CJK_POWERS}]+(?![克米瓦])\s?)+(?:\d{{1,4}}(?![\d.,]))?"), _cjk_number, _READ),
    (re.compile(rf"(?<!\d)(?:(?:{_NUMBER})\s(?:{_POWER_WORDS})\s){{1,3}}(?:{_NUMBER})\s(?:{_POWER_WORDS})\b", _FLAGS), _sum, _READ),
    (re.compile(rf"(?<!\d)(?P<n>{_NUMBER})"), _plain_number, _READ),
)
