"""Times of day in texts, and ranges of hours."""

import re
from collections.abc import Iterable

from almanac.query.answering.figure import READ, READ_TIME, Atom, Figure, Reader, either, figure_as, number_of
from almanac.query.answering.figure_words import AFTER_NOON, AFTER_NOON_FIRST, BEFORE_NOON, BEFORE_NOON_FIRST

_DASH = r"\s*(?:[-–—~〜～]|to|till|until|through|bis|à|al?|às?|đến|tới|до|по|עד|ועד|إلى|الى|حتى|至|到|から|부터)\s*"
_HOUR = r"h(?:rs?|eures?|oras?|ours?)?\b|uhr\b|o['’]clock|giờ|час(?:ов|а)?\b|ч\b|godz\w*|時(?!間)|时|点|點|시(?!간)|बजे"
_SURE_HOUR = re.compile(r"uhr|o['’]clock|時|时|बजे", re.IGNORECASE)
_LABELS = re.compile(r":\s")  # "Children 5–11: 30 €"
_AT = r"\b(?:at|um|gegen|ab|a las?|às|alle|lúc|kl\.?|в|с)|בשעה|الساعة|時刻"
_NOON = rf"(?:(?P<am>{BEFORE_NOON})|(?P<pm>{AFTER_NOON}))"
_NOON_FIRST = rf"(?:(?P<am_first>{BEFORE_NOON_FIRST})|(?P<pm_first>{AFTER_NOON_FIRST}))"


def time_of(
    text: str,
    hour: int,
    minute: int,
    *,
    half: bool | None,
    plain: Iterable[Iterable[Atom]] = (),
    shows: Iterable[Atom] = (),
) -> Figure | None:
    """A time of day. `half` is False for a.m., True for p.m., None where nothing says which; `plain` are readings as
    numbers.
    """
    if hour > 24 or minute > 59:
        return None
    clock: Atom = ("clock", str(hour), str(minute))  # as a twelve-hour clock shows it
    if half is not None and hour <= 12:
        return figure_as(text, [("time", str((hour % 12 + 12 * half) * 60 + minute))], *plain, shows=[clock, *shows])
    exact = figure_as(text, [("time", str(hour % 24 * 60 + minute))], *plain, shows=shows)
    return exact if hour > 12 or half is not None else exact._replace(readings=(*exact.readings, frozenset({clock})))


def _half(match: re.Match[str]) -> bool | None:
    groups = match.groupdict()
    return (
        True
        if groups.get("pm") or groups.get("pm_first")
        else False
        if groups.get("am") or groups.get("am_first")
        else None
    )


def _clock(match: re.Match[str], _: str) -> list[Figure] | None:
    hour, minute, separator = int(match["h"]), int(match["m"]), match["sep"]
    half = _half(match)
    if half is None and not match["word"] and (separator == "." or _LABELS.search(match[0])):
        return None
    # 2h30 may be two hours and thirty minutes
    amounts = [] if separator in ":." else [[number_of(hour), number_of(minute)]]
    return either(match[0], [time_of(match[0], hour, minute, half=half, plain=amounts)])


def _hours(match: re.Match[str], _: str) -> list[Figure] | None:
    word, half, hour = match["word"] or "", _half(match), int(match["h"])
    if not word and half is None and not match["at"]:
        return None
    if word.casefold() == "uhr" and match["am"]:
        half = None  # "um 9 Uhr am Montag"
    minute = 30 if match["half"] else 0
    plain = [] if half is not None or _SURE_HOUR.match(word) or minute else [[number_of(hour)]]
    found = time_of(match[0], hour, minute, half=half, plain=plain)
    return [found] if found else None


def _hour_before_time(match: re.Match[str], _: str) -> list[Figure] | None:
    """The first hour of "9–11:30 a.m." and "from 9 to 17 Uhr"."""
    hour = int(match["h"])
    if hour > 24:
        return None
    times = [time_of(match["h"], hour, 0, half=half) for half in ((None, False, True) if hour <= 12 else (None,))]
    return either(match["h"], [*times, figure_as(match["h"], [number_of(hour)])])


def _range(match: re.Match[str], _: str) -> list[Figure] | None:
    """Both ends of "10–18", which may be hours."""
    first, last = int(match["a"]), int(match["b"])
    if first > 24 or last > 24:
        return None
    ends = [[time_of(match["a"], first, 0, half=None)], [time_of(match["b"], last, 0, half=None)]]
    if last <= 12 and last < first:  # from 9 to 5
        ends[1].append(time_of(match["b"], last, 0, half=True))
    made = []
    for number, times in ((first, ends[0]), (last, ends[1])):
        made += either(str(number), [*times, figure_as(str(number), [number_of(number)])]) or []
    return made


_FLAGS = re.IGNORECASE
TIMES: tuple[Reader, ...] = (
    (
        re.compile(
            rf"(?:{_NOON_FIRST}\s?|\0t)?(?<![\d.,:/])(?P<h>\d{{1,2}})\s?(?P<sep>:|\.|g|h|{_HOUR})\s?(?P<m>"
            r"[0-5]\d)(?![\d])(?!\.\d)(?::\d\d(?:\.\d+)?)?(?!:)"
            rf"(?:\s?(?:分|phút|분))?(?:\s?(?P<word>{_HOUR}))?(?:\s?{_NOON})?",
            _FLAGS,
        ),
        _clock,
        READ_TIME,
    ),
    (
        re.compile(
            rf"(?:{_NOON_FIRST}\s?|(?P<at>{_AT})[\s-]?)?(?<![\d.,:/])(?P<h>"
            rf"\d{{1,2}})(?![\d:/]|[.,]\d)(?:\s?(?P<word>{_HOUR})(?P<half>半)?)?(?:\s?{_NOON})?",
            _FLAGS,
        ),
        _hours,
        READ_TIME,
    ),
    (
        re.compile(rf"(?<![\d.,:/])(?P<h>\d{{1,2}}){_DASH}(?:(?:um|às?|las?|les?|{_AT})\s*)?(?=\x01)", _FLAGS),
        _hour_before_time,
        READ_TIME,
    ),
    (
        re.compile(rf"(?<![\d.,:/])(?P<a>\d{{1,2}}){_DASH}(?P<b>\d{{1,2}})(?![\d:/%]|[.,]\d|\s?%|{_DASH}\d)", _FLAGS),
        _range,
        READ,
    ),
)
