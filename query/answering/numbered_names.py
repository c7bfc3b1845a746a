"""Names with a number, such as Heron 2: another number makes another thing of it, which an embedder hardly sees."""

from collections.abc import Sequence
from functools import cache

import regex  # type: ignore[import-untyped]  # ships no types

from almanac.query.answering.figure_words import month_of, units
from almanac.query.retrieval.word_frequencies import word_frequencies
from almanac.schemas.results import Hit

_NUMBERED = regex.compile(
    r"(?<![\p{L}\p{M}\p{N}])(\p{L}[\p{L}\p{M}]{2,})\s(\d{1,4})(?![\p{L}\p{N}]|[.,:/-]\d|\.\s)(?:\s([\p{L}\p{M}]+))?"
)
_NUMBERS = regex.compile(r"\d+")
# frequency from which on a word with a number is taken for no name: "room" and "adults" have it, "iPhone" just not
_USUAL = 3e-5
_YEARS = range(1900, 2100)
# Who is counted; what is measured is in `units`.
_COUNTED = frozenset(
    word
    for words in (
        "people persons person guests adults kids children child adult pax",
        "personnes pers adultes enfants convives enfant adulte personen erwachsene kinder kind gäste",
        "personas adultos adulto niños niño huéspedes persone adulti bambini bambino ospiti pessoas crianças hóspedes",
        "volwassenen kinderen gasten osoby osób dorosłych dzieci personer voksne børn barn vuxna gäster kişi "
        "kişilik người khách",
        "человек человека людей взрослых детей гостей אנשים נפשות איש מבוגרים ילדים أشخاص شخص بالغين أطفال",
    )
    for word in words.split()
)
Named = frozenset[tuple[str, str]]  # word, casefolded, and the number behind it: ("heron", "2")


def numbered_names(question: str, language: str | None) -> Named:
    """The names with a number in a question. None for a language without a word list: any word may count or measure
    something there.

    `language` is the primary BCP 47 tag of the question's language, None where it is not known.
    """
    named = _numbered_in(question, is_capitalised=question[:1].isupper())  # who writes capitals, writes names so, too
    if not named or not word_frequencies(language or ""):
        return frozenset()
    usual = [word_frequencies(tag) for tag in dict.fromkeys((language or "", "en"))]
    return frozenset(one for one in named if all(frequencies.get(one[0], 0.0) < _USUAL for frequencies in usual))


def without_other_numbers(question: str, named: Named, hits: Sequence[Hit]) -> Sequence[Hit]:
    """The hits without the records of other things of the same name: where Heron 2 is asked for, those whose title has
    Heron 4 and no number of the question.

    `named` are the `numbered_names` of the question. Returns no hits where records of other things come first, and none
    has the Heron 2.
    """
    if not named:
        return hits
    numbers = set(_NUMBERS.findall(question))
    titles = [_numbered_in(hit.title, is_capitalised=True) if hit.passage is not None else () for hit in hits]
    titled = [
        {number for word, number in title if any(name == word and _compare(asked, number) for name, asked in named)}
        for title in titles
    ]
    left = [hit for hit, own in zip(hits, titled, strict=True) if not own or own & numbers]
    is_there = left[:1] == list(hits[:1]) or any(named & _numbered_in(f"{hit.title} {hit.readable}") for hit in left)
    return left if is_there else []


def _compare(asked: str, found: str) -> bool:
    """Whether two numbers tell things of a name apart: a Peugeot 3008 and a 2008 are two; a fair of 2026 and one of
    2025, or 2 tickets for it, are not.
    """
    years = [int(number) in _YEARS for number in (asked, found)]
    return not any(years) or (len(asked) == len(found) and not all(years))


def _numbered_in(text: str, *, is_capitalised: bool = False) -> Named:
    """The words of a text, or the capitalised ones, that have a number behind them which makes no date and counts or
    measures nothing: "for 3 nights".
    """
    return frozenset(
        (word.casefold(), number)
        for word, number, behind in _NUMBERED.findall(text)
        if not (is_capitalised and word.islower()) and behind.casefold() not in _counted() and month_of(word) is None
    )


@cache
def _counted() -> frozenset[str]:
    return _COUNTED | units()
