"""Vectors on disk: content-addressed Parquet parts that are written once and shared by all knowledge bases.

`<root>/<embedder fingerprint>/<sha256 of the part's keys>.parquet` holds `text_sha256` and `vector`. A part that exists is done:
it is the checkpoint of embedding, and what every version can be built from again.
"""

import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import structlog

from index.embedder import Embedder, Vectors, checked_vectors
from schemas.durable import write_file
from schemas.errors import DamagedVersion, EmbedderMismatch, StorageError
from schemas.items import sha256
from schemas.manifest import EmbedderInfo
from schemas.reports import ChunkCounts

_SHOWN_EVERY = 128  # texts embedded between two moves of the progress bar: four forward passes
_log = structlog.get_logger("almanac.vectors")


class VectorStore:
    """The vectors of one embedder, by the SHA-256 of the text that was embedded. Only keys are held in memory."""

    def __init__(self, root: Path, info: EmbedderInfo) -> None:
        self.folder = root / info.fingerprint
        self.fingerprint = info.fingerprint
        self.dimension = info.dimension
        self._schema = pa.schema([("text_sha256", pa.string()), ("vector", pa.list_(pa.float32(), info.dimension))])
        self._known: dict[str, tuple[Path, int]] | None = None

    def keys(self) -> Iterator[str]:
        """Every key that has a vector; no vector is read."""
        return iter(self._places())

    def missing(self, keys: Iterable[str]) -> list[str]:
        """Those without a vector, each once, in the order first seen."""
        places = self._places()
        return [key for key in dict.fromkeys(keys) if key not in places]

    def write_part(self, keys: Sequence[str], vectors: Vectors) -> Path:
        """Writes a part, whole or not at all. `keys` are unique and belong to the rows of `vectors` (n, dimension)."""
        if len(set(keys)) != len(keys) or vectors.shape != (len(keys), self.dimension):
            raise ValueError(f"{len(keys)} keys, {len(set(keys))} of them different, for vectors of the shape {vectors.shape}")
        path = self.folder / f"{sha256(chr(10).join(sorted(keys)))}.parquet"
        flat = pa.array(np.ascontiguousarray(vectors, dtype=np.float32).reshape(-1))
        table = pa.Table.from_arrays([pa.array(list(keys), pa.string()), pa.FixedSizeListArray.from_arrays(flat, self.dimension)], schema=self._schema)
        # Parquet checks no page by itself: without checksums a flipped bit comes back as another vector.
        write_file(path, lambda file: pq.write_table(table, file, compression="zstd", use_dictionary=False, write_page_checksum=True))
        self._places().update((key, (path, row)) for row, key in enumerate(keys))
        return path

    def read(self, keys: Sequence[str]) -> Vectors:
        """Vectors (n, dimension) in the order of `keys`. Raises DamagedVersion that names the first key without one."""
        out = np.empty((len(keys), self.dimension), dtype=np.float32)
        self._read_into(keys, out)
        return out

    def read_to_disk(self, keys: Sequence[str]) -> Vectors:
        """Like `read`, backed by a file that has no name any more: as many rows as the disk holds, each part read once."""
        if not keys:
            return np.empty((0, self.dimension), dtype=np.float32)
        self.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=self.folder) as file:
            out: Vectors = np.memmap(file, dtype=np.float32, mode="w+", shape=(len(keys), self.dimension))
        self._read_into(keys, out)
        return out

    def _read_into(self, keys: Sequence[str], out: Vectors) -> None:
        rows_of: dict[Path, list[tuple[int, int]]] = defaultdict(list)
        places = self._places()
        for number, key in enumerate(keys):
            if key not in places:
                raise self._no_vector(key)
            path, row = places[key]
            rows_of[path].append((number, row))
        for path, rows in rows_of.items():
            part = self._read_vectors(path)
            if part is None:
                raise self._no_vector(keys[rows[0][0]])
            numbers, places_in_part = np.asarray(rows).T
            out[numbers] = part[places_in_part]

    def _no_vector(self, key: str) -> DamagedVersion:
        return DamagedVersion(f"no vector for the text with sha256 {key}", where=str(self.folder), hint="almanac run KB embeds what is missing")

    def _places(self) -> dict[str, tuple[Path, int]]:
        if self._known is None:
            self._known = {}
            for path in sorted(self.folder.glob("*.parquet")):
                column = self._read_column(path, "text_sha256")
                if column is not None:
                    self._known.update((key, (path, row)) for row, key in enumerate(column.to_pylist()))
        return self._known

    def _read_vectors(self, path: Path) -> Vectors | None:
        column = self._read_column(path, "vector")
        if column is None:
            return None
        vectors: Vectors = column.combine_chunks().flatten().to_numpy().reshape(-1, self.dimension)
        return vectors

    def _read_column(self, path: Path, name: str) -> Any:
        """A column of a part, or None when the part is damaged; it is moved aside, and its keys have no vector from then on."""
        try:
            with pq.ParquetFile(path, page_checksum_verification=True) as file:
                if not file.schema_arrow.equals(self._schema):
                    raise pa.ArrowInvalid(f"columns are {file.schema_arrow.names} of {file.schema_arrow.types}")
                return file.read(columns=[name]).column(0)
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:  # the disk's trouble, not the file's
                raise StorageError(f"a vector part cannot be read: {error.strerror}", where=str(path), hint="check permissions and disk") from error
            aside = path.rename(path.with_name(f"{path.name}.damaged"))
            if self._known is not None:
                self._known = {key: place for key, place in self._known.items() if place[0] != path}
            _log.warning("vector_part_damaged", part=str(path), moved_to=str(aside), error=str(error))
            return None


