"""Read access to one version of an index: dense search, lexical search, and the columns of its chunks.

`OpenVersion` is what queries use. It never changes the content of a version.
"""

import json
import os
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from itertools import compress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from almanac.core.tables import CHUNK_SCHEMA, CHUNKS, read_table
from almanac.index.chroma.rows import CHROMA, DATABASE
from almanac.index.lexical.facts import LEXICAL
from almanac.index.vectors.exact import exact_cosines, hnsw_is_reliable, nearest
from almanac.index.vectors.keys import RowNumbers
from almanac.index.vectors.matrix import MATRIX, open_matrix
from almanac.index.versions.pins import Pin
from almanac.index.versions.store import manifest_in, pin_version, require_unaltered, version_dir
from almanac.schemas.errors import AlmanacError, DamagedVersion, EmbedderMismatch
from almanac.schemas.manifest import Manifest

if TYPE_CHECKING:
    from chromadb.api.models.Collection import Collection as ChromaCollection

    from almanac.index.embedding.embedder import Vectors
    from almanac.index.lexical.reader import AnalyzedQuery, LexicalIndex

_SPARE = 10  # extra rows requested beyond k, so that ties at the cut-off are broken by id and not by chance
# Filters that allow up to this many rows are searched exactly, in about 5 ms. Wider filters let so many of the overall nearest rows pass that HNSW is
# queried without the filter and its hits are filtered afterwards.
_FEW = 20_000
_DEEPER = 2  # safety factor on the number of HNSW hits that should be enough after filtering
_COLUMNS = [name for name in CHUNK_SCHEMA.names if name != "embedded_text"]


class KnownIds(frozenset[str]):
    """Chunk ids known to exist in a version, with their row numbers, so that searches need not look them up again."""

    rows: RowNumbers  # ascending row numbers in chunks.parquet


