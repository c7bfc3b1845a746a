"""All rows of a small index by term, in memory: scores every row that has a term of a query in less time than it takes
to ask tantivy for some.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from almanac.index.lexical.bm25 import K1, length_norms
from almanac.index.vectors.keys import RowNumbers

# of an index that is worth it: a third of a second to read, and 10 MB; in chunks of 1 KB, 5000 have 750,000 terms
MOST_ROWS, MOST_TERMS = 5000, 1_000_000


class Postings:
    """The rows that have each term, and how often.

    Args:
        texts: The UTF-8 terms of each row, separated by spaces.
        average: Mean number of terms of a live row.
    """

    def __init__(self, texts: Sequence[bytes | memoryview], average: float) -> None:
        split = pc.split_pattern(pa.array([bytes(text) for text in texts], pa.large_binary()), " ")
        terms, rows = (
            split.flatten(),
            np.repeat(np.arange(len(texts)), split.value_lengths().to_numpy(zero_copy_only=False)),
        )
        some = pc.not_equal(terms, b"").to_numpy(zero_copy_only=False)  # a row without terms is an empty text
        coded, rows = terms.filter(pa.array(some)).dictionary_encode(), rows[some]
        lengths = np.bincount(rows, minlength=len(texts))
        self._norms = length_norms(lengths, average) if average else np.ones(len(texts))
        self._numbers = {term: number for number, term in enumerate(coded.dictionary.to_pylist())}
        places, counts = np.unique(coded.indices.to_numpy().astype(np.int64) * len(texts) + rows, return_counts=True)
        self._rows, self._counts = (places % max(len(texts), 1)).astype(np.int32), counts.astype(np.int32)
        self._begins = np.searchsorted(places, np.arange(len(self._numbers) + 1) * len(texts))

    def scores(self, weights: Mapping[str, float]) -> npt.NDArray[np.float64]:
        """Returns the score of each row as `bm25_scores` computes it, to the last bit; 0 where no term occurs.

        Args:
            weights: Term → its `idf`, in the order in which scores are summed.
        """
        scores = np.zeros(len(self._norms), np.float64)
        for term, weight in weights.items():
            number = self._numbers.get(term.encode())
            if number is not None:
                rows, counts = (
                    some[self._begins[number] : self._begins[number + 1]] for some in (self._rows, self._counts)
                )
                scores[rows] += weight * (K1 + 1) * (counts / (counts + self._norms[rows]))
        return scores


def rows_of_best(scores: npt.NDArray[np.float64], rows: RowNumbers, k: int, share: float) -> RowNumbers:
    """Returns those of some rows whose scores are at least `share` of the k-th largest among them."""
    of_rows = scores[rows]
    return rows if len(rows) <= k else rows[of_rows >= share * np.partition(of_rows, -k)[-k]]
