"""Two sides of one search: dense cosines and lexical scores of the same chunks, joined into one score.

Convex fusion with theoretical minima (TM2C2: Bruch, Gai, Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval", ACM TOIS 2023): each side is
scaled from the least that it can be to the best that it found, so that a side which tells nothing apart moves nothing. Ranks play no part: a list of
equal dense scores is no list of better and worse.
"""

from collections.abc import Mapping

_LEAST_COSINE = -1.0  # of BM25 it is 0


def fuse(dense: Mapping[str, float], lexical: Mapping[str, float], dense_weight: float) -> dict[str, float]:
    """Chunk id → score from 0 to 1, for every id of either side; a side that lacks an id gives it nothing.

    `dense` holds cosines, `lexical` BM25 scores of 0 or more, `dense_weight` the share of the dense side from 0 to 1.
    """
    near, said = _scaled(dense, _LEAST_COSINE), _scaled(lexical, 0.0)
    return {one: round(dense_weight * near.get(one, 0.0) + (1 - dense_weight) * said.get(one, 0.0), 6) for one in {**near, **said}}


def _scaled(scores: Mapping[str, float], least: float) -> dict[str, float]:
    best = max(scores.values(), default=least)
    if best <= least:
        return dict.fromkeys(scores, 0.0)
    return {one: (score - least) / (best - least) for one, score in scores.items()}
