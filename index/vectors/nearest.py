"""The rows of largest cosine to a query, in one segment or several: all rows of small ones are compared, and of large
ones those that may be among the nearest.

Of a large segment, the quantised vectors give an estimate of each row's product with the query
(`index.vectors.quantized`). Rows are read and compared in the order of their estimates, until even one whose estimate
is too low by the mean error and four standard deviations would not be among the nearest.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from almanac.core.beside import begun
from almanac.core.mapped import read_ahead
from almanac.index.embedding.embedder import Vectors
from almanac.index.vectors.exact import exact_cosines
from almanac.index.vectors.keys import RowNumbers
from almanac.index.vectors.quantized import Quantized

_BLOCK = 20_000  # rows copied at a time
_SINGLE_PRECISION = 1e-5  # rows whose product is this close to the last hit's are compared in double precision
# Of 21,000 sentences with MiniLM and 12,000 with multilingual-e5, and 300 others as questions, this misses none of the
# ten and of the fifty nearest; 3.5 misses none and 1 of the 15,000 fifty nearest.
_DEVIATIONS = 4.0
_SPARE = 50  # estimates beyond k whose rows are compared at first, to see how far estimates are off
_MORE = 4  # times k: rows that are listed at first; and times as many as before, where that is not enough
# rows that are listed at least; of a segment that has most of the rows, where most of the nearest are, four times as
# many
_LEAST = 200
# part of a segment's rows up to which estimates are listed; from there on, and where no more rows pass a filter,
# comparing all is as quick
_SHARE = 4
_MANY = 200_000  # rows from which on other threads list some: to hand over takes a tenth of a millisecond
_AT_ONCE = 150_000  # rows that are handed over at once, at least: a third of a millisecond
_NO_ROWS: RowNumbers = np.zeros(0, dtype=np.int64)
_NO_PRODUCTS: Vectors = np.zeros(0, dtype=np.float32)


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


@contextmanager
def seek_nearest(
    segments: Sequence[Rows], vector: Vectors, k: int, *, threads: Executor | None = None
) -> Iterator[Callable[[], list[tuple[str, float]]]]:
    """Context manager with what gives the k rows of largest cosine as (chunk_id, cosine rounded to 6 decimals), best
    first, ties by id.

    Args:
        segments: The rows, by segment.
        vector: The query's vector, of shape (dimension,); it is normalised here. One of length zero is near nothing.
        k: Maximum number of hits.
        threads: Until the hits are asked for, these list some of many rows, a few segments at a time.
    """
    length = np.linalg.norm(vector)
    if not length > 0:
        yield list
        return
    segments = [rows for rows in segments if rows.count]
    every = sum(rows.count for rows in segments)

    def listed(some: Sequence[Rows]) -> list[_Compared]:
        return [_Compared(rows, vector / length, k, has_most=2 * rows.count > every) for rows in some]

    works = [partial(listed, some) for some in _grouped(segments, _AT_ONCE)]
    with ExitStack() as given:
        listing = [given.enter_context(begun(work, threads if every >= _MANY else None)) for work in works]
        # from the last on: they meet the threads, which begin with the first, in the middle
        yield lambda: _nearest([one for some in reversed(listing) for one in some()], vector, k)


def _grouped(segments: Sequence[Rows], least: int) -> list[list[Rows]]:
    """The segments, in their order, in groups that have so many rows at least, but for the last one."""
    groups: list[list[Rows]] = []
    size = least
    for rows in segments:
        if size >= least:
            groups.append([])
            size = 0
        groups[-1].append(rows)
        size += len(rows.vectors)
    return groups


def _nearest(compared: "Sequence[_Compared]", vector: Vectors, k: int) -> list[tuple[str, float]]:
    _compare_all_that_may_be_near(compared, k)
    limit = _kth_product(compared, k) - _SINGLE_PRECISION
    ids, vectors = [], []
    for one in compared:
        if len(near := one.rows[one.products >= limit]):
            ids += one.among.ids_of(near)
            vectors.append(np.take(one.among.vectors, near, axis=0))
    if not ids:
        return []
    hits = zip(ids, exact_cosines(np.concatenate(vectors), vector).tolist(), strict=True)
    return sorted(hits, key=lambda hit: (-hit[1], hit[0]))[:k]


def _compare_all_that_may_be_near(compared: "Sequence[_Compared]", k: int) -> None:
    """Copies of a text have one estimate and one error, from which nothing follows for other rows. So each estimate
    counts once, fifty are looked at before any conclusion, and errors are taken to spread no less than those of rows
    from all over a segment do.
    """
    errors = _NO_PRODUCTS  # products of rows that were compared, less their estimates
    spread = max((one.spread for one in compared), default=0.0)
    while True:
        is_known = len(errors) >= _SPARE
        if is_known:
            margin = max(float(errors.mean()), 0.0) + _DEVIATIONS * max(float(errors.std()), spread)
            reach = _kth_product(compared, k) - margin - _SINGLE_PRECISION
        else:
            reach = _kth([one.estimates[_is_first(one.estimates)] for one in compared], k + _SPARE)
        errors = np.concatenate([errors, *(one.compare(reach) for one in compared)])
        if not is_known and len(errors) >= _SPARE:
            continue
        short = [one for one in compared if one.beyond is not None and (not is_known or one.beyond >= reach)]
        if not short:
            return
        for one in short:
            one.list_more()


def _kth_product(compared: "Sequence[_Compared]", k: int) -> float:
    return _kth([one.products for one in compared], k)


def _kth(numbers: Sequence[Vectors], k: int) -> float:
    """The k-th largest of all numbers; minus infinity where there are fewer."""
    every = np.concatenate([_NO_PRODUCTS, *numbers])
    return float(np.partition(every, -k)[-k]) if len(every) >= k else -np.inf


def _is_first(estimates: Vectors) -> npt.NDArray[np.bool_]:
    """Which of some sorted estimates differ from the one before, bool (n,)."""
    is_first = np.ones(len(estimates), dtype=np.bool_)
    np.not_equal(estimates[1:], estimates[:-1], out=is_first[1:])
    return is_first


class _Compared:
    """The rows of a segment that are compared with the query, with their products; and `listed` ones that only have
    `estimates`, best first.
    """

    def __init__(self, among: Rows, unit: Vectors, k: int, *, has_most: bool) -> None:
        self.among, self._unit = among, unit
        self.rows, self.products = _NO_ROWS, _NO_PRODUCTS
        self.listed, self.estimates = _NO_ROWS, _NO_PRODUCTS
        # the largest estimate that a row in neither list may have; None where there is no such row
        self.beyond: float | None = None
        # standard deviation of errors of estimates
        self.spread = 0.0 if among.quantized is None else among.quantized.spread(unit, among.vectors)
        self._count = max(_MORE * k, _LEAST) * (_MORE if has_most else 1) * len(among.vectors) // among.count
        self._list()

    def compare(self, reach: float) -> Vectors:
        """Compares the listed rows whose estimate is at least so much; returns by how much products exceed estimates,
        once for each estimate, float32 (n,).
        """
        if not len(self.estimates) or self.estimates[0] < reach:
            return _NO_PRODUCTS
        count = len(self.estimates) - int(self.estimates[::-1].searchsorted(reach))
        rows, estimates = self.listed[:count], self.estimates[:count]
        self.listed, self.estimates = self.listed[count:], self.estimates[count:]
        products = np.take(self.among.vectors, rows, axis=0) @ self._unit
        self.rows, self.products = (
            (rows, products)
            if not len(self.rows)
            else (np.concatenate([self.rows, rows]), np.concatenate([self.products, products]))
        )
        errors: Vectors = (products - estimates)[_is_first(estimates)]
        return errors

    def list_more(self) -> None:
        """Lists more rows, or compares all."""
        self._count *= _MORE
        self._list()

    def _list(self) -> None:
        quantized, size = self.among.quantized, len(self.among.vectors)
        if quantized is None or self._count * _SHARE > size or self._count >= self.among.count:
            self._compare_all()
            return
        rows, estimates = quantized.best(self._unit, self._count)
        self.beyond = float(estimates[-1])
        if self.among.mask is not None:
            is_among = self.among.mask[rows]
            rows, estimates = rows[is_among], estimates[is_among]
        if len(self.rows):
            is_new = np.isin(rows, self.rows, invert=True)
            rows, estimates = rows[is_new], estimates[is_new]
        self.listed, self.estimates = rows, estimates

    def _compare_all(self) -> None:
        vectors, mask = self.among.vectors, self.among.mask
        self.rows = np.arange(len(vectors), dtype=np.int64) if mask is None else np.flatnonzero(mask)
        if 2 * len(self.rows) > len(vectors):  # a product with all rows is quicker than copying most of them
            if self.among.quantized is not None:
                read_ahead(vectors)
            products = vectors @ self._unit
            self.products = products if mask is None else products[mask]
        else:
            spans = range(0, len(self.rows), _BLOCK)
            self.products = np.concatenate(
                [np.take(vectors, self.rows[begin : begin + _BLOCK], axis=0) @ self._unit for begin in spans]
            )
        self.listed, self.estimates, self.beyond = _NO_ROWS, _NO_PRODUCTS, None
