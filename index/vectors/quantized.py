"""`vectors.faiss`: the vectors of a large segment, product-quantised, to find those near a query without reading all of
them.

Vectors are turned to their principal axes. The place along each of the first axes, along which they differ most,
becomes 4 bits: the nearest of 16 points. Of the next axes, each two become 4 bits; the last ones are left out (Jégou et
al., "Product Quantization for Nearest Neighbor Search", 2011; Ge et al., "Optimized Product Quantization", 2013). A row
of 384 dimensions takes 64 bytes, less where fewer axes are enough, and 96 where all count alike. faiss compares 100,000
rows with a query in 0.2 ms, by tables that stay in the processor's registers (André et al., "Quicker ADC", 2018). Of
the rows that come out best, vectors.npy has the exact cosines.

All rows are compared, so that none is out of reach, however many of them are equal or deleted, as happens in a graph
such as HNSW.
"""

from importlib.metadata import version
from math import sqrt
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from almanac.core.durable import write_file
from almanac.core.mapped import read_ahead
from almanac.index.vectors.keys import RowNumbers
from almanac.schemas.errors import DamagedVersion, storage_error

if TYPE_CHECKING:
    import faiss

    from almanac.index.embedding.embedder import Vectors

QUANTIZED = "vectors.faiss"
# Rows up to which a segment has no such file: comparing 5,000 rows exactly takes 0.7 ms, and a command that asks one
# question takes 40 ms to import faiss.
_FEW = 5_000
_AXES, _BITS = 2, 4  # what a code stands for, at most, and its size: what faiss scans in registers
_EACH, _FEW_CODES = 3, 64  # dimensions for each code, at least, where there are more codes than a few
_STEP = 8  # codes; faiss scans them two by two
# share of the variance along an axis that a code of its own leaves, and one for two axes, of places that are normally
# distributed
_LEFT = (0.0095, 0.11)
_EVEN = 0.5  # how far the points of one axis are moved to even distances
_ENOUGH = 0.015  # share of all variance: where no more is left, there are enough codes
# Where more is left, estimates tell rows apart so badly that all have to be compared: of 100,000 rows in 14 ms, instead
# of 3 with half as many codes again. Of texts, all-MiniLM-L6-v2 leaves .10, and multilingual-e5-small .15.
_MOST_LEFT = 0.2
# rows, drawn at random, that the points are chosen by; four times as many take four times as long and lower errors by 1
# %
_LEARNED_FROM = 4_096
_SEED = 1
_ADDED = 10_000  # rows at a time
_BLOCKS, _BLOCK = 8, 32  # rows of which errors are known: in blocks, since each may have to be read from the disk
_ROUNDING = 1e-5  # of a squared distance to a unit vector


def has_quantized(rows: int) -> bool:
    """Whether a segment of so many rows has the file."""
    return rows > _FEW


def quantized_layout() -> str:
    """How vectors are quantised, and of which segments: those of another layout have to be made again."""
    rules = (_FEW, _AXES, _BITS, _EACH, _FEW_CODES, _STEP, *_LEFT, _ENOUGH, _MOST_LEFT, _EVEN, _LEARNED_FROM, _SEED)
    return f"{' '.join(map(str, rules))} {version('faiss-cpu')}"


