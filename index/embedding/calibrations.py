"""Calibrations of the bundled embedders: the curves by which evidence for a hit becomes its relevance.

Made by `python -m benchmarks.calibration --sets …` on 22 November 2026: hits 1 to 5 of hybrid searches for one half of
the questions (by the hash of their ids) of XQuAD in English, Spanish and Vietnamese, Cranfield and CLAP NQ. Among the
questions are such without an answer there: of passages left out, of other sets, greetings, keyboard mash. The other
half is what docs/relevance.md reports.
"""

import math
from typing import NamedTuple

from almanac.index.embedding.score_thresholds import E5_PROMPTS, E5_REVISION, MINILM_REVISION, of_measured
from almanac.schemas.manifest import Calibration, Curve, EmbedderInfo

_MEASURED = {
    (MINILM_REVISION, "", ""): Calibration(
        known=Curve(intercept=-7.38, cosine=9.26, coverage=5.94, cosine_margin=2.34, coverage_margin=8.78),
        unknown=Curve(intercept=-3.52, cosine=0.17, coverage=13.55, cosine_margin=13.99, coverage_margin=16.51),
    ),
    (E5_REVISION, *E5_PROMPTS): Calibration(
        known=Curve(intercept=-29.91, cosine=31.58, coverage=7.41, cosine_margin=43.42, coverage_margin=9.34),
        foreign=Curve(intercept=-41.74, cosine=49.26, coverage=13.7, cosine_margin=94.31, coverage_margin=8.76),
    ),
}


class AnswerCurve(NamedTuple):
    """A logistic curve: how likely the hits hold an answer is 1 / (1 + exp(-(intercept + weights · signs)))
    (`query.answering.answerability`).
    """

    intercept: float
    weights: tuple[float, ...]  # of `Signs`, in their order
    least: float  # in a small version, questions are refused below this probability
    least_in_large: float  # and in a large one, where passages about nearly the same thing come nearer

    def refused_below(self, chunks: int) -> float:
        """The probability below which a question is refused, in a version of so many chunks: `least` up to 250,
        `least_in_large` from 600 on.
        """
        share = math.log(max(chunks, 1) / _SMALL) / math.log(_LARGE / _SMALL)
        return self.least + max(0.0, min(1.0, share)) * (self.least_in_large - self.least)


# Fitted on 22 November 2026, on XQuAD (en, es, English over es; its passage, or its article, hidden or not), Hebrew and
# French questions, the open questions over the examples, and CLAP NQ with its unanswerable questions, whose near
# documents stay; of the other half of those with many questions, by the bit of their ids' hashes that calibrations go
# by, and of the examples, in hits that hold the answer, and in hits that do not: wrongly refused        unanswerable
# questions answered      area under the curve MiniLM, CLAP NQ (at .45)          2 %                    61 %
# .84 MiniLM, examples (.20)           12 %                    44 %                                 .81 e5, CLAP NQ (at
# .45)              6 %                    60 %                                 .87 e5, examples (.30)                9
# %                    40 %                                 .84 e5, XQuAD, passage hidden (.30)   2 % en, 2 % es
# 30 % en, 46 % es                     .97, .96 e5, Hebrew, passages hidden      16 %                    45 %
# .77 Thresholds differ by size since CLAP NQ's 597 passages have nearly right ones: at .30, 77 % of its unanswerable
# questions would be answered; the examples have 16 to 60, and at .45 a quarter of their answerable questions, which are
# asked in other words, would be refused.
_SMALL, _LARGE = 250, 600
# A name that occurs nowhere speaks against an answer, "Is there a tour to Bangkok?", but not always: "Can I work from
# Spain?". Chosen by hand: of 160 open questions over the examples, 5 of those with an answer have such a name, and 4 of
# those without.
_ABSENT = -0.7
# So does a question for a price where no sentence holds one. Fitted on 310 questions over six other bases, and on the
# sets above: -1.2 to -1.6.
_LACKS = -1.5
_ANSWERS = {
    (MINILM_REVISION, "", ""): {
        "known": AnswerCurve(-0.24, (0.3, 3.24, -1.15, _ABSENT, _LACKS), 0.2, 0.45),
        "unknown": AnswerCurve(2.24, (0.2, 0.0, -2.69, _ABSENT, _LACKS), 0.3, 0.3),
    },
    (E5_REVISION, *E5_PROMPTS): {
        "known": AnswerCurve(-20.65, (0.33, 25.41, -0.44, _ABSENT, _LACKS), 0.3, 0.45),
        "foreign": AnswerCurve(-9.79, (0.31, 16.32, -3.58, _ABSENT, _LACKS), 0.2, 0.2),
    },
}


def calibration_of(info: EmbedderInfo) -> Calibration | None:
    """Returns the calibration of a bundled embedder with its own prompts; None for any other."""
    return of_measured(_MEASURED, info)


def answer_curve_of(info: EmbedderInfo, name: str) -> AnswerCurve | None:
    """Returns the curve of a bundled embedder with its own prompts by which questions are refused, for the languages
    that `name` says, as in `Calibration`.
    """
    return (of_measured(_ANSWERS, info) or {}).get(name)
