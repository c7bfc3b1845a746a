"""Candidates: chunks that the dense or the lexical retriever proposes as hits, with their scores."""

from dataclasses import dataclass


@dataclass(slots=True)
class Candidate:
    """A chunk that may become a hit. `score` decides its order; the other scores are the parts of it, None where they
    were not computed.

    `dense` is a cosine, `lexical` a BM25 score, `tag` and `cluster` are shares from 0 to 1, `rerank` is on the
    reranker's own scale.
    """

    chunk_id: str
    score: float
    dense: float | None = None
    lexical: float | None = None
    tag: float | None = None
    cluster: float | None = None
    rerank: float | None = None

    @property
    def order(self) -> tuple[float, str]:
        """Sort key: highest score first, equal scores by ascending chunk id."""
        return (-self.score, self.chunk_id)
