"""Exact cosines, and whether HNSW can be expected to find every row."""

import numpy as np
import numpy.typing as npt

from almanac.core.digests import Digests, Texts, digests_of
from almanac.index.embedding.embedder import Vectors

# A text that repeats many times (a notice on every page) has as many equal vectors. HNSW links these only to one another, and rows that were reached
# through them are lost. Rows of 5,000 x 384 that no longer find themselves: none with 300 texts 16 times each, 1 with 150 texts 32 times, 18 with one
# text 150 times, 136 with one text 500 times. Other HNSW settings change these figures; none removes the problem.
_REPEATS_THAT_HNSW_BEARS = 16


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
