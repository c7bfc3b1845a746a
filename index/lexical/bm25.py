"""BM25 as tantivy computes it, but in double precision, and with statistics of the caller's choice.

A term scores idf · 2.2 · tf / (tf + 1.2 · (.25 + .75 · length / average length)) in a row. The length is the row's number of terms, rounded down to one of 256
values, as tantivy stores it in a byte; the average is of exact lengths, over all rows.
"""

import math
from collections.abc import Sequence
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
        order = sorted(range(len(terms)), key=lambda number: prefix_of(terms[number]))
        wanted = np.array([prefix_of(terms[number]) for number in order], np.uint64)
        nearest = np.minimum(np.searchsorted(wanted, self._prefixes), len(terms) - 1)
        places = np.flatnonzero(wanted[nearest] == self._prefixes)
        columns = np.array(order, np.int64)[nearest[places]]
        # Terms of up to eight bytes are compared with that. Of the others there are few, so that they can be taken one by one.
        numbers = {term: number for number, term in enumerate(terms)}
        longer = np.flatnonzero((self._ends[places] - self._starts[places] > 8) | (np.array([len(term) for term in terms])[columns] > 8))
        for place in longer.tolist():
            columns[place] = numbers.get(self._text[self._starts[places[place]] : self._ends[places[place]]], -1)
        known = columns >= 0
        return places[known], columns[known]


def bm25_scores(rows: RowTerms, weights: dict[str, float], average: float) -> npt.NDArray[np.float64]:
    """Returns the score of each row, 0 where no term occurs. Equal rows have equal scores to the last bit, whatever rows stand beside them.

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


@lru_cache(1 << 12)
def tantivy_idf(count: int, rows: int) -> float:
    """Returns what tantivy makes of `idf` in single precision: for a term of almost all rows it differs in the fifth digit."""
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
        exact: Mean number of terms of live rows. Where it is greater, rows are shorter in comparison: the longest one that has a term once gains most.
    """
    if exact <= average or not average:
        return _ROUNDING
    length = np.array([longest])
    return _ROUNDING * float(((1 + length_norms(length, average)) / (1 + length_norms(length, exact)))[0])
