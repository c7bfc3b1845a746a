"""Days of the week that texts name: in full, in the plural, abbreviated where an abbreviation can be nothing else, and
those within a range.

Names and abbreviations are those of CLDR. "So", "Do" and "Mi", "sun" and "sat", "mar" and "mer" are words, too, so an
abbreviation names a day only beside another one ("Sa. u. So."), before a colon, a time or more of its sentence after a
full stop ("Mo.: Ruhetag", "Fri 9–5"), or alone in the cell of a table. "Segunda" and "quinta" are ordinal numbers, too:
they name days in a range ("segunda a sexta"), beside "terça-feira" and its kind, and after "às" or "todas as", unless a
noun follows.
"""

import re
from functools import cache
from itertools import pairwise

from almanac.query.answering.cldr_names import cldr_names, day_key
from almanac.query.answering.figure_words import PREFIXES

_OTHER_ABBREVIATIONS = {
    "mo": 0,
    "tu": 1,
    "tues": 1,
    "we": 2,
    "weds": 2,
    "th": 3,
    "thur": 3,
    "thurs": 3,
    "sa": 5,
    "su": 6,
}
# Portuguese days without "-feira" are ordinal numbers, in Spanish, too
_ORDINALS = {"segunda": 0, "terça": 1, "quarta": 2, "quinta": 3, "sexta": 4}
_OTHER_NAMES = {"sonnabend": 5} | {f"{name}s-feira": number for name, number in _ORDINALS.items()}
_EACH = re.compile(r"(?<!\w)(?:às|todas? as|toda) $", re.IGNORECASE)
_NOUN_FOLLOWS = re.compile(r"\s+(?!(?:e|ou|a|à|às|até|das)\b)[^\W\d]", re.IGNORECASE)
_LONGEST_EACH = 10  # characters
_CHINESE = {"一": 0, "二": 1, "三": 2, "四": 3, "五": 4, "六": 5, "日": 6, "天": 6}

_DASH = re.compile(r"\.?\s?(?:[-–—~～]|bis|au|t/m|tot en met|по)\s?", re.IGNORECASE)
_OTHER_RANGE = re.compile(
    r"\.?(?:\s(?:to|till|until|through|thru|à|a|al|até(?: à)?|tot|đến|do|til|till och med)\s(?:el |o )?|至|到)",
    re.IGNORECASE,
)
_LIST = re.compile(r"\.?(?:\s?[,/&+]\s?|\s(?:and|und|u\.|et|y|e|en|og|och|i|и|và)\s(?:le |el |o )?)", re.IGNORECASE)
_LONGEST_LINK = 14  # characters between the days of a range or list
_TIME = re.compile(r"\s\d{1,2}(?:[:.h]\d\d|\s?h\b|\s?Uhr\b|\s?[ap]\.?m\b|\s?[-–]\s?\d)")
_COLON = re.compile(r"\.?\s?[:：]")
_STOP = re.compile(r"\.,?\s?[\d(–-]|\.,?\s(?=[^\W\d_])|\.,")
_CELL_ENDS = re.compile(r"\.?\s*(?:\||\Z)")
# letters from which on an abbreviation in small letters may stand before a time: "sam. 9 h", and not "so 10 Uhr"
_LONG = 3


