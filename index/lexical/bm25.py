"""BM25 as tantivy computes it, but in double precision, and with statistics of the caller's choice.

A term scores idf · 2.2 · tf / (tf + 1.2 · (.25 + .75 · length / average length)) in a row. The length is the row's
number of terms, rounded down to one of 256 values, as tantivy stores it in a byte; the average is of exact lengths,
over all rows.
"""

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from almanac.index.lexical.terms import prefix_of, prefixes_of

K1, B = 1.2, 0.75
_SPACE = 0x20
_ROUNDING = 1 + 2e-5  # most that tantivy's sums of up to 128 terms in single precision are below the exact ones
_PADDING = bytes(8)  # `prefixes_of` reads eight bytes at each term

# The lengths that a byte stands for: up to 40 each, then in steps that double every eight values.
_LENGTHS = np.array([n if n < 40 else 24 + ((8 + (n - 24) % 8) << ((n - 24) // 8 - 1)) for n in range(256)], np.int64)


class RowTerms:
    """The terms of some rows, split."""

    def __init__(self, texts: Sequence[bytes | memoryview]) -> None:
        """`texts` has the UTF-8 terms of each row, separated by spaces."""
        self._text = b" ".join([*texts, _PADDING])
        data = np.frombuffer(self._text, np.uint8)
        ends = np.flatnonzero(data[: -len(_PADDING)] == _SPACE)
        starts = np.empty_like(ends)
        starts[:1], starts[1:] = 0, ends[:-1] + 1
        some = ends > starts  # a row without terms is an empty text
        self._starts, self._ends = starts[some], ends[some]
        self._prefixes = prefixes_of(data, self._starts, self._ends - self._starts)
        row_ends = np.cumsum([len(text) + 1 for text in texts], dtype=np.int64)
        self._firsts = np.searchsorted(self._starts, row_ends - [len(text) + 1 for text in texts])
        self.lengths = np.diff(np.append(self._firsts, len(self._starts)))  # number of terms of each row, int64 (n,)

    def frequencies(self, terms: Sequence[bytes]) -> npt.NDArray[np.int64]:
        """Returns how often each term stands in each row, of shape (n_rows, n_terms)."""
        places, columns = self._found(terms)
        rows = np.searchsorted(self._firsts, places, side="right") - 1
        shape = (len(self.lengths), len(terms))
        return np.bincount(rows * len(terms) + columns, minlength=shape[0] * shape[1]).reshape(shape)

    def _found(self, terms: Sequence[bytes]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Returns the places of all terms that are among those given, and the number of each among these."""
        order = sorted(range(len(terms)), key=lambda number: terms[number])
        wanted = np.array([prefix_of(terms[number]) for number in order], np.uint64)
        firsts = np.searchsorted(wanted, self._prefixes)
        places = np.flatnonzero(wanted[np.minimum(firsts, len(terms) - 1)] == self._prefixes)
        firsts, columns = firsts[places], np.full(len(places), -1, np.int64)
        # Of the terms given, those that begin with the same eight bytes stand beside each other: usually one.
        for turn in range(int(np.unique(wanted, return_counts=True)[1].max(initial=0))):
            left = np.flatnonzero((columns < 0) & (firsts + turn < len(terms)))
            candidates = np.array(order, np.int64)[firsts[left] + turn]
            same = self._equal(places[left], candidates, terms)
            columns[left[same]] = candidates[same]
        known = columns >= 0
        return places[known], columns[known]

    def _equal(
        self, places: npt.NDArray[np.int64], numbers: npt.NDArray[np.int64], terms: Sequence[bytes]
    ) -> npt.NDArray[np.bool_]:
        """Whether the term at each place is the given term of that number, compared eight bytes at a time."""
        lengths = np.array([len(term) for term in terms])
        same: npt.NDArray[np.bool_] = self._ends[places] - self._starts[places] == lengths[numbers]
        data = np.frombuffer(self._text, np.uint8)
        for begin in range(0, int(lengths.max(initial=0)), 8):
            left = np.flatnonzero(same & (lengths[numbers] > begin))
            words = np.array([prefix_of(term[begin:]) for term in terms], np.uint64)
            same[left] = words[numbers[left]] == prefixes_of(
                data, self._starts[places[left]] + begin, lengths[numbers[left]] - begin
            )
        return same


def bm25_scores(rows: RowTerms, weights: dict[str, float], average: float) -> npt.NDArray[np.float64]:
    """Returns the score of each row, 0 where no term occurs. Equal rows have equal scores to the last bit, whatever
    rows stand beside them.

    Args:
        rows: The rows' terms.
        weights: Term → its `idf`, in the order in which scores are summed.
        average: Mean number of terms of a row.
    """
    scores = np.zeros(len(rows.lengths), np.float64)
    if weights:
        norms = length_norms(rows.lengths, average)
        frequencies = rows.frequencies([term.encode() for term in weights])
        for counts, weight in zip(frequencies.T, weights.values(), strict=True):
            scores += weight * (K1 + 1) * (counts / (counts + norms))
    return scores


def idf(count: int, rows: int) -> float:
    """Returns the inverse document frequency of a term that occurs in `count` of `rows` rows."""
    return math.log1p((rows - count + 0.5) / (count + 0.5))


def most_of(weights: Iterable[float]) -> float:
    """Returns the score that rows stay below in which terms of these weights occur, however often."""
    return (K1 + 1) * sum(weights)


@lru_cache(1 << 12)
def tantivy_idf(count: int, rows: int) -> float:
    """Returns what tantivy makes of `idf` in single precision: for a term of almost all rows it differs in the fifth
    digit.
    """
    ratio = (np.float32(rows - count) + np.float32(0.5)) / (np.float32(count) + np.float32(0.5))
    return float(np.log(np.float32(1) + ratio))


def length_norms(lengths: npt.NDArray[np.int64], average: float) -> npt.NDArray[np.float64]:
    """Returns what BM25 adds to a term's frequency in rows of so many terms, float64 (n,)."""
    rounded = _LENGTHS[np.searchsorted(_LENGTHS, lengths, side="right") - 1]
    norms: npt.NDArray[np.float64] = K1 * (1 - B + B * (rounded / average))
    return norms


def most_understated(longest: int, average: float, exact: float) -> float:
    """Returns how many times tantivy's score the exact one can be, for rows of at most `longest` terms.

    Args:
        longest: Number of terms of the longest row.
        average: Mean number of terms of the rows that tantivy knows, deleted ones included.
        exact: Mean number of terms of live rows. Where it is greater, rows are shorter in comparison: the longest one
            that has a term once gains most.
    """
    if exact <= average or not average:
        return _ROUNDING
    length = np.array([longest])
    return _ROUNDING * float(((1 + length_norms(length, average)) / (1 + length_norms(length, exact)))[0])
