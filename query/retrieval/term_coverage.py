"""How much of a question stands in a text: its words, weighed by how much they tell. It tells, in any language, what is asked about and not there."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import regex  # type: ignore[import-untyped]  # ships no types

from almanac.index.lexical.analyzer import folded_tokens, primary_tag, tokens
from almanac.query.retrieval.overlap import coverage

if TYPE_CHECKING:
    from almanac.index.lexical.reader import AnalyzedQuery

# In a small version nearly all words of a question are rare: "must" as well as "Mongolia". So each counts as if the version held so many more texts of
# so many words, in general language (Dirichlet prior); from some thousand texts on, its own counts decide.
_PRIOR, _PRIOR_WORDS = 200, 100
_PAIR = 0.2  # how often two syllables of Vietnamese stand together, by the rarer one
_HIRAGANA, _HIRAGANA_PAIR = 0.02, 0.005  # what Japanese writes so is grammar for the most part
_STEM, _ALIKE = 5, 0.6  # characters at the start of both that make two terms akin, and what such a term counts: `Straßenbahn` and `Straßenbahnlinie`

_WORD = regex.compile(r"[\p{L}\p{M}\p{N}]+")
_IS_HIRAGANA = regex.compile(r"[\u3041-\u309f]+")


def term_coverage(analyzed: "Sequence[AnalyzedQuery]", question: str, texts: Sequence[str]) -> list[float]:
    """For each text the share of the question, 0 to 1, that stands in it, in the language that suits it best.

    A term weighs by the square of its inverse frequency: of what is asked about, the rare words tell, and one that stands nowhere tells most.
    """
    best = [0.0] * len(texts)
    for query in analyzed:
        weights = _weights(query, question)
        for number, text in enumerate(texts if sum(weights.values()) else ()):
            best[number] = max(best[number], coverage(list(weights), _counted(weights, query.terms_of(text)), weights))
    return [round(share, 6) for share in best]


def _counted(weights: dict[str, float], terms: set[str]) -> dict[str, float]:
    """How fully each term of the question counts in a text: those that it holds, and less, those that are akin to one of its own."""
    ordered: list[str] = []
    counted: dict[str, float] = {}
    for term in weights:
        if term in terms:
            counted[term] = 1.0
        elif len(term) >= _STEM and not any(character.isdigit() or character == "_" for character in term):
            ordered = ordered or sorted(terms)
            counted[term] = _ALIKE * _has_kin(term, terms, ordered)
    return counted


def _has_kin(term: str, terms: set[str], ordered: list[str]) -> bool:
    """Whether one of the terms goes on where this one ends, or this one where one of them ends."""
    after = bisect_left(ordered, term)
    return (after < len(ordered) and ordered[after].startswith(term)) or any(term[:end] in terms for end in range(_STEM, len(term)))


def _weights(query: "AnalyzedQuery", question: str) -> dict[str, float]:
    usual = _usual(query, question)
    texts = query.rows + _PRIOR + 1
    shares = {term: (count + 0.5 + _PRIOR * (1 - (1 - usual.get(term, 0.0)) ** _PRIOR_WORDS)) / texts for term, count in query.frequencies.items()}
    return {term: math.log(1 / min(share, 1.0)) ** 2 for term, share in shares.items()}


def _usual(query: "AnalyzedQuery", question: str) -> dict[str, float]:
    """How often each term comes among words in general, where that is known."""
    known = _frequencies(primary_tag(query.language))
    found: dict[str, float] = {}
    for word in _WORD.findall(question):
        frequency = known.get(word.casefold(), 0.0)
        for term in folded_tokens(word) if query.is_folded else tokens(word, query.language):
            found[term] = max(frequency, found.get(term, 0.0))
    for term in query.frequencies:
        first, joint, second = term.partition("_")
        if joint:
            found[term] = _PAIR * min(found.get(first, 0.0), found.get(second, 0.0))
        elif _IS_HIRAGANA.fullmatch(term):
            found[term] = max(found.get(term, 0.0), _HIRAGANA if len(term) == 1 else _HIRAGANA_PAIR)
        else:
            found[term] = found.get(term) or known.get(term, 0.0)
    return found


@cache
def _frequencies(tag: str) -> dict[str, float]:
    """Word → its share of all words; empty for a language without a list. Reads a file of the package, in 40 ms at most."""
    from wordfreq import available_languages, get_frequency_dict  # 0.3 s

    tag = "nb" if tag == "no" else tag
    return get_frequency_dict(tag, "small") if tag in available_languages("small") else {}
