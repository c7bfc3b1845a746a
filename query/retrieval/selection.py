"""From candidates in order to the hits that are returned: as many as are worth it, not twice the same."""

from collections.abc import Callable, Sequence

import numpy as np

from almanac.query.retrieval.candidates import Candidate

Vectors = Callable[[Sequence[str]], np.ndarray]


def one_of_each_document(candidates: Sequence[Candidate], document_of: Callable[[Sequence[str]], Sequence[tuple[str, str]]]) -> list[Candidate]:
    """The best chunk of each document, in the order given."""
    seen: set[tuple[str, str]] = set()
    kept = []
    for candidate, document in zip(candidates, document_of([one.chunk_id for one in candidates]), strict=True):
        if document not in seen:
            seen.add(document)
            kept.append(candidate)
    return kept


def mmr(candidates: Sequence[Candidate], k: int, diversity: float, vectors: Vectors) -> list[Candidate]:
    """The k that tell most together (maximal marginal relevance; Carbonell and Goldstein, SIGIR 1998): `diversity` 0 asks for the best, 1 for the unlike.

    `vectors` gives unit vectors of shape (n, dimension).
    """
    if diversity == 0 or len(candidates) <= 1:
        return list(candidates[:k])
    matrix = vectors([one.chunk_id for one in candidates])
    alike = matrix @ matrix.T
    chosen: list[int] = []
    left = list(range(len(candidates)))
    while left and len(chosen) < k:
        worth = [(1 - diversity) * candidates[i].score - diversity * (max(alike[i, chosen]) if chosen else 0.0) for i in left]
        chosen.append(left.pop(int(np.argmax(worth))))
    return [candidates[i] for i in chosen]


def drop_below_score_share(candidates: Sequence[Candidate], share: float | None, least: int) -> list[Candidate]:
    """Those whose score is at least `share` of the best one's, and the first `least` anyway."""
    if share is None or not candidates:
        return list(candidates)
    limit = share * max(one.score for one in candidates)
    return [one for place, one in enumerate(candidates) if place < least or one.score >= limit]
