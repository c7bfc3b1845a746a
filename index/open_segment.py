"""One segment opened for queries: its rows, its vectors and its HNSW index, each on first use, without the rows that the version has deleted."""

import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from almanac.index.chroma.rows import CHROMA, DATABASE
from almanac.index.segments.rows import BY_ID, ROWS, MappedRows
from almanac.index.vectors.exact import Searched, exact_cosines, hnsw_is_reliable, nearest
from almanac.index.vectors.keys import RowNumbers
from almanac.index.vectors.matrix import MATRIX, open_matrix
from almanac.schemas.manifest import Sealed

if TYPE_CHECKING:
    from chromadb.api.models.Collection import Collection as ChromaCollection

    from almanac.index.embedding.embedder import Vectors

Mask = npt.NDArray[np.bool_]
Hits = list[tuple[str, float]]

_SPARE = 10  # extra rows requested beyond k, so that ties at the cut-off are broken by id and not by chance
# Up to so many rows are searched exactly, in about 5 ms. Of more, so many are among the overall nearest that HNSW is queried for these, and its hits are
# filtered afterwards.
_FEW = 20_000
# Rows of a segment that is searched exactly: 1.5 ms of processor time for 10,000 rows of 384 dimensions, where asking Chroma takes 2.5 ms, and opening it for
# the first time half a second of imports. Beyond 18,000 rows, Chroma is quicker.
_SMALL = 15_000
_DEEPER = 2  # safety factor on the number of HNSW hits that should be enough after filtering
_STEP = 4  # times as many hits are asked for when too few of them were allowed
_SHARE = 10  # part of all rows up to which HNSW is asked; from there on, comparing all rows is as quick


