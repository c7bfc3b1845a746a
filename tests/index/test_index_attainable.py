"""How much of a question the words of an index can match."""

import math

import pytest

from almanac.index.lexical.analyzer import tokens
from almanac.index.lexical.lexical_reader import AnalyzedQuery, attainable_score


def _analyzed(query: str, language: str, texts: list[str]) -> AnalyzedQuery:
    row_terms = [set(tokens(text, language)) for text in texts]
    return AnalyzedQuery(
        language, False, {term: sum(term in row for row in row_terms) for term in tokens(query, language)}, len(texts)
    )


_TEXTS = ["The garden closes at six.", "Children enter for free.", "Boats leave the pier every hour."]


def test_a_question_without_words_can_reach_nothing() -> None:
    assert attainable_score(_analyzed("?!", "en", _TEXTS), "?!") == 0.0


def test_words_that_no_text_has_can_be_reached_by_none() -> None:
    known, with_others = "garden closes", "garden closes quimera zanahoria"
    assert attainable_score(_analyzed(with_others, "en", _TEXTS), with_others) > 2 * attainable_score(
        _analyzed(known, "en", _TEXTS), known
    )


def test_a_word_counts_with_the_terms_of_it_that_occur() -> None:
    """A Hebrew word that begins like a prefix has a second term, which no text has."""
    analyzed = _analyzed("שולחן", "he", ["השולחן בחדר", "הגן נסגר"])
    assert sorted(analyzed.frequencies.values()) == [0, 1]
    assert attainable_score(analyzed, "שולחן") == pytest.approx(math.log(1 + 1.5 / 1.5))


@pytest.mark.parametrize(
    ("language", "question", "text"),
    [("vi", "giá vé vào cổng", "giá vé tham quan, vào tới cổng"), ("ja", "動物園の料金", "動物の園 料金の表")],
)
def test_pairs_that_occur_nowhere_are_no_words_to_miss(language: str, question: str, text: str) -> None:
    analyzed = _analyzed(question, language, [text, "-"])
    occurring = analyzed._replace(frequencies={term: count for term, count in analyzed.frequencies.items() if count})
    assert occurring != analyzed
    assert attainable_score(analyzed, question) == attainable_score(occurring, question)
