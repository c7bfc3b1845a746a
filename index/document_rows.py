"""The rows of each document, found without an entry for each document in memory."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from almanac.index.vectors.keys import RowNumbers


class DocumentRows:
    """Finds rows by source and document id. It keeps 12 bytes a row: a hash of both, and the row's number, in the order
    of hashes.

    `batches` have the columns `source` and `document_id` of consecutive rows.
    """

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        hashes = np.concatenate([np.zeros(0, dtype=np.int64), *map(_hashes, batches)])
        order = np.argsort(hashes, kind="stable")
        self._hashes, self._rows = hashes[order], order.astype(np.int32)

    def find(self, source: str, document_id: str) -> RowNumbers:
        """Returns the rows that may be of a document, int64, ascending: all of its own, and hardly ever others."""
        wanted = _hash(source, document_id)
        first, last = (
            np.searchsorted(self._hashes, wanted, side="left"),
            np.searchsorted(self._hashes, wanted, side="right"),
        )
        return self._rows[first:last].astype(np.int64)


def _hash(source: str, document_id: str) -> int:
    return hash((source, document_id))


def _hashes(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    source, document = (batch.column(name).dictionary_encode() for name in ("source", "document_id"))
    sources, documents = source.dictionary.to_pylist(), document.dictionary.to_pylist()
    pairs = document.indices.to_numpy(zero_copy_only=False).astype(np.int64) * len(sources) + source.indices.to_numpy(
        zero_copy_only=False
    )
    distinct, places = np.unique(pairs, return_inverse=True)
    own = [_hash(sources[pair % len(sources)], documents[pair // len(sources)]) for pair in distinct.tolist()]
    return np.array(own, dtype=np.int64)[places]