class OpenSegment:
    """A segment of an open version. Safe to share among threads; close it when done.

    Args:
        folder: Folder to read from.
        sealed: Its manifest: the segment's, or the version's where that is its own segment.
        deleted: Row numbers that are not part of the version, int64, ascending.
        require_unaltered: Raises DamagedVersion where a file, or a file of a folder, of the segment differs from its hash; called before anything is opened.
    """

    def __init__(self, folder: Path, sealed: Sealed, deleted: RowNumbers, require_unaltered: Callable[[str], None]) -> None:
        self.folder, self.sealed, self.deleted = folder, sealed, deleted
        self.require_unaltered = require_unaltered
        self._open = ExitStack()
        self._lock = threading.RLock()
        self._opened: ChromaCollection | None = None
        self._is_read = False

    def __len__(self) -> int:
        """Number of all rows, also of the deleted ones."""
        return self.sealed.counts.chunks

    @cached_property
    def live(self) -> Mask | None:
        """Mask of the rows that are part of the version, bool (n,); None where all are."""
        if not len(self.deleted):
            return None
        mask = np.ones(len(self), dtype=np.bool_)
        mask[self.deleted] = False
        return mask

    @cached_property
    def rows(self) -> MappedRows:
        """The rows, mapped into memory. Raises DamagedVersion."""
        with self._lock:
            self.require_unaltered(ROWS)
            self.require_unaltered(BY_ID)
            return MappedRows(self.folder, len(self))

    @cached_property
    def vectors(self) -> "Vectors":
        """Unit vectors of all rows, float32 (n, dimension), mapped into memory. Raises DamagedVersion."""
        with self._lock:
            self.require_unaltered(MATRIX)
            return open_matrix(self.folder, len(self), self.sealed.embedder.dimension)

    def find(self, ids: npt.NDArray[np.bytes_]) -> RowNumbers:
        """Returns the row of each chunk id, int64 (n,), -1 where there is none that is part of the version. `ids` are bytes of 32 hex digits each."""
        rows = self.rows.find(ids)
        return rows if self.live is None else np.where((rows >= 0) & self.live[rows], rows, -1)

    def smallest(self, count: int, allowed: Mask | None = None) -> RowNumbers:
        """Returns the rows of the smallest chunk ids, at most `count`, in the order of ids; of the allowed rows, else of all in the version."""
        allowed = self.live if allowed is None else allowed
        found = self.rows.by_id[:count] if allowed is None else self.rows.by_id[allowed[self.rows.by_id]][:count]
        return found.astype(np.int64)

    def searched(self, allowed: Mask | None = None) -> Searched | None:
        """Returns the rows to search exactly; None where HNSW is to be asked for them. Arguments as in `nearest`."""
        mask = self.live if allowed is None else allowed
        available = len(self) if mask is None else int(np.count_nonzero(mask))
        is_filtered = allowed is not None and available <= _FEW
        if not is_filtered and available > _SMALL and self._has_hnsw:
            return None
        return self._exactly(mask)

    def _exactly(self, mask: Mask | None) -> Searched:
        self._require_database()
        return Searched(self.vectors, self.rows.ids, None if mask is None else np.flatnonzero(mask))

    def nearest(self, vector: "Vectors", k: int, allowed: Mask | None = None) -> Hits:
        """Returns the k nearest rows of the version as (chunk id, cosine rounded to 6 decimals), best first, ties by id; by HNSW, as long as it finds enough.

        Args:
            vector: The query's vector, of shape (dimension,).
            k: Maximum number of hits.
            allowed: Mask of the rows, all of them part of the version, that may be found, bool (n,). None: all that are part of it.
        """
        mask = self.live if allowed is None else allowed
        available = len(self) if mask is None else int(np.count_nonzero(mask))
        # What passes a filter may lie together, far from the question; what is deleted lies anywhere.
        limit = k if mask is None else (1 if allowed is None else _DEEPER) * k * len(self) // max(available, 1)
        while len(hits := self._query_hnsw(vector, limit, mask)) < min(k, available):
            limit *= _STEP
            if limit * _SHARE > len(self):
                return nearest([self._exactly(mask)], vector, k)
        return hits[:k]

    def _require_database(self) -> None:
        """Reads Chroma's schema, once: the database has no hash, since each opening changes it, and a reader that does without must not hide its ruin."""
        if not self._is_read:
            path = (self.folder / CHROMA / DATABASE).resolve()
            with closing(sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True)) as database:
                database.execute("SELECT 1 FROM collections").fetchone()
            self._is_read = True

    @cached_property
    def _has_hnsw(self) -> bool:
        """Whether HNSW finds every row, and Chroma can open it: it counts each opening in its database."""
        chroma = self.folder / CHROMA
        is_writable = all(os.access(path, os.W_OK) for path in (chroma, chroma / DATABASE) if path.exists())
        return is_writable and hnsw_is_reliable(self.sealed.derived.repeats)

    def _query_hnsw(self, vector: "Vectors", k: int, mask: Mask | None) -> Hits:
        """Queries HNSW for a few more hits than k, so that ties can be broken by id; returns those that the mask allows."""
        from almanac.index.chroma.client import as_damaged_index

        wanted = np.asarray(vector, dtype=np.float32)[None, :]
        with as_damaged_index():
            answer = self.collection.query(query_embeddings=wanted, n_results=min(k + _SPARE, len(self)), include=[])
        ids = answer["ids"][0]
        rows = self.rows.find(np.array(ids, dtype=np.bytes_))
        if (rows < 0).any():
            raise ValueError(f"Chroma has a chunk {ids[int(np.argmin(rows))]} that is in no table")
        if mask is not None:
            ids, rows = [one for one, row in zip(ids, rows.tolist(), strict=True) if mask[row]], rows[mask[rows]]
        # Chroma's distances of equal vectors differ in their last bits, depending on their position in the index.
        hits = zip(ids, exact_cosines(np.take(self.vectors, rows, axis=0), vector).tolist(), strict=True)
        return sorted(hits, key=lambda hit: (-hit[1], hit[0]))

    @property
    def collection(self) -> "ChromaCollection":
        """Chroma's collection of the segment."""
        with self._lock:
            if self._opened is None:
                from almanac.index.chroma.client import open_client, open_collection

                self.require_unaltered(CHROMA)
                client = self._open.enter_context(open_client(self.folder))
                self._opened = open_collection(client, self.sealed.collection)
            return self._opened

    def close(self) -> None:
        """Closes Chroma. The object is not used any more."""
        with self._lock:
            self._opened = None
            self._open.close()