class OpenVersion:
    """A version opened for queries; Chroma, the lexical index and the chunks are loaded on first use. Safe to share among threads; close it when done.

    The version is pinned until `close`: `prune` leaves it alone, and its files stay the same even when `rebuild` or `forget` put another folder under its
    name.

    Args:
        index_dir: The knowledge base's index directory, which contains `versions/`.
        version: The version's name, such as `v0001`.
        manifest: Given for a candidate, a built directory whose manifest is not written yet. A candidate is not pinned.

    Raises NotFound for an unknown version, and DamagedVersion here or in any method when a file of the version cannot be read.
    """

    def __init__(self, index_dir: Path, version: str, *, manifest: Manifest | None = None) -> None:
        self._index_dir, self._version, self._is_candidate = index_dir, version, manifest is not None
        self._open = ExitStack()
        self._lock = threading.RLock()
        self._pin: Pin | None = None
        self._opened: ChromaCollection | None = None
        self._metadata: dict[str, list[Any]] = {}
        self.manifest = manifest or self._hold()

    @property
    def folder(self) -> Path:
        """The folder to read the version's files from: the pinned folder, even after it was renamed. Pins the version again after `close`."""
        if self._is_candidate:
            return version_dir(self._index_dir, self._version)
        with self._lock:
            if self._pin is None:
                self.manifest = self._hold()
            assert self._pin is not None
            return self._pin.folder

    @property
    def is_in_place(self) -> bool:
        """Whether the version's name still refers to the pinned folder. When False, `rebuild` or `forget` has replaced it: open the version again."""
        return self._is_candidate or (self._pin is not None and self._pin.is_in_place())

    def _hold(self) -> Manifest:
        self._pin = pin_version(self._index_dir, self._version)
        try:
            return manifest_in(self._pin.folder, self._index_dir, self._version)
        except AlmanacError:
            self._pin.close()
            raise

    def query(self, vector: "Vectors", k: int, ids: Collection[str] | None = None) -> list[tuple[str, float]]:
        """Returns the k nearest chunks as (chunk_id, cosine), highest cosine first, ties by id.

        The search is exact where HNSW is not reliable (`index.vectors.exact`), at most 20,000 rows are allowed, or the version cannot be written to, which
        Chroma wants to open it. Cosines are rounded to 6 decimals.

        Args:
            vector: The query's vector, of shape (dimension,).
            k: Maximum number of hits; fewer are returned where fewer chunks are available.
            ids: Restricts the search to these chunks; unknown ids are ignored. None searches all chunks.

        Raises EmbedderMismatch for a vector of another shape, DamagedVersion when the version cannot be read.
        """
        if vector.shape != (self.manifest.embedder.dimension,):
            raise EmbedderMismatch(
                f"the query's vector has the shape {vector.shape}, the version's have dimension {self.manifest.embedder.dimension}", where=self.manifest.version
            )
        known = None if ids is None else self._known(ids)
        available = self.manifest.counts.chunks if known is None else len(known)
        if k < 1 or not available:
            return []
        try:
            if self._has_hnsw and (known is None or len(known) > _FEW):
                hits = self._query_hnsw(vector, k if known is None else _DEEPER * k * self.manifest.counts.chunks // len(known))
                hits = [hit for hit in hits if known is None or hit[0] in known]
                if len(hits) >= min(k, available):
                    return hits[:k]
            return nearest(self._vectors, self.chunk_ids, vector, k, None if known is None else known.rows)
        except AlmanacError:
            raise
        except Exception as error:
            raise self._damaged(error) from error

    def _known(self, ids: Collection[str]) -> KnownIds:
        if isinstance(ids, KnownIds):
            return ids
        known = KnownIds(self._row_of.keys() & ids)
        known.rows = np.array(sorted(self._row_of[chunk_id] for chunk_id in known), dtype=np.int64)
        return known

    def _query_hnsw(self, vector: "Vectors", k: int) -> list[tuple[str, float]]:
        """Queries HNSW over all chunks; returns a few more hits than k, so that ties can be broken by id."""
        from almanac.index.chroma.client import as_damaged_index

        wanted = np.asarray(vector, dtype=np.float32)[None, :]
        with as_damaged_index():
            answer = self._collection.query(query_embeddings=wanted, n_results=min(k + _SPARE, self.manifest.counts.chunks), include=[])
        # Chroma's distances of equal vectors differ in their last bits, depending on their position in the index.
        return sorted(self.cosines(vector, answer["ids"][0]).items(), key=lambda hit: (-hit[1], hit[0]))

    def lexical(self, query: str, k: int, ids: Collection[str] | None = None) -> list[tuple[str, float]]:
        """Returns the k best chunks as (chunk_id, BM25 score), highest score first, ties by id; an empty list where no term matches.

        Terms are combined with OR and match the text and the title. The query has no operator syntax.

        Args:
            query: The words to search for.
            k: Maximum number of hits.
            ids: Restricts the search to these chunks, fastest as a set; unknown ids are ignored. None searches all chunks.

        Raises DamagedVersion where the lexical index is missing or cannot be read.
        """
        from almanac.index.lexical.writer import as_damaged_lexical

        with self._damage_as_error(), as_damaged_lexical(self.folder):
            return self._lexical.search(query, k, ids)

    def readings(self, query: str) -> "list[AnalyzedQuery]":
        """Returns the query analyzed for each language of the version, with the document frequency of each term."""
        with self._damage_as_error():
            return self._lexical.readings(query)

    @cached_property
    def chunk_ids(self) -> list[str]:
        """All chunk ids, in the order of chunks.parquet."""
        return self.column("chunk_id")

    def ids_where(self, mask: "npt.NDArray[np.bool_]") -> KnownIds:
        """Returns the chunk ids selected by a boolean mask of shape (n_chunks,), in the order of chunks.parquet."""
        known = KnownIds(compress(self.chunk_ids, mask.tolist()))
        known.rows = np.flatnonzero(mask)
        return known

    def rows(self, chunk_ids: Sequence[str]) -> list[dict[str, Any]]:
        """Returns chunks in the order of `chunk_ids`: all columns of chunks.parquet but `embedded_text`, `metadata` parsed. KeyError for an unknown id."""
        numbers = [self._row_of[chunk_id] for chunk_id in chunk_ids]
        rows: list[dict[str, Any]] = self._chunks.take(pa.array(numbers, pa.int64())).to_pylist()
        for row in rows:
            row["metadata"] = json.loads(row["metadata"])
        return rows

    def vectors(self, chunk_ids: Sequence[str]) -> "Vectors":
        """Returns the unit vectors of these chunks, float32 (n, dimension), in the order of `chunk_ids`. KeyError for an unknown id."""
        return self._vectors[[self._row_of[chunk_id] for chunk_id in chunk_ids]]

    def cosines(self, vector: "Vectors", chunk_ids: Sequence[str]) -> dict[str, float]:
        """Returns chunk id → cosine to `vector`, a unit vector of shape (dimension,), rounded to 6 decimals. KeyError for an unknown id."""
        if not chunk_ids:
            return {}
        return dict(zip(chunk_ids, exact_cosines(self.vectors(chunk_ids), vector).tolist(), strict=True))

    def column(self, name: str) -> list[Any]:
        """Returns a column of chunks.parquet as Python values, in row order. Not cached: each call converts the column again."""
        values: list[Any] = self._chunks.column(name).to_pylist()
        return values

    def metadata_column(self, key: str) -> list[Any]:
        """Returns the value of a declared metadata key for each chunk, in row order, None where absent. The list is cached: do not modify it."""
        with self._lock:
            if key not in self._metadata:
                self._metadata[key] = [json.loads(text).get(key) for text in self.column("metadata")]
            return self._metadata[key]

    @cached_property
    def metadata_keys(self) -> list[str]:
        """The declared metadata keys that occur in at least one chunk, sorted."""
        return sorted({key for text in set(self.column("metadata")) for key in json.loads(text)})

    def close(self) -> None:
        """Closes Chroma and the lexical index, frees their memory and files, and releases the pin. A later query opens the version again."""
        with self._lock:
            self._opened = None
            self._open.close()
            if self._pin:
                self._pin.close()
                self._pin = None
            self._metadata = {}
            for name in [name for name, value in vars(type(self)).items() if isinstance(value, cached_property)]:
                self.__dict__.pop(name, None)  # the version may have been replaced by the time it is opened again

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def _collection(self) -> "ChromaCollection":
        with self._lock:
            if self._opened is None:
                from almanac.index.chroma.client import open_client, open_collection

                self._require_unaltered(CHROMA)
                client = self._open.enter_context(open_client(self.folder))
                self._opened = open_collection(client, self.manifest.collection)
            return self._opened

    @cached_property
    def _lexical(self) -> "LexicalIndex":
        from almanac.index.lexical.part import LexicalPart
        from almanac.index.lexical.reader import LexicalIndex

        with self._lock:
            self._require_unaltered(LEXICAL)
            return LexicalIndex([LexicalPart(self.folder)], self._rows_of)

    def _rows_of(self, chunk_ids: Sequence[str]) -> RowNumbers:
        """Returns the row number of each chunk id, -1 for an unknown one."""
        return np.array([self._row_of.get(chunk_id, -1) for chunk_id in chunk_ids], dtype=np.int64)

    def _require_unaltered(self, part: str) -> None:
        require_unaltered(self.folder, self.manifest, part, called=version_dir(self._index_dir, self._version))

    @contextmanager
    def _damage_as_error(self) -> Iterator[None]:
        """Adds the version's name and path to a DamagedVersion: the code that raised it knows only the pinned folder."""
        try:
            yield
        except DamagedVersion as error:
            where = str(version_dir(self._index_dir, self._version))
            raise DamagedVersion(f"{self.manifest.version}: {error.message}", where=where, hint=error.hint) from error

    @cached_property
    def _has_hnsw(self) -> bool:
        """Whether HNSW finds every row, and Chroma can open it: it counts each opening in its database."""
        chroma = self.folder / CHROMA
        is_writable = all(os.access(path, os.W_OK) for path in (chroma, chroma / DATABASE) if path.exists())
        return is_writable and hnsw_is_reliable(self.manifest.derived.repeats)

    @cached_property
    def _vectors(self) -> "Vectors":
        with self._lock, self._damage_as_error():
            self._require_unaltered(MATRIX)
            return open_matrix(self.folder, self.manifest.counts.chunks, self.manifest.embedder.dimension)

    @cached_property
    def _chunks(self) -> pa.Table:
        try:
            return read_table(self.folder / CHUNKS, _COLUMNS).combine_chunks()
        except DamagedVersion as error:
            raise self._damaged(error.__cause__ or error) from error

    @cached_property
    def _row_of(self) -> dict[str, int]:
        return {chunk_id: row for row, chunk_id in enumerate(self.chunk_ids)}

    def _damaged(self, error: BaseException) -> DamagedVersion:
        return DamagedVersion(
            f"{self.manifest.version} cannot be read: {error}",
            where=str(version_dir(self._index_dir, self._version)),
            hint=f"almanac verify KB {self.manifest.version} says what is wrong; almanac rollback KB serves an older version",
        )
