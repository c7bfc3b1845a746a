"""BM25 as tantivy computes it, but in double precision, and with statistics of the caller's choice.

A term scores idf · 2.2 · tf / (tf + 1.2 · (.25 + .75 · length / average length)) in a row. The length is the row's number of terms, rounded down to one of 256
values, as tantivy stores it in a byte; the average is of exact lengths, over all rows.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from almanac.index.lexical.terms import prefix_of, prefixes_of

K1, B = 1.2, 0.75
_SPACE = 0x20
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
        counts = np.zeros((len(self.lengths), len(terms)), np.int64)
        if not terms:
            return counts
        columns = {term: column for column, term in enumerate(terms)}
        wanted = np.array(sorted({prefix_of(term) for term in terms}), np.uint64)
        places = np.flatnonzero(wanted[np.minimum(np.searchsorted(wanted, self._prefixes), len(wanted) - 1)] == self._prefixes)
        rows = np.searchsorted(self._firsts, places, side="right") - 1
        for row, start, end in zip(rows.tolist(), self._starts[places].tolist(), self._ends[places].tolist(), strict=True):
            column = columns.get(self._text[start:end])  # terms may share their first eight bytes
            if column is not None:
                counts[row, column] += 1
        return counts


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
    """Returns how many times a score with the average length `exact` can be the one with `average`, for rows of at most `longest` terms; at least 1.

    A longer average makes rows shorter in comparison; a row that has a term once, and the most others, gains most.
    """
    if exact <= average or not average:
        return 1.0
    length = np.array([longest])
    return float(((1 + length_norms(length, average)) / (1 + length_norms(length, exact)))[0])
