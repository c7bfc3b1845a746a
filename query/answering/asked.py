"""What kind of thing a question asks for, in how many parts, and whether a sentence holds such a thing.

Questions are read by their interrogative words, in en fr es de it pt nl he vi, and roughly in ru ar zh ja; sentences by
their figures, in any writing.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, cached_property, lru_cache, partial
from itertools import islice
from typing import NamedTuple

from almanac.core.multiplier_words import POWERS
from almanac.index.lexical.analyzer import fold
from almanac.query.answering.asked_words import (
    ASKING,
    BEFORE_CLAUSE,
    CLAUSE,
    CONDITION,
    FURTHER,
    IN_LABELS,
    JOINED,
    JOINING,
    NAMED,
    POLITE,
    PREPOSITION,
    PRICE,
    REDUCTION,
    YES_OR_NO,
    Kind,
    Kinds,
)
from almanac.query.answering.contacts import holds_address, holds_email, holds_phone
from almanac.query.answering.figure import Atom
from almanac.query.answering.figure_weekdays import weekdays_in
from almanac.query.answering.figure_words import PERCENT, measures, money, time_units, with_digits
from almanac.query.answering.figures import figures_of

MEASURABLE: Kinds = frozenset(
    {
        "hour",
        "date",
        "price",
        "duration",
        "percentage",
        "number",
        "length",
        "weight",
        "temperature",
        "phone",
        "email",
        "address",
    }
)
"""Kinds that `holds` can tell."""
NAMING: Kinds = frozenset({"name", "person"})
"""Kinds that a heading may answer: the name of what stands below it."""
_BY_NAME: Kinds = frozenset({"name"})  # "Which is the price?" asks for a price


class Part(NamedTuple):
    """A part of a question: its text, what it asks for, any of `kinds` (empty where that is not known), and whether it
    is an interrogative word alone.
    """

    text: str
    kinds: Kinds
    is_bare: bool = False


_QUESTIONS = 16  # whose parts are remembered: an answer asks for them twice
_MOST_PARTS = 3
_MOST_OPENINGS = 30  # places at which a further part may begin; a text with more is no question
_BEFORE = 50  # characters before an interrogative word that tell whether it joins clauses
# sentences of which it is known what they hold, and the characters up to which they are remembered; some MB
_SENTENCES, _LONGEST = 1 << 13, 1_000
_COMMAS = frozenset(",;，、")

_FREE = re.compile(
    r"\b(?:free(?! of\b(?! charge))|gratis|gratuit\w*|kostenlos\w*|kostenfrei|umsonst|grátis|miễn "
    r"phí|бесплатн\w*)\b|חינם|ללא תשלום|مجان\w*|免费|免費|無料",
    re.IGNORECASE,
)
_NOON = re.compile(
    r"\b(?:noon|midday|midnight|midi|minuit|mediodía|medianoche|mittags?|mitternacht|mezzogiorno|mezzanotte|meio-d"
    r"ia|meia-noite|middernacht"
    r"|полдень|полночь|giữa trưa|nửa đêm)\b|בצהריים|חצות",
    re.IGNORECASE,
)
_ENDS_IN_PERCENT = re.compile(r"(?:%|٪|％)\s*(?:[.,;:!?)\]、。]|$)")
_IS_PERCENT = re.compile(rf"\d\s?(?:{PERCENT})|(?:百分之|%|yüzde)\s?\d", re.IGNORECASE)
_YEAR = re.compile(r"(?<![\w.,-])(?:(?:1[5-9]|20)\d\d|(?<=\b(?:in|en|im|ab|of|de|to) )1\d{3})(?![\d]|[.,]\d)")
# two years, in one Hebrew word
_DUAL = re.compile(r"(?<!\w)[ובלהמכש]?(?:שנתיים|שעתיים|יומיים|שבועיים|חודשיים|שעה|יום אחד|שבוע|חודש|שנה)(?!\w)")
_POWER_WORDS = "|".join(sorted(map(re.escape, [*POWERS, "mil", "billion"]), key=len, reverse=True))
_DIGIT = re.compile(r"(?<![A-Za-z\d])\d")  # a code such as TO1101 is no number
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_ONE = re.compile(r"(?<![\d.,])1(?![\d.,])")


@lru_cache(_QUESTIONS)
def asked_parts(question: str) -> tuple[Part, ...]:
    """The parts of a question in their order, at most three: two for "What does it cost and when does it leave?", one
    for most.
    """
    plain, places = _plain_with_places(question)
    begin = polite.end() if (polite := POLITE.match(plain)) else 0
    spans: list[tuple[int, int]] = []
    openings = (found for found in FURTHER.finditer(plain, begin) if _opens(plain[found.end() :]))
    for found in islice(openings, _MOST_OPENINGS):
        if _asks(plain[begin : found.start()], is_comma=found[0].strip() in _COMMAS):
            spans.append((begin, found.start()))
            begin = found.end()
        if len(spans) == _MOST_PARTS - 1:
            break
    spans.append((begin, len(plain)))
    if len(spans) == 1:
        kinds = _kinds_of(plain[begin:])
        named = () if "yes or no" in kinds else tuple(_parts_named(question, plain, places))
        return named or (Part(question, kinds),)
    return tuple(
        Part(
            question[places[start] : places[end]].strip(" ?？؟¿"),
            _kinds_of(plain[start:end]),
            _is_bare(plain[start:end]),
        )
        for start, end in spans
    )


def _parts_named(question: str, plain: str, places: Sequence[int]) -> Iterator[Part]:
    """The first three parts of a question that names things of several kinds in a row, each without the others: "Price
    of the Vega", "weight of the Vega".
    """
    named = sorted(
        (match.start(), -match.end(), kinds) for kinds, pattern in NAMED for match in pattern.finditer(plain)
    )
    row: list[tuple[int, int, Kinds]] = []
    for start, end, kinds in ((start, -end, kinds) for start, end, kinds in named):
        if row and start < row[-1][1]:
            continue  # "number" in "phone number"
        if not row or not JOINED.fullmatch(plain, row[-1][1], start):
            if len(row) > 1:
                break
            row = [(start, end, kinds)]
        elif all(kinds != other for *_, other in row):
            row.append((start, end, kinds))
    if len(row) < 2:
        return
    before, after = question[: places[row[0][0]]], question[places[row[-1][1]] :]
    for start, end, kinds in row[:_MOST_PARTS]:
        yield Part(f"{before}{question[places[start] : places[end]]}{after}".strip(" ?？؟¿"), kinds)


def named_in(label: str) -> list[tuple[Kinds, str]]:
    """The kinds that a label of a field names, each with the words that name it, in lower case without diacritics:
    "Dauer in Tagen" a duration.
    """
    plain = _folded(label)
    return [(kinds, match[0]) for kinds, pattern in (*NAMED, *IN_LABELS) if (match := pattern.search(plain))]


def days_in(text: str) -> frozenset[str]:
    """The days that the beginning of a text names, comparable with those of another one: of a month as "12-24", of the
    week by number.
    """
    return _remembered_days(text[:_LONGEST])


@lru_cache(_SENTENCES)
def _remembered_days(text: str) -> frozenset[str]:
    read = _Read(text)
    found = {"-".join(atom[-2:]) for atom in read.atoms if atom[0] in ("day", "date", "any year") and len(atom) > 2}
    return frozenset(found.union(f"day {number} of the week" for number in weekdays_in(read.sentence)))


def holds(sentence: str, kind: Kind) -> bool | None:
    """Whether a sentence holds a thing of a kind; None for kinds that cannot be told: persons, places, rules,
    explanations.
    """
    if kind not in MEASURABLE:
        return None
    return _remembered(sentence, kind) if len(sentence) <= _LONGEST else _HOLDS[kind](_Read(sentence))


@lru_cache(_SENTENCES)
def _remembered(sentence: str, kind: Kind) -> bool:
    return _HOLDS[kind](_Read(sentence))


def holds_any(sentence: str, kinds: Iterable[Kind], asked: str = "") -> bool | None:
    """Whether a sentence holds a thing of one of these kinds; None where that cannot be told of any.

    A number that the question `asked` has as well is no answer to how many: "a 24-inch monitor".
    """
    told = [
        found
        for kind in kinds
        if (found := holds(_without_numbers(sentence, asked) if kind == "number" else sentence, kind)) is not None
    ]
    return any(told) if told else None


def _without_numbers(sentence: str, asked: str) -> str:
    known = set(_NUMBER.findall(asked))
    return _NUMBER.sub(lambda found: "" if found[0] in known else found[0], sentence) if known else sentence


def _plain_with_places(text: str) -> tuple[str, list[int]]:
    """The text in lower case, without diacritics and repeated white space, and for each offset in it, and its end, the
    offset in `text`.
    """
    plain, places = [], []
    for place, character in enumerate(text):
        if character.isspace() and place and text[place - 1].isspace():
            continue
        folded = character.lower() if character.isascii() else fold(character.casefold().replace("’", "'"))
        plain.append(folded)
        places += [place] * len(folded)
    return "".join(plain), [*places, len(text)]


def _kinds_of(plain: str) -> Kinds:
    clauses = [clause.lstrip("¿¡ ") for clause in CLAUSE.split(plain)]
    found = _first(plain)
    is_rule = any(YES_OR_NO.search(clause) for clause in clauses)
    if found and found.kinds - _BY_NAME and (found.start == 0 or not is_rule):
        return found.kinds
    if is_rule:
        return frozenset({"yes or no"})
    # "What are the dates?" asks for dates; "I put in the dates, now what?" does not.
    asking = (
        max((end for stop in CLAUSE.finditer(plain) if (end := stop.end()) <= found.start), default=0) if found else 0
    )
    named = min(
        (
            (match.start(), number)
            for number, (_, pattern) in enumerate(NAMED)
            if (match := pattern.search(plain, asking))
        ),
        default=None,
    )
    return NAMED[named[1]][0] if named else found.kinds if found else frozenset()


class _Asking(NamedTuple):
    start: int
    end: int
    kinds: Kinds


def _first(plain: str) -> _Asking | None:
    """The first interrogative word, of two at the same place the longer one."""
    found = [
        _Asking(match.start(), match.end(), kinds)
        for kinds, pattern in ASKING
        for match in pattern.finditer(plain)
        if _is_asking(plain, match)
    ]
    return min(found, key=lambda one: (one.start, -one.end), default=None)


def _is_asking(plain: str, match: re.Match[str]) -> bool:
    """Whether an interrogative word asks here, and does not join clauses: "the days when it is closed", "a house where
    one eats".
    """
    if match[0].rsplit(" ", 1)[-1] not in JOINING:
        return True
    is_first, is_last = not plain[: match.start()].strip(), not plain[match.end() :].strip(" ?？")
    return is_first or is_last or bool(BEFORE_CLAUSE.search(plain, max(0, match.start() - _BEFORE), match.start()))


def _is_bare(plain: str) -> bool:
    """Whether a part is an interrogative word alone: "and when?"."""
    found = _first(plain)
    return (
        found is not None
        and not plain[found.end :].strip(" ?？؟")
        and (not plain[: found.start].strip() or bool(PREPOSITION.fullmatch(plain[: found.start])))
    )


def _opens(plain: str) -> bool:
    """Whether a question begins here, or behind a preposition."""
    plain = plain.lstrip("¿¡ ")
    before = PREPOSITION.match(plain)
    for text in (plain, plain[before.end() :]) if before else (plain,):
        rule = YES_OR_NO.match(text)
        if any(pattern.match(text) for _, pattern in ASKING) or (rule and rule.end() < len(text.rstrip("?？ "))):
            return True
    return False


def _asks(plain: str, *, is_comma: bool) -> bool:
    """Whether a first part asks something. Before a mere comma a noun may be part of a date, and "when it rains" a
    condition.
    """
    plain = plain.lstrip("¿¡ ")
    if is_comma and CONDITION.match(plain):
        return False
    return (
        _first(plain) is not None
        or YES_OR_NO.search(plain) is not None
        or (not is_comma and any(pattern.search(plain) for _, pattern in NAMED))
    )


class _Read:
    """A sentence, with its numbers in words as digits, and what its figures show."""

    def __init__(self, sentence: str) -> None:
        self.sentence = unicodedata.normalize("NFKC", sentence)
        self.text = with_digits(self.sentence)

    @cached_property
    def atoms(self) -> set[Atom]:
        texts = dict.fromkeys((self.sentence, self.text))
        return {
            atom for text in texts for figure in figures_of(text) for reading in figure.readings for atom in reading
        }

    def matches(self, pattern: re.Pattern[str]) -> bool:
        return bool(pattern.search(self.sentence) or pattern.search(self.text))

    def shows(self, *names: str) -> bool:
        return any(atom[0] in names for atom in self.atoms)


def _has_hour(read: _Read) -> bool:
    return read.shows("time", "clock") or bool(_NOON.search(read.sentence))


def _has_date(read: _Read) -> bool:
    return (
        read.shows("date", "day", "month", "any year", "ordinal")
        or bool(_YEAR.search(read.sentence))
        or bool(weekdays_in(read.sentence))
    )


def _has_price(read: _Read) -> bool:
    if read.matches(_price()) or _FREE.search(read.sentence):
        return True
    plain = _folded(read.sentence)
    if read.matches(_IS_PERCENT) and (REDUCTION.search(plain) or _ENDS_IN_PERCENT.search(read.sentence)):
        return True
    return _has_number(read) and bool(PRICE.search(plain))


def _has_duration(read: _Read) -> bool:
    return read.matches(_duration()) or bool(_DUAL.search(read.sentence))


def _has_percentage(read: _Read) -> bool:
    return read.matches(_IS_PERCENT)


def _has_number(read: _Read) -> bool:
    """Whether there is a number. "One", which in many languages is an article, is none."""
    return bool(_DIGIT.search(read.sentence) or _DIGIT.search(_ONE.sub("", read.text)))


def _has_measure(read: _Read, kind: str) -> bool:
    return read.matches(_measure(kind))


_HOLDS: dict[Kind, Callable[[_Read], bool]] = {
    "length": partial(_has_measure, kind="length"),
    "weight": partial(_has_measure, kind="weight"),
    "temperature": partial(_has_measure, kind="temperature"),
    "hour": _has_hour,
    "date": _has_date,
    "price": _has_price,
    "duration": _has_duration,
    "percentage": _has_percentage,
    "number": _has_number,
    "phone": lambda read: holds_phone(read.sentence),
    "email": lambda read: holds_email(read.sentence),
    "address": lambda read: holds_address(read.sentence),
}


def _folded(text: str) -> str:
    return fold(text.casefold())


@cache
def _price() -> re.Pattern[str]:
    words = "|".join(sorted(map(re.escape, money()), key=len, reverse=True))
    return re.compile(
        rf"\d\s?(?:(?:{_POWER_WORDS})\.?\s?)?-?(?:de "
        rf"|d['’])?(?:[₠-⃏$£¥]|(?:{words})(?!\w))|(?:[₠-⃏$£¥]|\b(?:{words}))\s?\d",
        re.IGNORECASE,
    )


@cache
def _measure(kind: str) -> re.Pattern[str]:
    words = "|".join(sorted(map(re.escape, measures(kind)), key=len, reverse=True))
    return re.compile(rf"\d\s?-?(?:{words})(?!\w)", re.IGNORECASE)


@cache
def _duration() -> re.Pattern[str]:
    words = "|".join(sorted(map(re.escape, time_units()), key=len, reverse=True))
    return re.compile(rf"\d[\s-]?(?:[^\W\d]+\s)?(?:{words})(?!\w)|\d\s?[年天日分時泊晚]", re.IGNORECASE)
