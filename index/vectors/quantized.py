"""`vectors.faiss`: the vectors of a large segment, product-quantised, to find those near a query without reading all of
them.

Each two dimensions become 4 bits: the nearest of 16 points (Jégou et al., "Product Quantization for Nearest Neighbor
Search", 2011). faiss compares 100,000 rows of 384 dimensions with a query in some 0.4 ms, by tables that stay in the
processor's registers (André et al., "Quicker ADC", 2018). Of the rows that come out best, vectors.npy has the exact
cosines. All rows are compared, so that none is out of reach, however many of them are equal or deleted, as happens in a
graph such as HNSW.
"""

from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from almanac.core.durable import write_file
from almanac.core.verified import as_damaged
from almanac.index.vectors.keys import RowNumbers

if TYPE_CHECKING:
    from almanac.index.embedding.embedder import Vectors

QUANTIZED = "vectors.faiss"
# Rows up to which a segment has no such file: comparing 5,000 rows exactly takes 0.7 ms, and a command that asks one
# question takes 40 ms to import faiss.
_FEW = 5_000
_DIMENSIONS = 2  # for each code of 4 bits
_LEARNED_FROM, _SEED = 4_096, 1  # rows, drawn at random, that the points are chosen by
_ADDED = 10_000  # rows at a time
_ROUNDING = 1e-5  # of a squared distance to a unit vector


def has_quantized(rows: int) -> bool:
    """Whether a segment of so many rows has the file."""
    return rows > _FEW


def quantized_layout() -> str:
    """How vectors are quantised, and of which segments: those of another layout have to be made again."""
    return f"{_FEW} {_DIMENSIONS} {_LEARNED_FROM} {_SEED} {version('faiss-cpu')}"


def write_quantized(folder: Path, vectors: "Vectors") -> None:
    """Writes the file for the unit vectors of a segment, float32 (n, dimension), where it is to have one."""
    if not has_quantized(len(vectors)):
        return
    faiss = _faiss()
    learned_from = np.random.default_rng(_SEED).choice(len(vectors), min(_LEARNED_FROM, len(vectors)), replace=False)
    codes = -(-vectors.shape[1] // _DIMENSIONS)
    index = faiss.index_factory(_DIMENSIONS * codes, f"PQ{codes}x4fs", faiss.METRIC_INNER_PRODUCT)
    index.train(_even(vectors[np.sort(learned_from)]))
    for begin in range(0, len(vectors), _ADDED):
        index.add(_even(vectors[begin : begin + _ADDED]))
    write_file(folder / QUANTIZED, faiss.serialize_index(index).tobytes(), synced=False)


def _faiss() -> ModuleType:
    """faiss, which uses one thread in the calling one: a segment is built on each core."""
    import faiss

    faiss.omp_set_num_threads(1)
    return faiss


def _even(vectors: "Vectors") -> "Vectors":
    """Vectors with a dimension more, 0, where they have an odd number of them."""
    return np.pad(vectors, ((0, 0), (0, vectors.shape[1] % _DIMENSIONS)))


class Quantized:
    """The file, read. Safe to share among threads.

    Args:
        folder: Folder of the segment, in which the file is known to be whole.
        rows: Number of rows that it must have.
        dimension: Their dimension.

    Raises DamagedVersion where the file is missing or is another one.
    """

    def __init__(self, folder: Path, rows: int, dimension: int) -> None:
        faiss, path = _faiss(), folder / QUANTIZED
        with as_damaged("the quantised vectors", path):
            self._index: Any = faiss.deserialize_index(np.fromfile(path, dtype=np.uint8))
            layout = (type(self._index), self._index.ntotal, self._index.d, self._index.metric_type)
            wanted = (faiss.IndexPQFastScan, rows, dimension + dimension % _DIMENSIONS, faiss.METRIC_INNER_PRODUCT)
            if layout != wanted:
                raise ValueError(f"type, rows, dimension and metric are {layout} instead of {wanted}")

    def best(self, unit: "Vectors", count: int) -> tuple[RowNumbers, "Vectors"]:
        """Returns the rows whose quantised vectors have the largest products with a query's, and the products, float32,
        largest first.

        Args:
            unit: The query's unit vector, of shape (dimension,).
            count: Number of rows, at most all.
        """
        products, rows = self._index.search(_even(unit[None, :]), count)
        return rows[0], products[0]

    def is_of(self, vectors: "Vectors") -> bool:
        """Whether these are the vectors, float32 (n, dimension), that were quantised: what stands for each is as near
        to it as any of the same points. Takes some 30 microseconds a row.
        """
        points = self._index.pq
        for begin in range(0, len(vectors), _ADDED):
            some = _even(vectors[begin : begin + _ADDED])
            stored, anew = self._index.reconstruct_n(begin, len(some)), points.decode(points.compute_codes(some))
            if not (_squares(some - stored) <= _squares(some - anew) + _ROUNDING).all():
                return False
        return True


def _squares(vectors: "Vectors") -> "Vectors":
    squares: Vectors = np.square(vectors).sum(axis=1)
    return squares