def embed_missing(
    chunks_path: Path, store: VectorStore, load: Callable[[], Embedder], *, checkpoint: int = 500, on_progress: Callable[[int, int], None] | None = None
) -> ChunkCounts:
    """Embeds each text that has no vector yet, longest first, `checkpoint` texts a part; a part is on disk before the next begins.

    `load` gives the embedder and is only called when there is such a text: loading a model takes seconds. `on_progress(done, total)` counts
    texts. `total` of the result counts rows, `embedded` the texts embedded now, and `cached` the other rows.
    """
    keys = pq.read_table(chunks_path, columns=["text_sha256"]).column(0).to_pylist()
    # Longest first: texts of a part are of like length, so little is padded, and the slowest part comes before the estimates.
    todo = sorted(_texts_of(chunks_path, set(store.missing(keys))).items(), key=lambda entry: (-len(entry[1]), entry[0]))
    if not todo:
        return ChunkCounts(total=len(keys), cached=len(keys))
    if on_progress:
        on_progress(0, len(todo))
    embedder = load()
    if embedder.info.fingerprint != store.fingerprint:
        raise EmbedderMismatch(f"the vectors are of embedder {store.fingerprint}, not {embedder.info.fingerprint}", where=str(store.folder))
    for begin in range(0, len(todo), checkpoint):
        part = todo[begin : begin + checkpoint]
        vectors = []
        for start in range(0, len(part), _SHOWN_EVERY):
            texts = [text for _, text in part[start : start + _SHOWN_EVERY]]
            vectors.append(checked_vectors(embedder.embed_documents(texts), texts, embedder.info))
            if on_progress:
                on_progress(begin + start + len(texts), len(todo))
        store.write_part([key for key, _ in part], np.concatenate(vectors))
    return ChunkCounts(total=len(keys), embedded=len(todo), cached=len(keys) - len(todo))


def _texts_of(chunks_path: Path, keys: set[str]) -> dict[str, str]:
    texts: dict[str, str] = {}
    if keys:
        for batch in pq.ParquetFile(chunks_path).iter_batches(columns=["text_sha256", "embedded_text"]):
            texts.update((key, text) for key, text in zip(*(column.to_pylist() for column in batch.columns), strict=True) if key in keys)
    return texts
