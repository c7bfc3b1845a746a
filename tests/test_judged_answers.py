"""Judged answers: what makes a reply right, and how well refusals are told from answers."""

from pathlib import Path
from typing import Any

import pytest

from almanac.query.evaluation.golden import Golden, normalize
from almanac.query.published import open_index
from almanac.schemas.results import Answer, Citation
from benchmarks.answers import area_under_curve, judge_answers, verdict_on
from tests.query.small_base import SmallBase


def _answer(reply: str, *, answered: bool = True, **given: Any) -> Answer:
    source = Citation(
        marker="[1]",
        chunk_id="c",
        document_id="a",
        url="http://site.test/a",
        title="A",
        text="…",
        score=0.5,
        confidence="high",
        quote="…",
    )
    return Answer(
        kb="kb",
        version="v1",
        answered=answered,
        reply=reply,
        pathway="kb-only",
        citation=None,
        sources=[source] if answered else [],
        **given,
    )


def _expecting(*parts: list[str], **given: Any) -> Golden:
    return Golden("?", parts=tuple(tuple(map(normalize, part)) for part in parts), **given)


@pytest.mark.parametrize(
    ("golden", "reply", "verdict"),
    [
        (_expecting(["5.372.000"]), "Price, adult: 5 372\u202f000 ₫ [1]", "right"),
        (_expecting(["5 372 000"]), "Price, adult: 5,372,000 ₫ [1]", "right"),
        (_expecting(["within two days"]), "It comes within [1] two days. [2]", "right"),
        (_expecting(["3.5 km"]), "It is 35 km long. [1]", "wrong"),
        (_expecting(["six", "half past five"]), "At HALF past\u00a0five. [1]", "right"),
        (_expecting(["six"], ["seven"]), "It opens at six. [1]", "wrong"),
        (_expecting(["six"], ["seven"]), "It opens at six. [1] It closes at seven. [2]", "right"),
        (_expecting(["six"]), f"It opens at six. [1] {'More. ' * 70}", "wrong"),
        (Golden("?", document_ids=frozenset({"a"})), "It opens at six. [1]", "right"),
        (Golden("?", document_ids=frozenset({"b"})), "It opens at six. [1]", "wrong"),
        (Golden("?"), "It opens at six. [1]", "wrongly answered"),
    ],
)
def test_a_right_reply_is_short_and_holds_what_is_expected(golden: Golden, reply: str, verdict: str) -> None:
    assert verdict_on(golden, _answer(reply)) == verdict


def test_a_refusal_is_right_where_nothing_answers() -> None:
    assert verdict_on(Golden("?"), _answer("No.", answered=False)) == "rightly refused"
    assert verdict_on(_expecting(["no"]), _answer("No.", answered=False)) == "wrongly refused"


def test_the_area_is_the_share_of_pairs_in_the_right_order() -> None:
    assert area_under_curve([0.9, 0.8, 0.1], [True, True, False]) == 1.0
    assert area_under_curve([0.9, 0.2, 0.2, 0.4], [True, True, False, False]) == pytest.approx((1 + 1 + 0.5 + 0) / 4)
    assert area_under_curve([0.9], [True]) is None


@pytest.mark.slow
def test_golden_questions_are_asked_with_their_history(tmp_path: Path) -> None:
    base = SmallBase(tmp_path)
    history = (
        {"role": "user", "content": "When does the garden close?"},
        {"role": "assistant", "content": "At six in summer."},
    )
    questions = [
        _expecting(["closes at six"])._replace(question="When does the garden close?"),
        Golden("How do I bake sourdough bread at home without any oven or yeast?", history=history),
    ]
    with open_index(base.publish(), data=base.data, env="") as index:
        judged = judge_answers(index, questions)
    assert [answer.verdict for answer in judged] == ["right", "rightly refused"]
