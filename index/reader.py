"""The read side: one published version, opened for queries. A reader never changes what a version means."""

import json
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
import pyarrow.parquet as pq

from almanac.core.tables import CHUNK_SCHEMA, CHUNKS
from almanac.index.vectors.exact import hnsw_is_reliable, nearest
from almanac.index.vectors.keys import RowNumbers
from almanac.index.vectors.matrix import open_matrix
from almanac.index.versions.pins import Pin
from almanac.index.versions.store import manifest_in, pin_version, require_files, version_dir
from almanac.schemas.errors import AlmanacError, DamagedVersion, EmbedderMismatch
from almanac.schemas.manifest import Manifest

if TYPE_CHECKING:
    from chromadb.api.models.Collection import Collection as ChromaCollection

    from almanac.index.embedding.embedder import Vectors
    from almanac.index.lexical.reader import AnalyzedQuery, LexicalIndex

_SPARE = 10  # rows asked for beyond k, so that equal scores at the end are cut by id and not by chance
_FEW = 20_000  # vectors that are compared one by one, in some 5 ms; among more, so many of the nearest of all are wanted ones that these are asked for
_DEEPER = 2  # times as many as should do
_COLUMNS = [name for name in CHUNK_SCHEMA.names if name != "embedded_text"]


class KnownIds(frozenset[str]):
    """Ids that a version has, with the numbers of their rows: nobody need look them up again."""

    rows: RowNumbers


