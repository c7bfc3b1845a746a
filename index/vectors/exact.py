"""Exact nearest-neighbour search over a version's vectors, used where HNSW is not reliable and for narrow filters."""

from collections.abc import Callable

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


def nearest(vectors: Vectors, ids_of: Callable[[RowNumbers], list[str]], vector: Vectors, k: int, rows: RowNumbers | None = None) -> list[tuple[str, float]]:
    """Returns the k rows of largest cosine as (chunk_id, cosine rounded to 6 decimals), best first, ties by id.

    Args:
        vectors: Unit vectors, float32 (n, dimension).
        ids_of: Gives the chunk ids of row numbers, in their order.
        vector: The query's vector, of shape (dimension,); it is normalised here.
        k: Maximum number of hits.
        rows: Restricts the search to these row numbers, ascending; None searches all rows.
    """
    unit = vector / np.linalg.norm(vector)
    if rows is None:
        products = vectors @ unit
    elif 2 * len(rows) > len(vectors):  # a product with all rows is quicker than copying most of them
        products = (vectors @ unit)[rows]
    else:
        products = np.concatenate([np.take(vectors, rows[begin : begin + _BLOCK], axis=0) @ unit for begin in range(0, len(rows), _BLOCK)])
    limit = np.partition(products, -min(k, len(products)))[-min(k, len(products))] - _SINGLE_PRECISION
    found = np.flatnonzero(products >= limit)
    numbers = found if rows is None else rows[found]
    hits = zip(ids_of(numbers), exact_cosines(np.take(vectors, numbers, axis=0), vector).tolist(), strict=True)
    return sorted(hits, key=lambda hit: (-hit[1], hit[0]))[:k]
