"""Exact cosines."""

import numpy as np
import numpy.typing as npt

from almanac.index.embedding.embedder import Vectors


def exact_cosines(vectors: Vectors, vector: Vectors) -> npt.NDArray[np.float64]:
    """Cosines of unit vectors, float32 (n, dimension), to a query's vector of shape (dimension,), rounded to 6
    decimals.

    They are summed in double precision: in single precision, the products of equal vectors differ in their last bits,
    depending on their position.
    """
    unit = vector.astype(np.float64) / np.linalg.norm(vector.astype(np.float64))
    cosines: npt.NDArray[np.float64] = np.round(np.clip((vectors.astype(np.float64) * unit).sum(axis=1), -1.0, 1.0), 6)
    return cosines
