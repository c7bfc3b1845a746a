"""Judges answers: questions with gold texts are asked of a published index, and each reply is right, wrong, or a
refusal, which may be right or wrong.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import numpy as np

from almanac.query.answering.markers import without_markers
from almanac.query.evaluation.golden import Golden, normalize
from almanac.query.published import PublishedIndex
from almanac.schemas.results import Answer

Verdict = Literal["right", "wrong", "wrongly refused", "wrongly answered", "rightly refused"]
MOST = 400  # characters of a reply, without its markers, beyond which it is a page to read and no answer
# 5.372.000, 5,372,000 and 5 372 000; `normalize` has made one space of every kind of space.
_THOUSANDS = re.compile(r"(?<=\d)[., '’](?=\d{3}(?!\d))")


class Judged(NamedTuple):
    """A question with its answer and the verdict on it."""

    golden: Golden
    answer: Answer
    verdict: Verdict


class AnswerCounts(NamedTuple):
    """Verdicts counted, and the area under the ROC curve of refusing by `Answer.answerability`; None where it is not
    known.
    """

    right: int
    wrong: int
    wrongly_refused: int
    wrongly_answered: int
    rightly_refused: int
    area: float | None


def judge_answers(index: PublishedIndex, questions: Iterable[Golden]) -> list[Judged]:
    """Asks each question, with its history, and judges the answer, in the order of the questions. Raises the errors of
    `PublishedIndex.ask`.
    """
    found = [(one, index.ask(one.question, history=one.history)) for one in questions]
    return [Judged(one, answer, verdict_on(one, answer)) for one, answer in found]


def verdict_on(golden: Golden, answer: Answer) -> Verdict:
    """The verdict on one answer.

    A right reply has at most 400 characters without its markers, and one text of each part that is expected. Where a
    document or URL alone is expected, it cites that. Texts are compared as by `normalize`, whatever separates
    thousands.
    """
    if not golden.is_answerable:
        return "wrongly answered" if answer.answered else "rightly refused"
    if not answer.answered:
        return "wrongly refused"
    return "right" if _holds_answer(golden, answer) else "wrong"


def count(judged: Iterable[Judged]) -> AnswerCounts:
    """Counts verdicts."""
    judged = list(judged)
    counts = Counter(one.verdict for one in judged)
    known = [
        (one.answer.answerability, one.golden.is_answerable) for one in judged if one.answer.answerability is not None
    ]
    area = area_under_curve([likely for likely, _ in known], [is_answerable for _, is_answerable in known])
    return AnswerCounts(
        counts["right"], counts["wrong"], counts["wrongly refused"], counts["wrongly answered"],
        counts["rightly refused"], area
    )  # fmt: skip


def area_under_curve(scores: Sequence[float], is_positive: Sequence[bool]) -> float | None:
    """Share of the pairs of a positive and a negative in which the positive scores more, equal ones counting half; None
    where one of the kinds is missing.
    """
    values, positive = np.asarray(scores, dtype=np.float64), np.asarray(is_positive, dtype=np.bool_)
    above, below = values[positive], np.sort(values[~positive])
    if not len(above) or not len(below):
        return None
    less, not_more = np.searchsorted(below, above, "left"), np.searchsorted(below, above, "right")
    return float((less + not_more).sum() / (2 * len(above) * len(below)))


def _holds_answer(golden: Golden, answer: Answer) -> bool:
    if len(without_markers(answer.reply).strip()) > MOST:
        return False
    if not golden.parts:
        return any(golden.is_from(source.document_id, source.url) for source in answer.sources)
    said = _comparable(answer.reply), _comparable(without_markers(answer.reply))
    return all(any(_comparable(text) in one for text in part for one in said) for part in golden.parts)


def _comparable(text: str) -> str:
    return _THOUSANDS.sub("", normalize(text))