def write_quantized(folder: Path, vectors: "Vectors") -> None:
    """Writes the file for the unit vectors of a segment, float32 (n, dimension), where it is to have one. Takes 1.5 s
    for 100,000 rows, on one core.
    """
    if not has_quantized(len(vectors)):
        return
    faiss = _faiss()
    learned_from = np.random.default_rng(_SEED).choice(len(vectors), min(_LEARNED_FROM, len(vectors)), replace=False)
    some = np.ascontiguousarray(vectors[np.sort(learned_from)])
    axes = _axes(some)
    codes = faiss.IndexPQFastScan(len(axes), len(axes) // _AXES, _BITS, faiss.METRIC_INNER_PRODUCT)
    codes.pq.cp.max_points_per_centroid = _LEARNED_FROM
    codes.train(turned := some @ axes.T)
    _spread_points(codes.pq, axes, turned)
    turn = faiss.LinearTransform(vectors.shape[1], len(axes))
    faiss.copy_array_to_vector(axes.ravel(), turn.A)
    turn.is_trained = True
    index = faiss.IndexPreTransform(turn, codes)
    _add(index, vectors)
    write_file(folder / QUANTIZED, faiss.serialize_index(index).tobytes(), synced=False)


def _faiss() -> ModuleType:
    """faiss, which uses one thread in the calling one: a segment is built on each core."""
    import faiss

    faiss.omp_set_num_threads(1)
    return faiss


def _add(index: "faiss.Index", vectors: "Vectors") -> None:
    for begin in range(0, len(vectors), _ADDED):
        index.add(np.ascontiguousarray(vectors[begin : begin + _ADDED]))


def _axes(vectors: "Vectors") -> "Vectors":
    """What turns vectors so that each two dimensions are one code's, float32 (2 n_codes, dimension). Where a code
    stands for one axis, its other row is zero.

    Axes are those of the vectors, not of their differences from the mean: what is left out then hardly has a mean, by
    which all estimates would be off.
    """
    every = vectors.astype(np.float64)
    axes = np.linalg.eigh(every.T @ every)[1].T[::-1]
    variances = (every @ axes.T).var(axis=0)
    # The first one is near the mean: questions have most of their length along it, so that small differences there
    # count as much as large ones elsewhere.
    variances[0] = variances.max()
    axes = axes[order := np.argsort(-variances, kind="stable")]
    alone, together = _shared(variances[order])
    rows = np.zeros((alone + -(-together // _AXES), _AXES, vectors.shape[1]), dtype=np.float32)
    rows[:alone, 0] = axes[:alone]
    pairs = axes[alone : alone + together]
    rows[alone:, 0], rows[alone : alone + together // _AXES, 1] = pairs[::_AXES], pairs[1::_AXES]
    return rows.reshape(-1, vectors.shape[1])


def _spread_points(quantizer: "faiss.ProductQuantizer", axes: "Vectors", turned: "Vectors") -> None:
    """Moves the 16 points of each code of one axis halfway to even distances between the ends of what was learned from.

    k-means puts few points where few rows are: those that lie far out, near which a question may lie as well, would err
    by five standard deviations.
    """
    faiss = _faiss()
    points = faiss.vector_to_array(quantizer.centroids).reshape(quantizer.M, quantizer.ksub, _AXES)
    alone = np.flatnonzero(~axes[1::_AXES].any(axis=1))
    places = turned[:, _AXES * alone]
    steps = (np.arange(quantizer.ksub, dtype=np.float32) + 0.5) / quantizer.ksub
    lowest, highest = places.min(axis=0)[:, None], places.max(axis=0)[:, None]
    points[alone, :, 0] = (1 - _EVEN) * np.sort(points[alone, :, 0], axis=1) + _EVEN * (
        lowest + (highest - lowest) * steps
    )
    faiss.copy_array_to_vector(points.ravel(), quantizer.centroids)


def _shared(variances: npt.NDArray[np.float64]) -> tuple[int, int]:
    """Number of axes, given by falling variance, that have a code each, and of the next ones, of which two have one:
    what leaves the least variance.

    As few codes as are enough, in steps of eight; where vectors differ along all axes alike, as those of no embedder
    do, as many as leave out no axis.
    """
    dimension = len(variances)
    usual = max(dimension // _EACH, min(dimension, _FEW_CODES))
    alone, together, left = _divided(variances, usual)
    if left > _MOST_LEFT:
        alone, together, _ = _divided(variances, max(usual, dimension // _AXES))
    return alone, together


def _divided(variances: npt.NDArray[np.float64], most: int) -> tuple[int, int, float]:
    """As `_shared`, of at most so many codes; and the share of all variance that they leave."""
    known, dimension = np.append(0.0, np.cumsum(variances)), len(variances)
    for codes in range(_STEP, most + _STEP, _STEP):
        alone = np.arange(min(codes, most) + 1)
        together = np.minimum(_AXES * (alone[-1] - alone), dimension - alone)
        left = (
            _LEFT[0] * known[alone]
            + _LEFT[1] * (known[alone + together] - known[alone])
            + known[-1]
            - known[alone + together]
        )
        best = int(np.argmin(left))
        if left[best] <= _ENOUGH * known[-1]:
            break
    return int(alone[best]), int(together[best]), float(left[best] / max(known[-1], 1e-12))


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
            self._index: Any = faiss.deserialize_index(np.fromfile(path, dtype=np.uint8))
            if not isinstance(self._index, faiss.IndexPreTransform):
                raise ValueError(f"it holds {type(self._index).__name__}")
            self._codes: Any = faiss.downcast_index(self._index.index)
            # faiss' stubs have no vectors
            turn: Any = faiss.downcast_VectorTransform(self._index.chain.at(0))  # type: ignore[attr-defined]
            self._axes: Vectors = faiss.vector_to_array(turn.A).reshape(turn.d_out, turn.d_in)
            wanted = (rows, dimension, faiss.METRIC_INNER_PRODUCT)
            if (found := (self._index.ntotal, self._index.d, self._index.metric_type)) != wanted:
                raise ValueError(f"rows, dimension and metric are {found} instead of {wanted}")
        except PermissionError as error:
            raise storage_error(error, Path(error.filename or folder)) from error
        except (OSError, ValueError, RuntimeError) as error:
            hint = "almanac rebuild KB VERSION makes it anew; almanac rollback KB serves an older version"
            raise DamagedVersion(
                f"the quantised vectors cannot be read: {error}", where=str(path), hint=hint
            ) from error

    def best(self, unit: "Vectors", count: int) -> tuple[RowNumbers, "Vectors"]:
        """Returns the rows whose quantised vectors have the largest products with a query's, and the products, float32,
        largest first.

        Args:
            unit: The query's unit vector, of shape (dimension,).
            count: Number of rows, at most all.
        """
        turned = self._axes @ unit
        products, rows = self._codes.search(turned[None, :], min(count, self._codes.ntotal))
        return rows[0], products[0]

    def spread(self, unit: "Vectors", vectors: "Vectors") -> float:
        """Standard deviation of the errors of estimates for a query's unit vector, on some 256 rows from all over the
        segment with these vectors.
        """
        if self._residuals is None:
            begins = np.linspace(0, max(len(vectors) - _BLOCK, 0), _BLOCKS, dtype=np.int64)
            rows = np.unique((begins[:, None] + np.arange(_BLOCK)).ravel().clip(0, len(vectors) - 1))
            read_ahead(*(vectors[begin : begin + _BLOCK] for begin in begins.tolist()))
            some = np.take(vectors, rows, axis=0)
            self._residuals = some - self._codes.reconstruct_batch(rows) @ self._axes
        errors = self._residuals @ unit
        # half the time of std()
        return sqrt(max(float(errors @ errors) / len(errors) - float(errors.sum() / len(errors)) ** 2, 0.0))

    def is_of(self, vectors: "Vectors") -> bool:
        """Whether these are the vectors, float32 (n, dimension), that were quantised: they are once more, by the same
        points. Takes some microseconds a row.

        Where two points are equally near, another processor may have chosen the other one: then a row has to be as near
        to what stands for it.
        """
        faiss = _faiss()
        again = faiss.clone_index(self._index)
        again.reset()
        _add(again, vectors)
        if np.array_equal(faiss.serialize_index(again), faiss.serialize_index(self._index)):
            return True
        anew_codes = faiss.downcast_index(again.index)
        for begin in range(0, len(vectors), _ADDED):
            turned = vectors[begin : begin + _ADDED] @ self._axes.T
            stored, anew = (
                np.square(turned - codes.reconstruct_n(begin, len(turned))).sum(axis=1)
                for codes in (self._codes, anew_codes)
            )
            if not (stored <= anew + _ROUNDING).all():
                return False
        return True