def weekdays_in(text: str) -> frozenset[int]:
    """The days of the week that a text names, Monday being 0; of "Tuesday to Friday", the days between, too."""
    found = list(_days().finditer(text))
    numbers = [_number(match) for match in found]
    lasts = [(first, match["last"] or match["until"]) for first, match in zip(numbers, found, strict=True)]
    days = {(first + n) % 7 for first, last in lasts if last for n in range((_CHINESE[last] - first) % 7 + 1)}
    named = [
        match["name"] is not None or match["chinese"] is not None or _stands_as_day(text, match) for match in found
    ]
    pairs = list(pairwise(enumerate(found)))
    for (a, first), (b, last) in [*pairs, *reversed(pairs)]:
        link = text[first.end() : last.start()] if last.start() - first.end() <= _LONGEST_LINK else ""
        is_dash = bool(_DASH.fullmatch(link))
        if numbers[a] == numbers[b] or not (is_dash or _OTHER_RANGE.fullmatch(link) or _LIST.fullmatch(link)):
            continue
        is_range = not _LIST.fullmatch(link)
        is_beside = is_range or any(
            named[n] and (_is_ordinal(found[n]) or found[n][0].casefold().endswith(("-feira", "-feiras")))
            for n in (a, b)
        )
        # "He sat in the sun and sat on": in small letters, without full stops, only a dash makes days of two words.
        if is_dash or all(
            named[n] or _is_written_as_day(text, found[n]) or (is_beside and _may_be_day(text, found[n]))
            for n in (a, b)
        ):
            named[a] = named[b] = True
            if is_range:
                days.update((numbers[a] + n) % 7 for n in range(1, (numbers[b] - numbers[a]) % 7))
    return frozenset(days.union(number for number, is_named in zip(numbers, named, strict=True) if is_named))


def _stands_as_day(text: str, match: re.Match[str]) -> bool:
    """Whether an abbreviation by itself is a day."""
    is_written = _is_written_as_day(text, match)
    if _TIME.match(text, match.end() + text.startswith(".", match.end())):
        return is_written or len(match[0]) >= _LONG
    if _may_be_day(text, match) and _EACH.search(text[max(0, match.start() - _LONGEST_EACH) : match.start()]):
        return True
    if not is_written:
        return False
    if _COLON.match(text, match.end()):
        return True
    if stop := _STOP.match(text, match.end()):
        return not text[stop.end() : stop.end() + 1].isupper()  # "So. That was it", "Fr. Müller"
    end = _CELL_ENDS.match(text, match.end())
    return end is not None and "|" in text and _begins_cell(text, match.start())


def _begins_cell(text: str, place: int) -> bool:
    while place and text[place - 1].isspace():
        place -= 1
    return not place or text[place - 1] == "|"


def _may_be_day(text: str, match: re.Match[str]) -> bool:
    """Whether it is a Portuguese ordinal number without a noun: "às quintas", and not "às quintas salas"."""
    return _is_ordinal(match) and not _NOUN_FOLLOWS.match(text, match.end())


def _is_ordinal(match: re.Match[str]) -> bool:
    return match["short"] is not None and day_key(match["short"]).rstrip("s") in _ORDINALS


def _is_written_as_day(text: str, match: re.Match[str]) -> bool:
    return match[0][0].isupper() or text.startswith(".", match.end())


def _number(match: re.Match[str]) -> int:
    if match["chinese"]:
        return _CHINESE[match["chinese"]]
    return _names()[day_key(match["name"])] if match["name"] else _abbreviations()[day_key(match["short"])]


@cache
def _days() -> re.Pattern[str]:
    names, short = (
        "|".join(sorted(map(re.escape, known), key=len, reverse=True)) for known in (_names(), _abbreviations())
    )
    chinese = "".join(_CHINESE)
    to = chinese.replace("天", "")
    return re.compile(
        rf"(?<!\w)(?:[{PREFIXES}]?(?P<name>{names})(?:s|e|en)?|(?P<short>{short}))(?!\w)"
        # "周一至五" is a range; "每周三至五天", "周五至日本" and "周五到天津" are none.
        rf"|(?:[星周]期?|礼拜)(?P<chinese>[{chinese}])(?:[至–~～-](?P<last>[{to}])(?![天次人个個月号號日小年节節周楼樓本亚亞川十百])"
        rf"|到(?P<until>[{to}])(?=\Z|[^\w]|\d{{1,2}}[:：点點时時]))?",
        re.IGNORECASE,
    )


@cache
def _names() -> dict[str, int]:
    """Number of the day by the key of its name."""
    return cldr_names().days | _OTHER_NAMES


@cache
def _abbreviations() -> dict[str, int]:
    """Number of the day by the key of its abbreviation, without a full stop."""
    ordinals = _ORDINALS | {f"{name}s": number for name, number in _ORDINALS.items()}
    return (
        ordinals
        | _OTHER_ABBREVIATIONS
        | {name: number for name, number in cldr_names().short_days.items() if name not in _names()}
    )
