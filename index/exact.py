"""Exact search over all vectors of a version, for where HNSW loses rows."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from index.embedder import Vectors

if TYPE_CHECKING:
    from chromadb.api.models.Collection import Collection

# A text that stands many times (a notice on every page) makes as many equal vectors. HNSW links them to one another only, and
# what was reached through them is lost. Rows of 5,000 x 384 that no longer find themselves: none with 300 texts 16 times each,
# 1 with 150 texts 32 times, 18 with one text 150 times, 136 with one text 500 times. Other settings move these figures, none mends them.
_REPEATS_THAT_HNSW_BEARS = 16
_BATCH = 5000


def hnsw_bears(keys: pa.ChunkedArray) -> bool:
    """Whether HNSW finds its rows with these vector keys, one for each row."""
    return not len(keys) or pc.max(pc.value_counts(keys).field("counts")).as_py() <= _REPEATS_THAT_HNSW_BEARS


def load_vectors(collection: "Collection", chunk_ids: Sequence[str]) -> Vectors:
    """The stored vectors (n, dimension) in the order of `chunk_ids`, of unit length; 0.2 s for 5,000 rows."""
    parts: list[Vectors] = []
    for begin in range(0, len(chunk_ids), _BATCH):
        wanted = list(chunk_ids[begin : begin + _BATCH])
        got = collection.get(ids=wanted, include=["embeddings"])
        place = {chunk_id: number for number, chunk_id in enumerate(got["ids"])}
        parts.append(np.asarray(got["embeddings"], dtype=np.float32)[[place[chunk_id] for chunk_id in wanted]])
    vectors: Vectors = np.concatenate(parts)
    np.divide(vectors, np.linalg.norm(vectors, axis=1, keepdims=True), out=vectors)
    return vectors


def nearest(vectors: Vectors, chunk_ids: Sequence[str], vector: Vectors, k: int, rows: Sequence[int] | None = None) -> list[tuple[str, float]]:
    """The k rows of largest cosine as (chunk_id, cosine), best first and equal ones by id; among `rows` only, where given."""
    unit = vector / np.linalg.norm(vector)
    among = np.arange(len(vectors)) if rows is None else np.asarray(rows, dtype=np.int64)
    products = (vectors if rows is None else vectors[among]) @ unit
    # Equal vectors come out a few last bits apart, depending on their place in the matrix.
    cosines = np.round(np.clip(products.astype(np.float64), -1.0, 1.0), 6)
    limit = np.sort(cosines)[-min(k, len(cosines))]
    best = np.flatnonzero(cosines >= limit)
    return sorted(((chunk_ids[among[n]], float(cosines[n])) for n in best), key=lambda hit: (-hit[1], hit[0]))[:k]
