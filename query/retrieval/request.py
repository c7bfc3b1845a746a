"""What is asked of a version's retriever, and what it finds."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from almanac.core.given_up import require_wanted
from almanac.index.embedding.embedder import ScoreThresholds, Vectors
from almanac.schemas.results import Hit

EmbedQueries = Callable[[Sequence[str]], Vectors]
SearchMode = Literal["dense", "lexical", "hybrid"]
SEARCH_MODES: tuple[SearchMode, ...] = ("dense", "lexical", "hybrid")


@dataclass(frozen=True, slots=True)
class Request:
    """One search request.

    Args:
        text: Text to search for.
        vector: Unit vector of the text, float32 (dimension,). None is allowed in mode `lexical` without `floor`; tags
            are then matched by their words alone.
        k: Maximum number of hits.
        mode: Retrievers to use.
        where: Metadata filter, in the grammar of `query.retrieval.filters`.
        floor: Minimum dense cosine of a hit.
        thresholds: Calibrated score thresholds of the embedder, whose floor is applied together with the term coverage
            of a hit (`query.retrieval.relevance`): in a language that the embedder does not cover, term coverage
            decides alone.
        workspace: Value that the declared workspace field of a hit must have.
        ranking: Whether to return the first k candidates in order of their scores, without selection (one per document,
            diversity, share), relevance and neighbours.
        closest: Number of hits, or k if that is more, to find besides: the closest, whether they pass `floor` and
            `thresholds` or not. 0 for none.
    """

    text: str
    vector: Vectors | None
    k: int
    mode: SearchMode
    where: dict[str, Any] | None = None
    floor: float | None = None
    thresholds: ScoreThresholds | None = None
    workspace: str | None = None
    ranking: bool = False
    closest: int = 0


@dataclass(slots=True)
class Retrieved:
    """Hits, best first, and the trace of the search: one mapping for each step, with `step`, `ms` (milliseconds) and
    what the step adds.

    `rivals` are the chunk ids of the first candidates, before tags, reranking and thresholds: what hits are compared
    with for their relevance. `closest` are the best hits without floor and thresholds, as many as the request wants of
    them.
    """

    hits: list[Hit] = field(default_factory=list)
    trace: list[dict[str, Any]] = field(default_factory=list)
    rivals: list[str] = field(default_factory=list)
    closest: list[Hit] = field(default_factory=list)

    @contextmanager
    def step(self, name: str) -> Iterator[dict[str, Any]]:
        """Times a step and appends it to the trace. The block puts its results into the yielded dictionary. Raises
        GivenUp before it.
        """
        require_wanted()
        start = time.perf_counter()
        told: dict[str, Any] = {"step": name, "ms": None}
        yield told
        told["ms"] = round(1000 * (time.perf_counter() - start), 2)
        self.trace.append(told)


def required_vector(vector: Vectors | None) -> Vectors:
    """The vector. Raises ValueError where there is none."""
    if vector is None:
        raise ValueError("this search needs the question's vector")
    return vector
