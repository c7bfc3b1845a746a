"""Hybrid fusion: dense cosines and lexical BM25 scores of the same chunks, combined into one score.

A weighted sum of both, each on a scale of 0 to 1 that says something by itself:

- A cosine by how far it stands out from the cosines of the question to any chunks, in standard deviations. These differ
  by embedder (unrelated English texts are at .03 with all-MiniLM-L6-v2, at .74 with multilingual-e5-small), by language
  and by question, so they are taken from the version itself.
- A BM25 score by its share of what a text with all words of the question would score. Where hardly a word of the
  question occurs, words have hardly a vote.

Scores are compared, not ranks, which would order chunks of equal scores.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

# Standard deviations from the mean cosine at which the scale begins and, unless the best cosine stands out more, ends.
# The best of XQuAD's 240 passages stands out by 3.2 to 6.8 where the embedder knows the language (5th to 95th
# percentile), by 1.8 to 4.9 where it does not.
_BEGIN, _END = -1.0, 7.0
_LEAST_SPREAD = 0.01  # standard deviation assumed at least, since a few chunks may all be alike


class UsualCosine(NamedTuple):
    """Mean and standard deviation of the cosines of a question to chunks, whatever they are about."""

    mean: float
    spread: float

    @classmethod
    def of(cls, cosines: npt.NDArray[np.float32]) -> "UsualCosine":
        """From cosines, float32 (n,); of none, as in a version that has no chunks, the mean is 0."""
        if not len(cosines):
            return cls(0.0, _LEAST_SPREAD)
        return cls(float(cosines.mean()), max(float(cosines.std()), _LEAST_SPREAD))

    def at(self, deviations: float) -> float:
        """The cosine that many standard deviations above the mean."""
        return self.mean + deviations * self.spread


def fuse(
    dense: Mapping[str, float],
    lexical: Mapping[str, float],
    dense_weight: float,
    *,
    usual: UsualCosine,
    attainable: float,
    votes: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """Fuses dense and lexical scores into scores from 0 to 1, higher is better.

    Args:
        dense: Cosines by chunk id.
        lexical: BM25 scores, 0 or more, by chunk id.
        dense_weight: Weight of the dense score, 0 to 1; the lexical score has the rest.
        usual: Cosines of the question to chunks in general.
        attainable: BM25 score of a text with all words of the question (`index.lexical.attainable`).
        votes: Share of the lexical score's weight that counts, 0 to 1, for chunks of which less than all does; the
            dense score has the rest.

    Returns:
        Fused scores, rounded to 6 decimals, for the chunk ids of both mappings together. An id that is missing in one
        of them contributes 0 there.
    """
    near, said = _standing_out(dense, usual), matched(lexical, attainable)
    fused = {}
    for one in {**near, **said}:
        weight = (1 - dense_weight) * (votes or {}).get(one, 1.0)
        fused[one] = round((1 - weight) * near.get(one, 0.0) + weight * said.get(one, 0.0), 6)
    return fused


def matched(lexical: Mapping[str, float], attainable: float) -> dict[str, float]:
    """BM25 scores as shares, 0 to 1, of the attainable score, or of the best one where that is higher."""
    most = max(attainable, *lexical.values(), 0.0) if lexical else 0.0
    return {one: score / most if most > 0 else 0.0 for one, score in lexical.items()}


def _standing_out(dense: Mapping[str, float], usual: UsualCosine) -> dict[str, float]:
    least = usual.at(_BEGIN)
    most = max(usual.at(_END), *dense.values()) if dense else least + 1
    return {one: max(0.0, (cosine - least) / (most - least)) for one, cosine in dense.items()}
