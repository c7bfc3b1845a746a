"""What a question names that the content does not have: a code, a proper name, a sum to work out. Words that match
beside it answer something else.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, NamedTuple
from zoneinfo import available_timezones

import regex  # type: ignore[import-untyped]  # ships no types
from babel import Locale, UnknownLocaleError

from almanac.index.lexical.analyzer import fold, folded_tokens, tokens
from almanac.query.retrieval.codes import codes_in, has_code

if TYPE_CHECKING:
    from almanac.index.lexical.reader import AnalyzedQuery

# A sum, such as 17 × 23, with at most so many words beside it ("what is", "bằng bao nhiêu").
_SUM = regex.compile(
    r"(?<![\w.,/])\d[\d.,]*(?:\s?[×x*·+÷^−]\s?|\s[-/:]\s|\s(?:times|plus|minus|fois|por|mal|per|keer|nhân|cộng|trừ"
    r")\s)\d[\d.,]*(?![\w/])"
)
_SUM_WORDS = 4
_WORD = regex.compile(r"[\p{L}\p{M}]+")
# A name: capitalised, within a sentence; of more than one word, all of them.
_NAME = regex.compile(
    r"(?<=[\p{Ll}\d,;]['’\"»)]?\s(?:[\"'“«„(]|[ldLD]['’])?)\p{Lu}\p{Ll}[\p{L}\p{M}'’-]*(?:\s+\p{Lu}\p{Ll}[\p{L}\p{"
    r"M}'’-]*)*"
)
_CONTINENTS = frozenset({"Africa", "America", "Asia", "Australia", "Europe"})
_NO_PLACES = frozenset({"center", "resolute", "phoenix", "turkey", "world"})
_LEAST = 4  # letters of a word in a name: shorter ones are often abbreviations
_ALIKE = 0.85  # likeness to a word of the hits from which on a name is that word misspelt: `Carrsoses`, `Carrosses`
_NOUNS_CAPITALISED = frozenset({"de", "lb"})
_TITLED = 0.6  # share of the words after the first with a capital from which on it says nothing


class Absent(NamedTuple):
    """What a question names and the content does not have, as it stands in the question.

    `things` are codes that none of the hits has, and sums: nothing answers for them. `names`, of places too, occur
    nowhere in the version: most often, the question is about something else, but "Can I work from Spain?" is answered
    by rules for all countries.
    """

    things: list[str]
    names: list[str]


NOTHING_ABSENT = Absent([], [])


def absent_from(
    question: str, language: str | None, readings: "Sequence[AnalyzedQuery]", texts: Iterable[str]
) -> Absent:
    """What a question names that is not there.

    Args:
        question: The question.
        language: Primary BCP 47 tag of its language; None where it is not known.
        readings: The question as analyzed for each language of the version, with the numbers of rows that contain each
            term.
        texts: The titles and texts of the hits.
    """
    shown = list(texts)
    sums = [
        one[0]
        for one in _SUM.finditer(question)
        if len(_WORD.findall(question.replace(one[0], " "))) <= _SUM_WORDS and not _is_in(one[0], shown)
    ]
    codes = [code for code in codes_in(question) if not any(has_code(code, text) for text in shown)]
    is_told = language not in _NOUNS_CAPITALISED and not _is_titled(question)
    called = (
        [
            name
            for name in _NAME.findall(question)
            if not any(fold(word.casefold()) in _usual(language) for word in _WORD.findall(name))
        ]
        if is_told
        else []
    )
    names = [name for name in (*called, *_places_in(question, language)) if _is_nowhere(name, readings, shown)]
    return Absent(list(dict.fromkeys([*sums, *codes])), list(dict.fromkeys(names)))


def _places_in(question: str, language: str | None) -> list[str]:
    """Countries and large cities in a question, however they are written."""
    words, known = _WORD.findall(question), _places(language)
    folded = [fold(word.casefold()) for word in words]
    runs = [slice(start, start + length) for length in (1, 2, 3) for start in range(len(words) - length + 1)]
    return [" ".join(words[run]) for run in runs if " ".join(folded[run]) in known]


@cache
def _places(language: str | None) -> frozenset[str]:
    """Names of countries in a language and in English, and of the cities after which time zones are called, in small
    letters without diacritics.
    """
    countries = [str(name) for locale in _locales(language) for name in locale.territories.values()]
    return (
        frozenset(
            folded
            for name in (*_cities(), *countries)
            if len(folded := fold(name.casefold())) >= _LEAST and not folded.isdigit()
        )
        - _NO_PLACES
    )


@cache
def _cities() -> list[str]:
    return [
        zone.rpartition("/")[2].replace("_", " ")
        for zone in available_timezones()
        if zone.partition("/")[0] in _CONTINENTS
    ]


def _locales(language: str | None) -> list[Locale]:
    """Of a language and of English."""
    found = []
    for tag in dict.fromkeys((language or "en", "en")):
        with suppress(UnknownLocaleError, ValueError):
            found.append(Locale.parse(tag))
    return found


def _is_in(text: str, shown: Sequence[str]) -> bool:
    bare = "".join(text.split())
    return any(bare in "".join(one.split()) for one in shown)


def _is_titled(question: str) -> bool:
    """Whether a question is written Like a Title."""
    words = _WORD.findall(question)[1:]
    return len(words) > 1 and sum(word[0].isupper() for word in words) > _TITLED * len(words)


def _is_nowhere(name: str, readings: "Sequence[AnalyzedQuery]", shown: Sequence[str]) -> bool:
    """Whether no row of the version has the words of a name, in the forms of any of its languages, and the hits have
    none that is almost alike.

    Of two words or more, one that is nowhere is enough: "Emily Dickinson", where another Emily is known.
    """
    from rapidfuzz.distance import Indel
    from rapidfuzz.process import extractOne

    words = [word for word in _WORD.findall(name) if len(word) >= _LEAST]
    missing = [word for word in words if not any(_rows(word, one) for one in readings)]
    if not missing:
        return False
    known = {word for text in shown for word in _WORD.findall(fold(text.casefold())) if len(word) >= _LEAST}
    return any(
        extractOne(fold(word.casefold()), known, scorer=Indel.normalized_similarity, score_cutoff=_ALIKE) is None
        for word in missing
    )


def _rows(word: str, reading: "AnalyzedQuery") -> int:
    terms = folded_tokens(word) if reading.is_folded else tokens(word, reading.language)
    return min((reading.frequencies.get(term, 0) for term in terms), default=0)


@cache
def _usual(language: str | None) -> frozenset[str]:
    """Capitalised words that name nothing that content would have to have: days, months and languages, as the language
    of the question and English say.
    """
    found: set[str] = set()
    for locale in _locales(language):
        named = [names["format"][width] for names in (locale.days, locale.months) for width in ("wide", "abbreviated")]
        found.update(
            word for names in (*named, locale.languages) for name in names.values() for word in str(name).split()
        )
    words = {fold(word.casefold()) for word in found}
    return frozenset(words | {f"{word}s" for word in words})