class OpenVersion:
    """A version's Chroma, lexical index and chunks, each opened when first needed. Safe to share among threads; close it when done.

    It is held until then: nobody prunes it, and it stays as it is although another folder may take its name (`rebuild`, `forget`).
    With `manifest` it is a candidate: a directory that is built, and no version yet, since its manifest is not written; nothing is held.
    Raises NotFound, or DamagedVersion when something of it cannot be read.
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
        """Where its files are to be read: the folder that is held, whatever it is called by now."""
        if self._is_candidate:
            return version_dir(self._index_dir, self._version)
        with self._lock:
            if self._pin is None:
                self.manifest = self._hold()
            assert self._pin is not None
            return self._pin.folder

    @property
    def is_in_place(self) -> bool:
        """Whether this still is what its name stands for. Where it is not, open it anew: something was forgotten or mended since."""
        return self._is_candidate or (self._pin is not None and self._pin.is_in_place())

    def _hold(self) -> Manifest:
        self._pin = pin_version(self._index_dir, self._version)
        try:
            return manifest_in(self._pin.folder, self._index_dir, self._version)
        except AlmanacError:
            self._pin.close()
            raise

    def query(self, vector: "Vectors", k: int, ids: Collection[str] | None = None) -> list[tuple[str, float]]:
        """The k nearest chunks as (chunk_id, cosine), best first, equal ones by id; among `ids` only, where given.

        `vector` has the shape (dimension,). Ids that the version does not have are ignored. Where HNSW would lose rows (`index.vectors.exact`),
        every vector is compared.
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
            if self._hnsw_bears and (known is None or len(known) > _FEW):
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
        """The k nearest of all, and some more."""
        from almanac.index.chroma.client import panics_told

        wanted = np.asarray(vector, dtype=np.float32)[None, :]
        with panics_told():
            answer = self._collection.query(query_embeddings=wanted, n_results=min(k + _SPARE, self.manifest.counts.chunks), include=["distances"])
        distances = (answer["distances"] or [[]])[0]
        # Equal vectors come back a few last bits apart, depending on their place in the index.
        hits = [(chunk_id, max(-1.0, min(1.0, round(1.0 - float(distance), 6)))) for chunk_id, distance in zip(answer["ids"][0], distances, strict=True)]
        return sorted(hits, key=lambda hit: (-hit[1], hit[0]))

    def lexical(self, query: str, k: int, ids: Collection[str] | None = None) -> list[tuple[str, float]]:
        """The k best chunks as (chunk_id, BM25 score), best first, equal ones by id; among `ids` only, where given, which is quicker if they are a set.

        Any word of the query may match, in the title too; nothing in it is an operator, and where nothing matches there are no hits. Ids that the
        version does not have are ignored. Raises DamagedVersion where the version has no lexical index, or it cannot be read.
        """
        from almanac.index.lexical.writer import damage_told

        with self._telling_damage(), damage_told(self.folder):
            return self._lexical.search(query, k, ids)

    def readings(self, query: str) -> "list[AnalyzedQuery]":
        """A query as each language of the version reads it, with the number of chunks that have each of its terms."""
        with self._telling_damage():
            return self._lexical.readings(query)

    @cached_property
    def chunk_ids(self) -> list[str]:
        """All chunk ids, in the order of chunks.parquet."""
        return self.column("chunk_id")

    def ids_where(self, mask: "npt.NDArray[np.bool_]") -> KnownIds:
        """The chunk ids at which a mask over all chunks, in their order, is true."""
        known = KnownIds(compress(self.chunk_ids, mask.tolist()))
        known.rows = np.flatnonzero(mask)
        return known

    def rows(self, chunk_ids: Sequence[str]) -> list[dict[str, Any]]:
        """The chunks in the order asked for: columns of chunks.parquet but `embedded_text`, with `metadata` parsed. KeyError for an unknown id."""
        numbers = [self._row_of[chunk_id] for chunk_id in chunk_ids]
        rows: list[dict[str, Any]] = self._chunks.take(pa.array(numbers, pa.int64())).to_pylist()
        for row in rows:
            row["metadata"] = json.loads(row["metadata"])
        return rows

    def vectors(self, chunk_ids: Sequence[str]) -> "Vectors":
        """The unit vectors of these chunks, float32 (n, dimension), in the order asked for. KeyError for an unknown id."""
        return self._vectors[[self._row_of[chunk_id] for chunk_id in chunk_ids]]

    def cosines(self, vector: "Vectors", chunk_ids: Sequence[str]) -> dict[str, float]:
        """Chunk id → cosine to a unit vector, of any chunks. KeyError for an unknown id."""
        if not chunk_ids:
            return {}
        found = np.clip(self.vectors(chunk_ids) @ vector, -1.0, 1.0)
        return {chunk_id: round(float(cosine), 6) for chunk_id, cosine in zip(chunk_ids, found, strict=True)}

    def column(self, name: str) -> list[Any]:
        """A column of chunks.parquet as Python values, in chunk order; made anew at each call."""
        values: list[Any] = self._chunks.column(name).to_pylist()
        return values

    def metadata_column(self, key: str) -> list[Any]:
        """The value of a declared metadata key for each chunk, in chunk order, None where it is absent; parsed once. Do not change it."""
        with self._lock:
            if key not in self._metadata:
                self._metadata[key] = [json.loads(text).get(key) for text in self.column("metadata")]
            return self._metadata[key]

    @cached_property
    def metadata_keys(self) -> list[str]:
        """The declared metadata keys that any chunk has, sorted."""
        return sorted({key for text in set(self.column("metadata")) for key in json.loads(text)})

    def close(self) -> None:
        """Closes Chroma and the lexical index, which frees their memory and files, and lets go of the version. Queries open it again."""
        with self._lock:
            self._opened = None
            self._open.close()
            if self._pin:
                self._pin.close()
                self._pin = None
            self._metadata = {}
            for name in [name for name, value in vars(type(self)).items() if isinstance(value, cached_property)]:
                self.__dict__.pop(name, None)  # what it holds when it is opened again may be something else

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def _collection(self) -> "ChromaCollection":
        with self._lock:
            if self._opened is None:
                from almanac.index.chroma.client import open_client, open_collection

                require_files(self.folder, self.manifest, called=version_dir(self._index_dir, self._version))
                client = self._open.enter_context(open_client(self.folder))
                self._opened = open_collection(client, self.manifest.collection)
            return self._opened

    @cached_property
    def _lexical(self) -> "LexicalIndex":
        from almanac.index.lexical.reader import LexicalIndex

        with self._lock:
            require_files(self.folder, self.manifest, called=version_dir(self._index_dir, self._version))
            return LexicalIndex(self.folder)

    @contextmanager
    def _telling_damage(self) -> Iterator[None]:
        """Says which version is damaged; what is read knows only the folder that is held."""
        try:
            yield
        except DamagedVersion as error:
            where = str(version_dir(self._index_dir, self._version))
            raise DamagedVersion(f"{self.manifest.version}: {error.message}", where=where, hint=error.hint) from error

    @cached_property
    def _hnsw_bears(self) -> bool:
        return hnsw_is_reliable(self._chunks.column("text_sha256"))

    @cached_property
    def _vectors(self) -> "Vectors":
        with self._lock, self._telling_damage():
            require_files(self.folder, self.manifest, called=version_dir(self._index_dir, self._version))
            return open_matrix(self.folder, self.manifest.counts.chunks, self.manifest.embedder.dimension)

    @cached_property
    def _chunks(self) -> pa.Table:
        try:
            return pq.read_table(self.folder / CHUNKS, columns=_COLUMNS).combine_chunks()
        except (pa.ArrowException, OSError, KeyError) as error:
            raise self._damaged(error) from error

    @cached_property
    def _row_of(self) -> dict[str, int]:
        return {chunk_id: row for row, chunk_id in enumerate(self.chunk_ids)}

    def _damaged(self, error: Exception) -> DamagedVersion:
        return DamagedVersion(
            f"{self.manifest.version} cannot be read: {error}",
            where=str(version_dir(self._index_dir, self._version)),
            hint=f"almanac verify KB {self.manifest.version} says what is wrong; almanac rollback KB serves an older version",
        )
