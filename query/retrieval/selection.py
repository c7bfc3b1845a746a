"""Selection of the returned hits among ordered candidates: one per document, diversity, and a relative score
threshold.
"""

from collections.abc import Callable, Sequence

import numpy as np

from almanac.query.retrieval.candidates import Candidate

_LEAST_RANGE = 0.01  # of cosines from the usual one up to 1: in a version of repetitions, the usual one is 1
VectorsOf = Callable[[Sequence[str]], np.ndarray]


def one_of_each_document(
    candidates: Sequence[Candidate], document_of: Callable[[Sequence[str]], Sequence[tuple[str, str]]]
) -> list[Candidate]:
    """The first candidate of each document, in the order given. `document_of` gives (source, document id) for each
    chunk id.
    """
    seen: set[tuple[str, str]] = set()
    kept = []
    for candidate, document in zip(candidates, document_of([one.chunk_id for one in candidates]), strict=True):
        if document not in seen:
            seen.add(document)
            kept.append(candidate)
    return kept


def mmr(
    candidates: Sequence[Candidate], k: int, diversity: float, vectors: VectorsOf, usual: float = 0.0
) -> list[Candidate]:
    """Selects k candidates by maximal marginal relevance (Carbonell and Goldstein, SIGIR 1998).

    Args:
        candidates: Candidates, best first.
        k: Maximum number of candidates to select.
        diversity: Weight of the dissimilarity, 0 to 1. 0 selects the first k; 1 considers only the similarity to those
            already selected.
        vectors: Gives the unit vectors of chunk ids, float32 (n, dimension). Called once, unless `diversity` is 0.
        usual: Mean cosine of two chunks. It counts as a similarity of 0, since the cosines of some embedders are all
            high.

    Returns:
        The selected candidates in order of selection.
    """
    if diversity == 0 or len(candidates) <= 1:
        return list(candidates[:k])
    matrix = vectors([one.chunk_id for one in candidates])
    alike = (matrix @ matrix.T - usual) / max(1 - usual, _LEAST_RANGE)
    chosen: list[int] = []
    left = list(range(len(candidates)))
    while left and len(chosen) < k:
        worth = [
            (1 - diversity) * candidates[i].score - diversity * (max(alike[i, chosen]) if chosen else 0.0) for i in left
        ]
        chosen.append(left.pop(int(np.argmax(worth))))
    return [candidates[i] for i in chosen]


def drop_below_score_share(candidates: Sequence[Candidate], share: float | None, least: int) -> list[Candidate]:
    """Keeps the candidates whose score is at least `share` times the best one's, and the first `least` in any case; all
    of them where `share` is None.
    """
    if share is None or not candidates:
        return list(candidates)
    limit = share * max(one.score for one in candidates)
    return [one for place, one in enumerate(candidates) if place < least or one.score >= limit]
