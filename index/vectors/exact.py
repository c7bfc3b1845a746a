"""Exact nearest-neighbour search over a version's vectors, used where HNSW is not reliable and for narrow filters."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from almanac.core.digests import Digests, Texts, digests_of
from almanac.index.embedding.embedder import Vectors
from almanac.index.vectors.keys import RowNumbers

# A text that repeats many times (a notice on every page) has as many equal vectors. HNSW links these only to one another, and rows that were reached
# through them are lost. Rows of 5,000 x 384 that no longer find themselves: none with 300 texts 16 times each, 1 with 150 texts 32 times, 18 with one
# text 150 times, 136 with one text 500 times. Other HNSW settings change these figures; none removes the problem.
_REPEATS_THAT_HNSW_BEARS = 16
_BLOCK = 20_000  # rows copied at a time
_SINGLE_PRECISION = 1e-5  # rows whose product is this close to the last hit's are compared in double precision


def hnsw_is_reliable(repeats: int) -> bool:
    """Whether HNSW can be trusted to find every row: no vector occurs more than 16 times. `repeats` is how many rows share the most frequent vector."""
    return repeats <= _REPEATS_THAT_HNSW_BEARS


def most_repeats(keys: Texts | Digests) -> int:
    """Number of rows that share the most frequent of these vector keys; 0 without rows."""
    return int(np.unique(keys if isinstance(keys, np.ndarray) else digests_of(keys), return_counts=True)[1].max(initial=0))


def exact_cosines(vectors: Vectors, vector: Vectors) -> npt.NDArray[np.float64]:
    """Cosines of unit vectors, float32 (n, dimension), to a query's vector of shape (dimension,), rounded to 6 decimals.

    They are summed in double precision: in single precision, the products of equal vectors differ in their last bits, depending on their position.
    """
    unit = vector.astype(np.float64) / np.linalg.norm(vector.astype(np.float64))
    cosines: npt.NDArray[np.float64] = np.round(np.clip((vectors.astype(np.float64) * unit).sum(axis=1), -1.0, 1.0), 6)
    return cosines


class Searched(NamedTuple):
    """Rows to search exactly: all of some vectors, float32 (n, dimension), or those of `rows`, ascending. `ids_of` gives the chunk ids of row numbers."""

    vectors: Vectors
    ids_of: Callable[[RowNumbers], list[str]]
    rows: RowNumbers | None = None

    def products(self, unit: Vectors) -> Vectors:
        """The rows' products with a vector, in single precision."""
        if self.rows is None:
            return self.vectors @ unit
        if 2 * len(self.rows) > len(self.vectors):  # a product with all rows is quicker than copying most of them
            return (self.vectors @ unit)[self.rows]
        spans = range(0, len(self.rows), _BLOCK)
        copied = (np.take(self.vectors, self.rows[begin : begin + _BLOCK], axis=0) @ unit for begin in spans)
        return np.concatenate([np.zeros(0, dtype=np.float32), *copied])


def nearest(parts: Sequence[Searched], vector: Vectors, k: int) -> list[tuple[str, float]]:
    """Returns the k rows of largest cosine as (chunk_id, cosine rounded to 6 decimals), best first, ties by id; an empty list without rows.

    Args:
        parts: The rows, of one segment or several.
        vector: The query's vector, of shape (dimension,); it is normalised here.
        k: Maximum number of hits.
    """
    unit = vector / np.linalg.norm(vector)
    products = [part.products(unit) for part in parts]
    every = np.concatenate([np.zeros(0, dtype=np.float32), *products])
    if not len(every):
        return []
    limit = np.partition(every, -min(k, len(every)))[-min(k, len(every))] - _SINGLE_PRECISION
    ids, vectors = [], []
    for part, of_part in zip(parts, products, strict=True):
        found = np.flatnonzero(of_part >= limit)
        numbers = found if part.rows is None else part.rows[found]
        if len(numbers):
            ids += part.ids_of(numbers)
            vectors.append(np.take(part.vectors, numbers, axis=0))
    if not ids:  # a vector of length zero is near nothing
        return []
    hits = zip(ids, exact_cosines(np.concatenate(vectors), vector).tolist(), strict=True)
    return sorted(hits, key=lambda hit: (-hit[1], hit[0]))[:k]
