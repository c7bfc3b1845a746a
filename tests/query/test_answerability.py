"""Refusing by answerability: what speaks for an answer, what against, and the passages that come closest."""

import dataclasses
from typing import Any

import pytest

from almanac.index.embedding.calibrations import AnswerCurve
from almanac.query.answering.absent import Absent
from almanac.query.answering.answer import Question, answer
from almanac.query.answering.answerability import Grounds
from almanac.query.published import open_index
from almanac.schemas.results import Answer, Hit
from tests.query.answering import UNKNOWN, CountingWords, declared, make_hit
from tests.query.small_base import SmallBase

_CURVE = AnswerCurve(0.0, (1.0, 1.0, -1.0, -2.0, -3.0), least=0.3, least_in_large=0.6)
_HIT = make_hit(1, "A refund takes fourteen days.")


def _ask(relevance: float, *, passing: bool = True, text: str = "refund in how many days?", **given: Any) -> Answer:
    hits = [
        _HIT.model_copy(update={"relevance": relevance}),
        make_hit(2, "Bring a visa.").model_copy(update={"relevance": 0.01}),
    ]
    grounds = Grounds(**{"closest": hits, "curve": _CURVE, "wanted": 2, "chunks": 20, **given})
    embedder = CountingWords()
    passed: list[Hit] = hits if passing else []
    question = Question(
        declared(), "v0001", text, embedder.embed_queries([text])[0], passed, embedder, "kb-only", 0.1, grounds=grounds
    )
    return answer(question)


def test_a_question_is_refused_below_the_embedders_threshold_with_the_closest_passages() -> None:
    refused, answered = _ask(0.02), _ask(0.6)
    assert (refused.answered, refused.reply, refused.sources) == (False, UNKNOWN, [])
    assert [(one.chunk_id, one.document_id, one.text, one.relevance) for one in refused.related] == [
        (_HIT.chunk_id, "d1", "A refund takes fourteen days.", 0.02),
        (make_hit(2, "").chunk_id, "d2", "Bring a visa.", 0.01),
    ]
    assert (answered.answered, answered.related) == (True, [])
    assert refused.answerability is not None
    assert answered.answerability is not None
    assert refused.answerability < 0.3 < answered.answerability


def test_a_rare_word_that_is_missing_and_a_name_that_is_nowhere_speak_against_an_answer() -> None:
    known = [
        _ask(0.6, missing=missing, absent=Absent([], names)).answerability
        for missing, names in ((0.0, []), (1.0, []), (1.0, ["Bangkok"]))
    ]
    assert known == sorted(known, key=lambda one: -(one or 0.0))
    assert len(set(known)) == 3


def test_a_price_that_is_asked_for_and_stands_nowhere_speaks_against_an_answer() -> None:
    asked_what, asked_price = _ask(0.6), _ask(0.6, text="refund at what price?")
    assert (asked_what.answered, asked_price.answered) == (True, False)


def test_a_code_that_no_hit_has_is_refused_whatever_else_matches() -> None:
    found = _ask(0.99, absent=Absent(["X1"], []), curve=None)
    assert (found.answered, found.answerability, len(found.related)) == (False, 0.0, 2)


def test_a_large_version_asks_for_more() -> None:
    assert [_CURVE.refused_below(chunks) for chunks in (0, 20, 250, 600, 100_000)] == [0.3, 0.3, 0.3, 0.6, 0.6]
    assert 0.3 < _CURVE.refused_below(400) < 0.6


def test_without_a_curve_the_thresholds_decide() -> None:
    assert _ask(0.02, curve=None).answered
    assert not _ask(0.9, curve=None, passing=False).answered


def test_a_declared_floor_holds_beside_answerability() -> None:
    hits = [_HIT.model_copy(update={"relevance": 0.9, "scores": {"dense": 0.4}})]
    assert dataclasses.replace(Grounds(hits, curve=_CURVE, wanted=1), floor=0.5).to_quote(hits) == []
    assert Grounds(hits, curve=_CURVE, wanted=1, floor=0.3).to_quote([]) == hits


@pytest.mark.slow
def test_what_a_real_index_does_not_answer_is_refused_with_a_lead(tmp_path: Any) -> None:
    base = SmallBase(tmp_path)
    with open_index(base.publish(), data=base.data, env="") as index:
        for question in (
            "How long does the battery of Laptop Pro X1 last?",
            "17 × 23",
            "Is there a boat to Bangkok?",
            "What is the CEO's salary?",
        ):
            refused = index.ask(question)
            assert (refused.answered, refused.sources) == (False, []), question
            assert 3 <= len(refused.related) <= 5
            assert "{title}" not in refused.reply
        found = index.ask("When does the garden close in winter?")
        assert (found.answered, found.related) == (True, [])
        assert found.answerability is not None
        only = index.ask("17 × 23", where={"title": "dogs"})
        assert {one.title for one in only.related} == {"dogs"}


def test_a_code_that_is_there_is_enough_for_a_sentence_that_holds_what_is_asked_for() -> None:
    hits = [
        make_hit(1, "Ticket TO11: a refund takes fourteen days.").model_copy(update={"relevance": 0.02}),
        make_hit(2, "A refund takes twelve days.").model_copy(update={"relevance": 0.02}),
    ]
    found = _ask(0.02, text="A refund of TO11 in how many days?", closest=hits, codes=["TO11"])
    assert (found.reply, found.answerability) == ("Ticket TO11: a refund takes fourteen days. [1]", 0.3)
    assert not _ask(0.02, text="What does a refund of TO11 cost?", closest=hits, codes=["TO11"]).answered
