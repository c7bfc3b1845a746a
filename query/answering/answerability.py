"""Answerability: how likely the hits hold an answer to a question, and whether the question is refused.

It rests on the relevance of the best hit, on the sentences that would be quoted, and on what the question names that is
not there. A logistic curve makes a probability of them, fitted for the embedder on open question sets
(`index.embedding.calibrations`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from almanac.index.embedding.calibrations import AnswerCurve, answer_curve_of
from almanac.query.answering.absent import NOTHING_ABSENT, Absent, absent_from
from almanac.query.answering.extractive import Picked
from almanac.query.answering.numbered_names import Named, numbered_names, without_other_numbers
from almanac.query.retrieval.codes import has_code, rare_codes, with_codes
from almanac.query.retrieval.request import Request
from almanac.query.retrieval.retriever import Retriever
from almanac.query.retrieval.term_coverage import rarest_missing
from almanac.schemas.results import Hit

NEAREST = 5  # closest passages that are looked at, and shown beside a refusal
_MOST_LOGIT = 6.0  # relevances of 0 and 1 are as sure as .0025 and .9975


class Signs(NamedTuple):
    """What a curve weighs.

    `relevance` is the logit of the best hit's relevance; `cosine` that of the best sentence that would be quoted, in
    its context; `missing` the rarity of the rarest word of the question that the best hit lacks, as a share of that of
    its rarest word; `names_absent` whether a name in the question occurs nowhere in the version; `kind_lacks` whether
    the question asks for an hour, a price, a weight or the like, and no sentence that would be quoted has one.
    """

    relevance: float
    cosine: float
    missing: float
    names_absent: bool
    kind_lacks: bool

    def on(self, curve: AnswerCurve) -> float:
        """Probability, 0 to 1, on a curve."""
        logit = curve.intercept + sum(value * weight for value, weight in zip(self, curve.weights, strict=True))
        return 1 / (1 + math.exp(-max(-50.0, min(50.0, logit))))


@dataclass(frozen=True)
class Grounds:
    """What is known of a question and its hits before sentences are picked.

    Args:
        closest: The best hits without thresholds, best first.
        curve: Curve of the embedder, for the languages of question and best hit; None where none was fitted, or a
            request sets the floor, which then decides alone.
        wanted: Number of hits to answer from.
        floor: Minimum dense cosine of a hit to answer from.
        chunks: Number of chunks of the version.
        missing: As in `Signs`.
        absent: What the question names that is not there.
        codes: Rare codes that the question names and one of the closest hits has.
        asked: The question.
        named: The names with a number in the question.
    """

    closest: Sequence[Hit] = ()
    curve: AnswerCurve | None = None
    wanted: int = 0
    floor: float | None = None
    chunks: int = 0
    missing: float = 0.0
    absent: Absent = NOTHING_ABSENT
    codes: Sequence[str] = ()
    asked: str = ""
    named: Named = frozenset()

    def beside(self, others: "Sequence[Grounds]", closest: Sequence[Hit]) -> "Grounds":
        """These grounds where several knowledge bases are asked: with the closest hits of all, and absent is only what
        each of `others` lacks.
        """
        things, names = ([one for one in own if all(one in other for other in those)] for own, those in (
            (self.absent.things, [other.absent.things for other in others]),
            (self.absent.names, [other.absent.names for other in others]),
        ))  # fmt: skip
        return replace(self, closest=closest, absent=Absent(things, names))

    def to_quote(self, passing: Sequence[Hit]) -> Sequence[Hit]:
        """The hits to pick sentences from: where answerability decides, the closest ones from the floor on, calibrated
        thresholds or not, else `passing`.
        """
        if self.curve is None:
            return self.about(passing)
        return self.about(
            [
                hit
                for hit in self.closest[: self.wanted]
                if self.floor is None or (hit.scores.get("dense") or 0.0) >= self.floor
            ]
        )

    def about(self, hits: Sequence[Hit]) -> Sequence[Hit]:
        """The hits that have a code of the question, all where none has, without records of a name with another number.

        "How much is GR-16?" asks for the price of no other thing, and "How much is the Heron 2?" not for that of the
        Heron 4.
        """
        return without_other_numbers(self.asked, self.named, with_codes(self.codes, hits))

    def likely(self, picked: Sequence[Picked]) -> float | None:
        """How likely the hits hold an answer, 0 to 1, to 3 decimals; None where that is not known. `picked` are the
        sentences that would be quoted.
        """
        if self.absent.things:
            return 0.0
        best = max((hit.relevance for hit in self.closest if hit.relevance is not None), default=None)
        if best is None or self.curve is None or not picked:
            return best
        likely = _signs(best, picked, self).on(self.curve)
        if self.codes and any(one.holds for one in picked):  # few words beside a code say little to an embedder
            likely = max(likely, math.ceil(1000 * self.curve.refused_below(self.chunks)) / 1000)
        return round(likely, 3)

    def is_refused(self, likely: float | None) -> bool:
        """Whether a question is refused, at this answerability."""
        if self.absent.things:
            return True
        return self.curve is not None and likely is not None and likely < self.curve.refused_below(self.chunks)


def grounds_of(retriever: Retriever, asked: Request, closest: Sequence[Hit], *, decides: bool) -> Grounds:
    """The grounds on which a question is answered or refused.

    `asked` is the request for the question as it was spelt, with its vector: a replaced word may find, and proves
    nothing. `closest` are the best hits without thresholds, judged by it, best first. `decides` is whether
    answerability may refuse, since the request sets no floor of its own.
    """
    if not closest:
        return Grounds()
    best = max(closest, key=lambda hit: hit.relevance or 0.0)
    evidence = retriever.judge.evidence(asked.text, {best.chunk_id: best.scores.get("dense")})[best.chunk_id]
    readings = retriever.opened.readings(asked.text)
    language = retriever.languages.of_question(asked.text).tag
    texts = [f"{hit.title} {hit.readable}" for hit in closest]
    codes = [code for code in rare_codes(asked.text, readings) if any(has_code(code, text) for text in texts)]
    return Grounds(
        closest=closest,
        curve=answer_curve_of(retriever.opened.manifest.embedder, evidence.curve) if decides else None,
        wanted=asked.k,
        floor=asked.floor,
        chunks=retriever.opened.manifest.counts.chunks,
        missing=rarest_missing(readings, asked.text, f"{best.title} {best.readable}"),
        absent=absent_from(asked.text, language, readings, texts),
        codes=codes,
        asked=asked.text,
        named=numbered_names(asked.text, language),
    )


def _signs(relevance: float, picked: Sequence[Picked], grounds: Grounds) -> Signs:
    logit = math.log(max(relevance, 1e-6) / max(1 - relevance, 1e-6))
    return Signs(
        relevance=max(-_MOST_LOGIT, min(_MOST_LOGIT, logit)),
        cosine=max(one.cosine for one in picked),
        missing=grounds.missing,
        names_absent=bool(grounds.absent.names),
        kind_lacks=all(one.holds is False for one in picked),
    )
