"""One segment opened for queries: its rows and its vectors, each on first use, without the rows that the version has
deleted.
"""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from almanac.core.computed_once import computed_once
from almanac.core.mapped import read_around, read_singly
from almanac.index.segments.segment_rows import BY_ID, ROWS, MappedRows
from almanac.index.vectors.keys import RowNumbers
from almanac.index.vectors.nearest import Rows
from almanac.index.vectors.quantized import QUANTIZED, Quantized, has_quantized
from almanac.index.vectors.vector_matrix import MATRIX, open_matrix
from almanac.schemas.manifest import Sealed

if TYPE_CHECKING:
    from almanac.index.embedding.embedder import Vectors

Mask = npt.NDArray[np.bool_]
# Rows up to which those that pass a filter are all compared: 1 ms. Of more, enough are among the best estimates.
_COMPARED = 5_000


class OpenSegment:
    """A segment of an open version. Safe to share among threads.

    Args:
        folder: Folder to read from.
        sealed: Its manifest: the segment's, or the version's where that is its own segment.
        deleted: Row numbers that are not part of the version, int64, ascending.
        require_unaltered: Raises DamagedVersion where a file, or a file of a folder, of the segment differs from its
            hash; called before anything is opened.
    """

    def __init__(
        self, folder: Path, sealed: Sealed, deleted: RowNumbers, require_unaltered: Callable[[str], None]
    ) -> None:
        self.folder, self.sealed, self.deleted = folder, sealed, deleted
        self.require_unaltered = require_unaltered
        self._lock = threading.RLock()
        self._is_around = False

    def __len__(self) -> int:
        """Number of all rows, also of the deleted ones."""
        return self.sealed.counts.chunks

    @computed_once
    def live(self) -> Mask | None:
        """Mask of the rows that are part of the version, bool (n,); None where all are."""
        if not len(self.deleted):
            return None
        mask = np.ones(len(self), dtype=np.bool_)
        mask[self.deleted] = False
        return mask

    @computed_once
    def rows(self) -> MappedRows:
        """The rows, mapped into memory. Raises DamagedVersion."""
        self.require_unaltered(ROWS)
        self.require_unaltered(BY_ID)
        mapped_rows = MappedRows(self.folder, len(self))
        if self._is_around:
            mapped_rows.read_around()
        return mapped_rows

    @computed_once
    def vectors(self) -> "Vectors":
        """Unit vectors of all rows, float32 (n, dimension), mapped into memory. Raises DamagedVersion."""
        self.require_unaltered(MATRIX)
        matrix = open_matrix(self.folder, len(self), self.sealed.embedder.dimension)
        if has_quantized(len(self)) and not self._is_around:
            read_singly(matrix)
        return matrix

    def read_around(self) -> None:
        """Has the system read what lies around each page that is asked for, and no longer each by itself
        (`core.mapped`).
        """
        with self._lock:
            self._is_around = True
            if "rows" in vars(self):
                self.rows.read_around()
            if "vectors" in vars(self):
                read_around(self.vectors)

    def compare(self) -> None:
        """Compares the files that searches read with their hashes, where none was used yet. Raises DamagedVersion, and
        what SQLite raises.
        """
        self.rows, self.vectors, self._quantized  # noqa: B018  # opens them

    def find(self, ids: npt.NDArray[np.bytes_]) -> RowNumbers:
        """Returns the row of each chunk id, int64 (n,), -1 where there is none that is part of the version. `ids` are
        bytes of 32 hex digits each.
        """
        rows = self.rows.find(ids)
        return rows if self.live is None else np.where((rows >= 0) & self.live[rows], rows, -1)

    def smallest(self, count: int, allowed: Mask | None = None) -> RowNumbers:
        """Returns the rows of the smallest chunk ids, at most `count`, in the order of ids; of the allowed rows, else
        of all in the version.
        """
        allowed = self.live if allowed is None else allowed
        rows = self.rows.by_id[:count] if allowed is None else self.rows.by_id[allowed[self.rows.by_id]][:count]
        return rows.astype(np.int64)

    def among(self, allowed: Mask | None = None) -> Rows:
        """Returns the rows of the version, or the allowed ones of them, as `nearest` searches them.

        Args:
            allowed: Mask of the rows, all of them part of the version, that may be found, bool (n,). None: all that are
                part of it.
        """
        if allowed is None:
            return Rows(self.vectors, self.rows.ids, len(self) - len(self.deleted), self.live, self._quantized)
        count = int(np.count_nonzero(allowed))
        return Rows(self.vectors, self.rows.ids, count, allowed, self._quantized if count > _COMPARED else None)

    @computed_once
    def _quantized(self) -> Quantized | None:
        if not has_quantized(len(self)):
            return None
        self.require_unaltered(QUANTIZED)
        return Quantized(self.folder, len(self), self.sealed.embedder.dimension)
