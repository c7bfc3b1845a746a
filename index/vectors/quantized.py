"""`vectors.faiss`: the vectors of a large segment, product-quantised, to find those near a query without reading all of them.

Each two dimensions of a vector become 4 bits: the nearest of 16 points that k-means has chosen for them (Jégou et al., "Product Quantization for Nearest
Neighbor Search", 2011). A row takes a sixteenth of its float32 vector, and faiss compares 100,000 rows of 384 dimensions with a query in 0.2 ms, by tables that
stay in the processor's registers (André et al., "Quicker ADC", 2018). Of the rows that come out best, vectors.npy has the exact cosines.

All rows are compared, so that none is out of reach, however many of them are equal or deleted, as happens in a graph such as HNSW.
"""

from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from almanac.core.durable import write_file
from almanac.index.vectors.keys import RowNumbers
from almanac.schemas.errors import DamagedVersion

if TYPE_CHECKING:
    import faiss

    from almanac.index.embedding.embedder import Vectors

QUANTIZED = "vectors.faiss"
# Rows up to which a segment has no such file: comparing 5,000 rows exactly takes 0.7 ms, and a command that asks one question takes 40 ms to import faiss.
_FEW = 5_000
_DIMENSIONS, _BITS = 2, 4  # of a vector, and of the number that stands for them: what faiss scans in registers
_LEARNED_FROM = 4_096  # rows, drawn at random, that the points are chosen by; four times as many take four times as long and lower errors by 1 %
_SEED = 1
_ADDED = 10_000  # rows at a time
_BLOCKS, _BLOCK = 8, 32  # rows of which errors are known: in blocks, since each may have to be read from the disk
_ROUNDING = 1e-5  # of a squared distance to a unit vector


def has_quantized(rows: int) -> bool:
    """Whether a segment of so many rows has the file."""
    return rows > _FEW


def quantized_layout() -> str:
    """How vectors are quantised, and of which segments: those of another layout have to be made again."""
    return f"{_FEW} {_DIMENSIONS} {_BITS} {version('faiss-cpu')}"


def write_quantized(folder: Path, vectors: "Vectors") -> None:
    """Writes the file for the unit vectors of a segment, float32 (n, dimension), where it is to have one. Takes 1.5 s for 100,000 rows, on one core."""
    if not has_quantized(len(vectors)):
        return
    faiss = _faiss()
    dimension = vectors.shape[1] + vectors.shape[1] % _DIMENSIONS
    index = faiss.IndexPQFastScan(dimension, dimension // _DIMENSIONS, _BITS, faiss.METRIC_INNER_PRODUCT)
    learned_from = np.random.default_rng(_SEED).choice(len(vectors), min(_LEARNED_FROM, len(vectors)), replace=False)
    index.pq.cp.max_points_per_centroid = _LEARNED_FROM
    index.train(_even(vectors[np.sort(learned_from)]))
    _add(index, vectors)
    write_file(folder / QUANTIZED, faiss.serialize_index(index).tobytes(), synced=False)


def _faiss() -> ModuleType:
    """faiss, which uses one thread in the calling one: a segment is built on each core."""
    import faiss

    faiss.omp_set_num_threads(1)
    return faiss


def _add(index: "faiss.IndexPQFastScan", vectors: "Vectors") -> None:
    for begin in range(0, len(vectors), _ADDED):
        index.add(_even(vectors[begin : begin + _ADDED]))


def _even(vectors: "Vectors") -> "Vectors":
    """Vectors, float32 (n, dimension), with a dimension of zeros where theirs are odd."""
    odd = vectors.shape[1] % _DIMENSIONS
    return np.ascontiguousarray(np.pad(vectors, ((0, 0), (0, odd))) if odd else vectors)


class Quantized:
    """The file, read. Safe to share among threads.

    Args:
        folder: Folder of the segment, in which the file is known to be whole.
        rows: Number of rows that it must have.
        dimension: Their dimension.

    Raises DamagedVersion where the file is missing or is another one.
    """

    def __init__(self, folder: Path, rows: int, dimension: int) -> None:
        import faiss

        path = folder / QUANTIZED
        self._residuals: Vectors | None = None
        try:
            self._index = faiss.deserialize_index(np.fromfile(path, dtype=np.uint8))
            if not isinstance(self._index, faiss.IndexPQFastScan):
                raise ValueError(f"it holds {type(self._index).__name__}")
            wanted = (rows, dimension + dimension % _DIMENSIONS, faiss.METRIC_INNER_PRODUCT)
            if (found := (self._index.ntotal, self._index.d, self._index.metric_type)) != wanted:
                raise ValueError(f"rows, dimension and metric are {found} instead of {wanted}")
        except (OSError, ValueError, RuntimeError) as error:
            hint = "almanac rebuild KB VERSION makes it anew; almanac rollback KB serves an older version"
            raise DamagedVersion(f"the quantised vectors cannot be read: {error}", where=str(path), hint=hint) from error

    def best(self, unit: "Vectors", count: int) -> tuple[RowNumbers, "Vectors"]:
        """Returns the rows whose quantised vectors have the largest products with a query's, and the products, float32, largest first.

        Args:
            unit: The query's unit vector, of shape (dimension,).
            count: Number of rows, at most all.
        """
        products, rows = self._index.search(_even(unit[None, :]), min(count, self._index.ntotal))
        return rows[0], products[0]

    def spread(self, unit: "Vectors", vectors: "Vectors") -> float:
        """Standard deviation of the errors of estimates for a query's unit vector, on some 256 rows from all over the segment with these vectors."""
        if self._residuals is None:
            begins = np.linspace(0, max(len(vectors) - _BLOCK, 0), _BLOCKS, dtype=np.int64)
            rows = np.unique((begins[:, None] + np.arange(_BLOCK)).ravel().clip(0, len(vectors) - 1))
            some = np.take(vectors, rows, axis=0)
            self._residuals = some - self._index.reconstruct_batch(rows)[:, : vectors.shape[1]]
        return float((self._residuals @ unit).std())

    def is_of(self, vectors: "Vectors") -> bool:
        """Whether these are the vectors, float32 (n, dimension), that were quantised: they are once more, by the same points. Takes 7 µs a row.

        Where two points are equally near, another processor may have chosen the other one: then a row has to be as near to what stands for it.
        """
        faiss = _faiss()
        again = faiss.clone_index(self._index)
        again.reset()
        _add(again, vectors)
        if np.array_equal(faiss.serialize_index(again), faiss.serialize_index(self._index)):
            return True
        for begin in range(0, len(vectors), _ADDED):
            some = _even(vectors[begin : begin + _ADDED])
            stored, anew = (np.square(some - index.reconstruct_n(begin, len(some))).sum(axis=1) for index in (self._index, again))
            if not (stored <= anew + _ROUNDING).all():
                return False
        return True
