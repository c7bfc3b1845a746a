"""Candidates of a hybrid search: what the dense and the lexical retriever propose, in one score.

It is a weighted sum of both, each on a scale of 0 to 1 that says something by itself:

- A cosine by how far it stands out from the cosines of the question to any chunks, in standard deviations. These differ
  by embedder (unrelated English texts are at .03 with all-MiniLM-L6-v2, at .74 with multilingual-e5-small), by language
  and by question, so they are taken from the version itself.
- A BM25 score by its share of what a text with all words of the question would score. Where hardly a word of the
  question occurs, words have hardly a vote.

Scores are compared, not ranks, which would order chunks of equal scores.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from almanac.index.lexical.lexical_reader import attainable_score
from almanac.query.retrieval.question_language import ContentLanguages
from almanac.query.retrieval.request import Candidate, Request, Retrieved, Vectors, required_vector

if TYPE_CHECKING:
    from almanac.index.reader import ChunkSet, OpenVersion
    from almanac.schemas.declaration.retrieve import Retrieve

# Standard deviations from the mean cosine at which the scale begins and, unless the best cosine stands out more, ends.
# The best of XQuAD's 240 passages stands out by 3.2 to 6.8 where the embedder knows the language (5th to 95th
# percentile), by 1.8 to 4.9 where it does not.
_BEGIN, _END = -1.0, 7.0
_LEAST_SPREAD = 0.01  # standard deviation assumed at least, since a few chunks may all be alike
# Vietnamese without diacritics, which the index reads and an embedder hardly does: the share of the question that the
# best match has from which on it is such (96 % reach it, 6 % of English questions), and the dense score's weight then
_TYPED_BARE, _WEIGHT_OF_BARE = 0.5, 0.2
_SAMPLED = 1000  # chunks from which is told what is usual


class UsualCosine(NamedTuple):
    """Mean and standard deviation of the cosines of a question to chunks, whatever they are about."""

    mean: float
    spread: float

    @classmethod
    def from_cosines(cls, cosines: npt.NDArray[np.float32]) -> "UsualCosine":
        """From cosines, float32 (n,); of none, as in a version that has no chunks, the mean is 0."""
        if not len(cosines):
            return cls(0.0, _LEAST_SPREAD)
        return cls(float(cosines.mean()), max(float(cosines.std()), _LEAST_SPREAD))

    def at(self, deviations: float) -> float:
        """The cosine that many standard deviations above the mean."""
        return self.mean + deviations * self.spread


class Sample:
    """Up to 1,000 chunks of smallest id: ids are hashes, so the sample is random, and the same for the same content.
    Read on first use.
    """

    def __init__(self, opened: "OpenVersion") -> None:
        self._opened = opened

    @cached_property
    def vectors(self) -> Vectors:
        """Their vectors, float32 (n, dimension)."""
        return self._opened.vectors(self._opened.smallest(_SAMPLED))

    def usual_cosine(self, vector: Vectors) -> UsualCosine:
        """What cosines to them a question has whose unit vector is given."""
        return UsualCosine.from_cosines(self.vectors @ vector)

    @cached_property
    def usual_likeness(self) -> float:
        """Mean cosine of two different ones; 0 for a single one."""
        count, total = len(self.vectors), self.vectors.sum(axis=0, dtype=np.float64)
        return (float(total @ total) - count) / (count * (count - 1)) if count > 1 else 0.0


def fuse(
    dense: Mapping[str, float],
    lexical: Mapping[str, float],
    dense_weight: float,
    *,
    usual: UsualCosine,
    attainable: float,
    vote: float = 1.0,
) -> dict[str, float]:
    """Fuses cosines and BM25 scores, by chunk id, into scores from 0 to 1, rounded to 6 decimals. An id that is missing
    in one of the mappings contributes 0 there.

    Args:
        dense, lexical: Cosines, and BM25 scores, 0 or more.
        dense_weight: Weight of the dense score, 0 to 1; the lexical score has the rest.
        usual: Cosines of the question to chunks in general.
        attainable: BM25 score of a text with all words of the question (`index.lexical.lexical_reader`).
        vote: Share, 0 to 1, of the lexical score's weight that counts; the dense score has what is left of it.
    """
    least = usual.at(_BEGIN)
    most = max(usual.at(_END), *dense.values()) if dense else least + 1
    near = {chunk_id: max(0.0, (cosine - least) / (most - least)) for chunk_id, cosine in dense.items()}
    shares, weight = matched(lexical, attainable), (1 - dense_weight) * vote
    return {
        chunk_id: round((1 - weight) * near.get(chunk_id, 0.0) + weight * shares.get(chunk_id, 0.0), 6)
        for chunk_id in {**near, **shares}
    }


def matched(lexical: Mapping[str, float], attainable: float) -> dict[str, float]:
    """BM25 scores as shares, 0 to 1, of the attainable score, or of the best one where that is higher."""
    most = max(attainable, *lexical.values(), 0.0) if lexical else 0.0
    return {chunk_id: score / most if most > 0 else 0.0 for chunk_id, score in lexical.items()}


class Proposals:
    """Proposes candidates of one open version, as its `retrieve` section declares. Safe to share among threads."""

    def __init__(
        self, declared: "Retrieve", opened: "OpenVersion", languages: ContentLanguages, sample: Sample
    ) -> None:
        self._declared, self._opened, self._languages, self._sample = declared, opened, languages, sample

    def propose_candidates(self, request: Request, ids: "ChunkSet | None", retrieved: Retrieved) -> list[Candidate]:
        """Candidates of the retrievers of the mode, best first. In mode `hybrid` each has its dense and, where a term
        matches, its lexical score.

        `ids` are the chunks to search, None for all; the steps are added to the trace of `retrieved`.
        """
        wanted = max(self._declared.candidates, request.k)
        dense: dict[str, float] = {}
        lexical: dict[str, float] = {}
        if request.mode != "lexical":
            with retrieved.step("dense") as facts:
                dense.update(self._opened.query(required_vector(request.vector), wanted, ids))
                facts["candidates"] = len(dense)
        if request.mode != "dense":
            with retrieved.step("lexical") as facts:
                lexical.update(self._opened.lexical(request.text, wanted, ids))
                facts["candidates"] = len(lexical)
        if request.vector is not None and (missing := [chunk_id for chunk_id in lexical if chunk_id not in dense]):
            with retrieved.step("dense scores of lexical candidates") as facts:
                dense.update(self._opened.cosines(request.vector, missing))
                facts["candidates"] = len(missing)
        if request.mode == "hybrid" and (missing := [chunk_id for chunk_id in dense if chunk_id not in lexical]):
            with retrieved.step("lexical scores of dense candidates") as facts:
                lexical.update(self._opened.lexical(request.text, len(missing), missing))
                facts["candidates"] = len(missing)
        with retrieved.step("fuse") as facts:
            scores = lexical if request.mode == "lexical" else dense
            if request.mode == "hybrid":
                scores = self._fused(request, dense, lexical, facts)
            candidates = [
                Candidate(chunk_id, score, dense.get(chunk_id), lexical.get(chunk_id))
                for chunk_id, score in scores.items()
            ]
        return sorted(candidates, key=lambda candidate: candidate.order)

    def _fused(
        self, request: Request, dense: dict[str, float], lexical: dict[str, float], facts: dict[str, Any]
    ) -> dict[str, float]:
        """Fused scores. Words vote as far as the best match has the question's, and the embedder gets the rest of their
        vote, if it knows the question's language and one of the content: of a question in other words than the text's,
        or in another language, where names and codes alone match.
        """
        readings, weight = self._opened.readings(request.text), self._declared.dense_weight
        attainable = min((attainable_score(reading, request.text) for reading in readings), default=0.0)
        share = max(matched(lexical, attainable).values(), default=0.0)
        language = self._languages.of_question(request.text)
        vote = share if self._languages.are_known(language) else 1.0
        if share >= _TYPED_BARE and all(reading.is_folded for reading in readings):
            weight, vote = min(weight, _WEIGHT_OF_BARE), 1.0
        usual = self._sample.usual_cosine(required_vector(request.vector))
        facts.update(dense_weight=weight, usual_cosine=round(usual.mean, 6), spread=round(usual.spread, 6))
        facts.update(
            attainable=round(attainable, 4), matched=round(share, 4), language=language.tag, vote=round(vote, 4)
        )
        return fuse(dense, lexical, weight, usual=usual, attainable=attainable, vote=vote)
