"""A chunk that may become a hit, and what each side of the search says of it."""

from dataclasses import dataclass


@dataclass(slots=True)
class Candidate:
    """`score` decides the order; the others are its parts, None where a side was not asked: cosine, BM25, shares of tags, a reranker's own scale."""

    chunk_id: str
    score: float
    dense: float | None = None
    lexical: float | None = None
    tag: float | None = None
    cluster: float | None = None
    rerank: float | None = None

    @property
    def order(self) -> tuple[float, str]:
        """Best first, equal ones by id."""
        return (-self.score, self.chunk_id)
