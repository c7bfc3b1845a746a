"""Exact search over the vectors of a version, for where HNSW loses rows, and among few."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from almanac.index.embedding.embedder import Vectors
from almanac.index.vectors.keys import RowNumbers

# A text that stands many times (a notice on every page) makes as many equal vectors. HNSW links them to one another only, and
# what was reached through them is lost. Rows of 5,000 x 384 that no longer find themselves: none with 300 texts 16 times each,
# 1 with 150 texts 32 times, 18 with one text 150 times, 136 with one text 500 times. Other settings move these figures, none mends them.
_REPEATS_THAT_HNSW_BEARS = 16


def hnsw_is_reliable(keys: pa.ChunkedArray) -> bool:
    """Whether HNSW finds its rows with these vector keys, one for each row."""
    return not len(keys) or pc.max(pc.value_counts(keys).field("counts")).as_py() <= _REPEATS_THAT_HNSW_BEARS


def nearest(vectors: Vectors, chunk_ids: Sequence[str], vector: Vectors, k: int, rows: RowNumbers | None = None) -> list[tuple[str, float]]:
    """The k rows of largest cosine as (chunk_id, cosine), best first and equal ones by id; among `rows` only, where given."""
    unit = vector / np.linalg.norm(vector)
    products = (vectors if rows is None else np.take(vectors, rows, axis=0)) @ unit
    # Equal vectors come out a few last bits apart, depending on their place in the matrix.
    cosines = np.round(np.clip(products.astype(np.float64), -1.0, 1.0), 6)
    limit = np.partition(cosines, -min(k, len(cosines)))[-min(k, len(cosines))]
    best = np.flatnonzero(cosines >= limit)
    numbers = (best if rows is None else rows[best]).tolist()
    return sorted(zip((chunk_ids[number] for number in numbers), cosines[best].tolist(), strict=True), key=lambda hit: (-hit[1], hit[0]))[:k]
