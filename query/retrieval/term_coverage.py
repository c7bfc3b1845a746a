"""Term coverage: the share of a question's terms that a text contains, weighted by rarity. In any language, low
coverage reveals that a subject is missing.
"""

import math
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, NamedTuple

import regex  # type: ignore[import-untyped]  # ships no types

from almanac.index.lexical.analyzer import folded_tokens, primary_tag, remembered_tokens, tokens

if TYPE_CHECKING:
    from almanac.index.lexical.lexical_reader import AnalyzedQuery

# In a small version nearly all words of a question are rare: "must" as well as "Mongolia". So frequencies are smoothed
# with _PRIOR further texts of _PRIOR_WORDS words each in general language (Dirichlet prior); from some thousand texts
# on, the version's own counts dominate.
_PRIOR, _PRIOR_WORDS = 200, 100
_PAIR = 0.2  # assumed frequency of a pair of Vietnamese syllables, relative to that of the rarer syllable
_HIRAGANA, _HIRAGANA_PAIR = 0.02, 0.005  # assumed frequencies: hiragana is mostly grammar
_QUESTIONS = 16  # whose terms are remembered, in one language each: for one answer, they are asked for several times
# see `Coverage.cautious`; without them, "yes" or "42" has all its words in some text, and seems to be answered
_FURTHER = 2

_WORD = regex.compile(r"[\p{L}\p{M}\p{N}]+")
_IS_HIRAGANA = regex.compile(r"[\u3041-\u309f]+")


class Coverage(NamedTuple):
    """Term coverage of a text: the weighted share, 0 to 1, of the question's terms that it contains.

    `cautious` is the share if the question had two more terms, which occur nowhere: the fewer and the more common its
    words are, the less it can be covered.
    """

    share: float
    cautious: float


def term_coverage(analyzed: "Sequence[AnalyzedQuery]", question: str, texts: Sequence[str]) -> list[Coverage]:
    """Computes the term coverage of each text, rounded to 6 decimals: the maxima over the languages of the version, for
    each of which `analyzed` has the question with document frequencies.

    A term is weighted by the square of its inverse document frequency, so that rare words dominate, and a word that
    occurs nowhere has the most weight. `question` tells the frequencies of its words in general language.
    """
    best = [Coverage(0.0, 0.0)] * len(texts)
    for query in analyzed:
        weights = _weights(query, question)
        total = sum(weights.values())
        part = total / (total + _FURTHER * _weight(0.0, query.rows))
        for number, text in enumerate(texts if total else ()):
            text_terms = set(remembered_tokens(text, query.language, folded=query.is_folded))
            share = sum(weight for term, weight in weights.items() if term in text_terms) / total
            best[number] = Coverage(max(best[number].share, share), max(best[number].cautious, share * part))
    return [Coverage(round(coverage.share, 6), round(coverage.cautious, 6)) for coverage in best]


def term_weights(analyzed: "Sequence[AnalyzedQuery]", question: str) -> dict[str, float]:
    """Inverse document frequency of the question's terms in the whole version, smoothed as for `term_coverage`, by
    term.

    Minima over the languages: a word that is common in its own is mostly rare in the others.
    """
    weights: dict[str, float] = {}
    for query in analyzed:
        for term, weight in _weights(query, question).items():
            weights[term] = min(math.sqrt(weight), weights.get(term, math.inf))
    return weights


def _weights(query: "AnalyzedQuery", question: str) -> dict[str, float]:
    usual = _usual(query.language, query.is_folded, tuple(query.frequencies), question)
    counts = {
        term: count + _PRIOR * (1 - (1 - usual.get(term, 0.0)) ** _PRIOR_WORDS)
        for term, count in query.frequencies.items()
    }
    return {term: _weight(count, query.rows) for term, count in counts.items()}


def _weight(count: float, rows: int) -> float:
    """Weight of a term that `count` of `rows` texts contain, texts of the prior counted in `count` alone."""
    return math.log(1 / min((count + 0.5) / (rows + _PRIOR + 1), 1.0)) ** 2


@lru_cache(_QUESTIONS)
def _usual(language: str, is_folded: bool, terms: tuple[str, ...], question: str) -> dict[str, float]:
    """Frequency of each term of a question in general language, as a share of all words; 0 where it is not known."""
    known = _word_frequencies(primary_tag(language))
    frequencies: dict[str, float] = {}
    for word in _WORD.findall(question):
        frequency = known.get(word.casefold(), 0.0)
        for term in folded_tokens(word) if is_folded else tokens(word, language):
            frequencies[term] = max(frequency, frequencies.get(term, 0.0))
    for term in terms:
        first, joint, second = term.partition("_")
        if joint:
            frequencies[term] = _PAIR * min(frequencies.get(first, 0.0), frequencies.get(second, 0.0))
        elif _IS_HIRAGANA.fullmatch(term):
            frequencies[term] = max(frequencies.get(term, 0.0), _HIRAGANA if len(term) == 1 else _HIRAGANA_PAIR)
        else:
            frequencies[term] = frequencies.get(term) or known.get(term, 0.0)
    return frequencies


@cache
def _word_frequencies(tag: str) -> Mapping[str, float]:
    """Frequencies of words in small letters, as shares of all words; empty for a language without a word list.

    `tag` is a primary BCP 47 tag. The first call for a language reads a package file, in 40 ms at most.
    """
    from wordfreq import available_languages, get_frequency_dict  # the import takes 0.3 s

    tag = "nb" if tag == "no" else tag
    return get_frequency_dict(tag, "small") if tag in available_languages("small") else {}
