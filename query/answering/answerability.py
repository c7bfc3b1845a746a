"""Answerability: how likely the hits hold an answer to a question, and whether the question is refused.

It rests on how near the best sentence that would be quoted is to the question. A logistic curve makes a probability of
that: docs/quality.md says on which questions it was fitted.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from almanac.query.answering.extractive import Picked
from almanac.query.retrieval.codes import codes_in, has_code, rare_codes, with_codes
from almanac.query.retrieval.request import Request
from almanac.query.retrieval.retriever import Retriever
from almanac.schemas.results import Hit

READ = 10  # closest passages that are read for an answer, unless a request says how many
NEAREST = 5  # and that are shown beside a refusal
# The probability is .5 at this cosine of the best sentence by multilingual-e5-small, and grows by this many logits for
# each unit of it. A sentence in another language than the question is farther from it, whatever it says.
EVEN, EVEN_FOREIGN, SLOPE = 0.822, 0.785, 55.0
LEAST = 0.5  # probability below which a question is refused


@dataclass(frozen=True)
class Grounds:
    """What is known of a question and its hits before sentences are picked.

    Args:
        closest: The best hits without thresholds, best first.
        wanted: Number of hits to read.
        floor: Minimum dense cosine of a hit to read; None for none.
        decides: Whether answerability may refuse: a floor of the request decides alone, and so does relevance where
            sentences are read by an embedder that was not measured.
        codes: Codes of the question that one of the hits has.
        absent: Those that none has: nothing else answers for them.
    """

    closest: Sequence[Hit] = ()
    wanted: int = READ
    floor: float | None = None
    decides: bool = True
    codes: Sequence[str] = ()
    absent: Sequence[str] = ()

    def to_read(self, passing: Sequence[Hit]) -> Sequence[Hit]:
        """The hits to pick sentences from: where answerability decides, the closest ones from the floor on, else
        `passing`. Where some have a code of the question, those: "How much is GR-16?" asks for the price of no other
        thing.
        """
        near = [
            hit
            for hit in self.closest[: self.wanted]
            if self.floor is None or (hit.scores.get("dense") or 0.0) >= self.floor
        ]
        return with_codes(self.codes, near if self.decides else passing)

    def likely(self, picked: Sequence[Picked]) -> float | None:
        """How likely the hits hold an answer, 0 to 1, to 3 decimals, by the sentences that would be quoted. Without
        any, and where answerability decides nothing, the relevance of the best hit.
        """
        if self.absent:
            return 0.0
        if not picked or not self.decides:
            return max((hit.relevance for hit in self.closest if hit.relevance is not None), default=None)
        logit = max(SLOPE * (pick.cosine - (EVEN_FOREIGN if pick.is_foreign else EVEN)) for pick in picked)
        return round(1 / (1 + math.exp(-max(-50.0, min(50.0, logit)))), 3)

    def is_refused(self, likely: float | None) -> bool:
        """Whether a question is refused, at this answerability."""
        return bool(self.absent) or (self.decides and likely is not None and likely < LEAST)

    def merge_others(self, others: "Sequence[Grounds]", closest: Sequence[Hit]) -> "Grounds":
        """These grounds where several knowledge bases are asked: with the closest hits of all, and absent is only what
        all of them lack.
        """
        codes = list(dict.fromkeys(code for grounds in others for code in grounds.codes))
        return replace(self, closest=closest, codes=codes, absent=[code for code in self.absent if code not in codes])


def grounds_of(
    retriever: Retriever, request: Request, closest: Sequence[Hit], *, wanted: int, decides: bool
) -> Grounds:
    """The grounds on which a question is answered or refused."""
    named = codes_in(request.text)
    forms = {code: {code, code[:-1] if code[-1].islower() else code} for code in named}  # "Do my E4s last?"
    texts = [f"{hit.title} {hit.readable}" for hit in closest] if named else []
    rare = rare_codes(request.text, retriever.opened.readings(request.text)) if named else []
    return Grounds(
        closest,
        wanted,
        request.floor,
        decides,
        codes=[code for code in rare if any(has_code(code, text) for text in texts)],
        absent=[code for code in named if not any(has_code(form, text) for form in forms[code] for text in texts)],
    )
