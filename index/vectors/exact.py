"""Exact nearest-neighbour search over a version's vectors, used where HNSW is not reliable and for narrow filters."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from almanac.index.embedding.embedder import Vectors
from almanac.index.vectors.keys import RowNumbers

# A text that repeats many times (a notice on every page) has as many equal vectors. HNSW links these only to one another, and rows that were reached
# through them are lost. Rows of 5,000 x 384 that no longer find themselves: none with 300 texts 16 times each, 1 with 150 texts 32 times, 18 with one
# text 150 times, 136 with one text 500 times. Other HNSW settings change these figures; none removes the problem.
_REPEATS_THAT_HNSW_BEARS = 16


def hnsw_is_reliable(keys: pa.ChunkedArray) -> bool:
    """Whether HNSW can be trusted to find every row: no vector occurs more than 16 times. `keys` has the vector key of each row."""
    return not len(keys) or pc.max(pc.value_counts(keys).field("counts")).as_py() <= _REPEATS_THAT_HNSW_BEARS


def nearest(vectors: Vectors, chunk_ids: Sequence[str], vector: Vectors, k: int, rows: RowNumbers | None = None) -> list[tuple[str, float]]:
    """Returns the k rows of largest cosine as (chunk_id, cosine rounded to 6 decimals), best first, ties by id.

    Args:
        vectors: Unit vectors, float32 (n, dimension).
        chunk_ids: Chunk id of each row of `vectors`.
        vector: The query's vector, of shape (dimension,); it is normalised here.
        k: Maximum number of hits.
        rows: Restricts the search to these row numbers; None searches all rows.
    """
    unit = vector / np.linalg.norm(vector)
    products = (vectors if rows is None else np.take(vectors, rows, axis=0)) @ unit
    # The products of equal vectors differ in their last bits, depending on their position in the matrix.
    cosines = np.round(np.clip(products.astype(np.float64), -1.0, 1.0), 6)
    limit = np.partition(cosines, -min(k, len(cosines)))[-min(k, len(cosines))]
    best = np.flatnonzero(cosines >= limit)
    numbers = (best if rows is None else rows[best]).tolist()
    return sorted(zip((chunk_ids[number] for number in numbers), cosines[best].tolist(), strict=True), key=lambda hit: (-hit[1], hit[0]))[:k]
