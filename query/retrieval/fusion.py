"""Hybrid fusion: dense cosines and lexical BM25 scores of the same chunks, combined into one score.

Convex fusion with theoretical minima (TM2C2: Bruch, Gai, Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval", ACM TOIS 2023): the scores of each
retriever are scaled from their theoretical minimum to the best score found, so that a retriever whose scores are all alike does not change the order. Ranks
are not used: they would order chunks of equal scores.
"""

from collections.abc import Mapping

_LEAST_COSINE = -1.0  # the minimum of BM25 is 0


def fuse(dense: Mapping[str, float], lexical: Mapping[str, float], dense_weight: float) -> dict[str, float]:
    """Fuses dense and lexical scores into scores from 0 to 1, higher is better.

    Args:
        dense: Cosines by chunk id.
        lexical: BM25 scores, 0 or more, by chunk id.
        dense_weight: Weight of the dense score, 0 to 1; the lexical score has the rest.

    Returns:
        Fused scores, rounded to 6 decimals, for the chunk ids of both mappings together. An id that is missing in one of them contributes 0 there.
    """
    near, said = _scaled(dense, _LEAST_COSINE), _scaled(lexical, 0.0)
    return {one: round(dense_weight * near.get(one, 0.0) + (1 - dense_weight) * said.get(one, 0.0), 6) for one in {**near, **said}}


def _scaled(scores: Mapping[str, float], least: float) -> dict[str, float]:
    best = max(scores.values(), default=least)
    if best <= least:
        return dict.fromkeys(scores, 0.0)
    return {one: (score - least) / (best - least) for one, score in scores.items()}
