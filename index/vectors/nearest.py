"""The rows of largest cosine to a query, in one segment or several: all rows of small ones are compared, and of large
ones those that may be among the nearest.

Of a large segment, the quantised vectors give an estimate of each row's product with the query
(`index.vectors.quantized`). The thousand rows of largest estimates in all segments are compared, and more where even a
row whose estimate is too low by three standard deviations might be among the nearest.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from almanac.core.mapped import read_ahead
from almanac.index.embedding.embedder import Vectors
from almanac.index.vectors.keys import RowNumbers
from almanac.index.vectors.quantized import Quantized

_BLOCK = 20_000  # rows copied at a time
_SINGLE_PRECISION = 1e-5  # rows whose product is this close to the last hit's are compared in double precision
_COMPARED, _FOR_EACH = 1_000, 20  # rows of the largest estimates that are compared, at least, and for each hit
_DEVIATIONS = 3.0  # by which a row's estimate may be too low
_MORE = 4  # times as many rows, where these are not enough
# part of a segment's rows up to which estimates are listed; from there on, comparing all is as quick
_SHARE = 4
_DECIMALS = 6  # in which products of copies are equal
_NO_ERRORS: Vectors = np.zeros(1, dtype=np.float32)


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a segment among which the nearest are sought.

    Args:
        vectors: Unit vectors of the whole segment, float32 (n, dimension).
        ids_of: Gives the chunk ids of row numbers.
        count: Number of the rows.
        mask: Which rows these are, bool (n,); None for all.
        quantized: The segment's quantised vectors; None where all rows are to be compared.
    """

    vectors: Vectors
    ids_of: Callable[[RowNumbers], list[str]]
    count: int
    mask: npt.NDArray[np.bool_] | None = None
    quantized: Quantized | None = None


class _Listed(NamedTuple):
    """Rows of a segment, of which others are not among the nearest, as far as estimates say."""

    among: Rows
    rows: RowNumbers
    products: Vectors  # with the query, float32 (n,)
    is_exact: bool  # or estimated


def find_nearest(segments: Sequence[Rows], vector: Vectors, k: int) -> list[tuple[str, float]]:
    """Returns the k rows of largest cosine as (chunk_id, cosine rounded to 6 decimals), best first, ties by id.

    Args:
        segments: The rows, by segment.
        vector: The query's vector, of shape (dimension,); it is normalised here. One of length zero is near nothing.
        k: Maximum number of hits.
    """
    length = np.linalg.norm(vector)
    segments = [rows for rows in segments if rows.count]
    if not length > 0 or not segments:
        return []
    nearest = _nearest(segments, vector / length, k, max(_COMPARED, _FOR_EACH * k))
    ids = [chunk_id for listed in nearest for chunk_id in listed.among.ids_of(listed.rows)]
    vectors = np.concatenate([np.take(listed.among.vectors, listed.rows, axis=0) for listed in nearest])
    hits = zip(ids, exact_cosines(vectors, vector).tolist(), strict=True)
    return sorted(hits, key=lambda hit: (-hit[1], hit[0]))[:k]


def _nearest(segments: Sequence[Rows], unit: Vectors, k: int, count: int) -> list[_Listed]:
    """The k nearest rows and those that nearly tie with the last one, of which at least `count` are compared."""
    listed = [_estimated(among, unit, count) or _all_compared(among, unit) for among in segments]
    estimated = [part.products[-1] for part in listed if not part.is_exact]  # no row that is not listed has more
    least = max([_kth(np.concatenate([part.products for part in listed]), count), *estimated])
    compared, errors = [], [_NO_ERRORS]  # products less their estimates
    for part in listed:
        chosen = slice(None) if part.is_exact else part.products >= least
        rows = part.rows[chosen]
        products = part.products if part.is_exact else np.take(part.among.vectors, rows, axis=0) @ unit
        compared.append(_Listed(part.among, rows, products, is_exact=True))
        errors.append(_NO_ERRORS if part.is_exact else products - part.products[chosen])
    products = np.concatenate([part.products for part in compared])
    last = _kth(products, k) - _SINGLE_PRECISION
    if estimated:
        off = np.concatenate(errors)
        are_copies = _MORE * len(np.unique(products.round(_DECIMALS))) < count  # which err alike
        if are_copies or least > last - max(float(off.mean()), 0.0) - _DEVIATIONS * float(off.std()):
            return _nearest(segments, unit, k, _MORE * count)
    return [part._replace(rows=part.rows[part.products >= last]) for part in compared]


def _kth(numbers: Vectors, k: int) -> float:
    """The k-th largest of all numbers; minus infinity where there are fewer."""
    return float(np.partition(numbers, -k)[-k]) if len(numbers) >= k else -np.inf


def _estimated(among: Rows, unit: Vectors, count: int) -> _Listed | None:
    """About so many rows of the largest estimates, or more; None where all are to be compared."""
    size = len(among.vectors)
    listed = count * size // among.count  # of which the others do not pass the mask
    while among.quantized is not None and listed * _SHARE <= size:
        rows, estimates = among.quantized.best(unit, listed)
        if among.mask is not None:
            is_among = among.mask[rows]
            rows, estimates = rows[is_among], estimates[is_among]
        if 2 * len(rows) >= count:
            return _Listed(among, rows, estimates, is_exact=False)
        listed *= _MORE
    return None


def _all_compared(among: Rows, unit: Vectors) -> _Listed:
    vectors, mask = among.vectors, among.mask
    rows = np.arange(len(vectors), dtype=np.int64) if mask is None else np.flatnonzero(mask)
    if 2 * len(rows) > len(vectors):  # a product with all rows is quicker than copying most of them
        if among.quantized is not None:
            read_ahead(vectors)
        products = (vectors @ unit)[rows]
    else:
        spans = range(0, len(rows), _BLOCK)
        products = np.concatenate([np.take(vectors, rows[at : at + _BLOCK], axis=0) @ unit for at in spans])
    return _Listed(among, rows, products, is_exact=True)


def exact_cosines(vectors: Vectors, vector: Vectors) -> npt.NDArray[np.float64]:
    """Cosines of unit vectors, float32 (n, dimension), to a query's vector of shape (dimension,), rounded to 6
    decimals.

    They are summed in double precision: in single precision, the products of equal vectors differ in their last bits,
    depending on their position.
    """
    unit = vector.astype(np.float64) / np.linalg.norm(vector.astype(np.float64))
    cosines: npt.NDArray[np.float64] = np.round(np.clip((vectors.astype(np.float64) * unit).sum(axis=1), -1.0, 1.0), 6)
    return cosines
