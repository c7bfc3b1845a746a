"""What is asked of a version's retriever, and what it finds."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from almanac.core.given_up import require_wanted
from almanac.schemas.results import Hit

if TYPE_CHECKING:
    from almanac.index.embedding.score_thresholds import ScoreThresholds

Vectors = npt.NDArray[np.float32]
EmbedQueries = Callable[[Sequence[str]], Vectors]
SearchMode = Literal["dense", "lexical", "hybrid"]
SEARCH_MODES: tuple[SearchMode, ...] = get_args(SearchMode)


@dataclass(frozen=True, slots=True)
class Request:
    """One search request.

    `vector` is the unit vector of `text`, float32 (dimension,); None is allowed in mode `lexical` without `floor`. `k`
    is the maximum number of hits, `where` a filter in the grammar of `query.retrieval.filters`, `floor` the minimum
    dense cosine. `thresholds` are those of the embedder, applied together with the term coverage of a hit
    (`query.retrieval.relevance`). `ranking` gives the first k candidates by score, without selection (one per document,
    diversity, share), relevance and neighbours. `closest` is the number of hits, or k if that is more, to find besides,
    whether they pass `floor` and `thresholds` or not; 0 for none.
    """

    text: str
    vector: Vectors | None
    k: int
    mode: SearchMode
    where: dict[str, Any] | None = None
    floor: float | None = None
    thresholds: "ScoreThresholds | None" = None
    workspace: str | None = None
    ranking: bool = False
    closest: int = 0


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
        facts: dict[str, Any] = {"step": name, "ms": None}
        yield facts
        facts["ms"] = round(1000 * (time.perf_counter() - start), 2)
        self.trace.append(facts)


def required_vector(vector: Vectors | None) -> Vectors:
    """The vector. Raises ValueError where there is none."""
    if vector is None:
        raise ValueError("this search needs the question's vector")
    return vector
