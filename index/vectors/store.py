"""Vectors on disk: content-addressed Parquet parts that are written once and shared by all knowledge bases.

`<root>/<embedder fingerprint>/<sha256 of the file>.parquet` holds `text_sha256` and `vector`. A part that exists is done: it is the
checkpoint of embedding, and what every version can be built from again. Its name proves its content.
"""

import hashlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import structlog

from almanac.core.durable import move, write_file
from almanac.index.embedding.embedder import Embedder, RemoteEmbedder, Vectors, checked_vectors
from almanac.index.vectors.keys import VectorKeys
from almanac.schemas.errors import DamagedVersion, EmbedderMismatch, StorageError
from almanac.schemas.manifest import EmbedderInfo
from almanac.schemas.reports import ChunkCounts

_SHOWN_EVERY = 128  # texts embedded between two moves of the progress bar: four forward passes
_log = structlog.get_logger("almanac.vectors")


class VectorStore:
    """The vectors of one embedder, by the SHA-256 of the text that was embedded. Only keys are held in memory."""

    def __init__(self, root: Path, info: EmbedderInfo) -> None:
        self.folder = root / info.fingerprint
        self.fingerprint = info.fingerprint
        self.dimension = info.dimension
        self._schema = pa.schema([("text_sha256", pa.string()), ("vector", pa.list_(pa.float32(), info.dimension))])
        self._known: VectorKeys | None = None

    def keys(self) -> Iterator[str]:
        """Every key that has a vector; no vector is read."""
        return iter(dict.fromkeys(self._keys.every()))

    def missing(self, keys: Iterable[str]) -> list[str]:
        """Those without a vector, each once, in the order first seen."""
        wanted = list(dict.fromkeys(keys))
        _, parts, _ = self._keys.find(wanted)
        return [wanted[number] for number in np.flatnonzero(parts < 0)]

    def write_part(self, keys: Sequence[str], vectors: Vectors) -> Path:
        """Writes a part, whole or not at all. `keys` are unique and belong to the rows of `vectors` (n, dimension)."""
        if len(set(keys)) != len(keys) or vectors.shape != (len(keys), self.dimension):
            raise ValueError(f"{len(keys)} keys, {len(set(keys))} of them different, for vectors of the shape {vectors.shape}")
        flat = pa.array(np.ascontiguousarray(vectors, dtype=np.float32).reshape(-1))
        table = pa.Table.from_arrays([pa.array(list(keys), pa.string()), pa.FixedSizeListArray.from_arrays(flat, self.dimension)], schema=self._schema)
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="zstd", use_dictionary=False, write_page_checksum=True)  # for those who read the keys alone
        content = memoryview(sink.getvalue())
        path = self.folder / f"{hashlib.sha256(content).hexdigest()}.parquet"
        write_file(path, lambda file: file.write(content))
        self._keys.add(path, keys)
        return path

    def read(self, keys: Sequence[str]) -> Vectors:
        """Vectors (n, dimension) in the order of `keys`. Raises DamagedVersion that names the first key without one."""
        out = np.empty((len(keys), self.dimension), dtype=np.float32)
        self.read_into(keys, out)
        return out

    def read_to_disk(self, keys: Sequence[str]) -> Vectors:
        """Like `read`, backed by a file that has no name any more: as many rows as the disk holds, each part read once."""
        if not keys:
            return np.empty((0, self.dimension), dtype=np.float32)
        self.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=self.folder) as file:
            out: Vectors = np.memmap(file, dtype=np.float32, mode="w+", shape=(len(keys), self.dimension))
        self.read_into(keys, out)
        return out

    def in_few_parts(self, keys: Sequence[str], parts: int, first: int = 0) -> list[int]:
        """Numbers of keys whose vectors lie together in at most `parts` files, spread evenly over all that hold any, from the `first` on."""
        _, part_numbers, _ = self._keys.find(keys)
        holding = np.unique(part_numbers[part_numbers >= 0])
        if not len(holding):
            return []
        step = -(-len(holding) // parts)
        chosen = holding[first % step :: step]
        return [int(number) for number in np.flatnonzero(np.isin(part_numbers, chosen))]

    def read_into(self, keys: Sequence[str], out: Vectors) -> None:
        """Fills `out` (n, dimension) with the vectors of these keys, in their order, each part read once. Raises as `read`."""
        paths, parts, rows = self._keys.find(keys)
        absent = np.flatnonzero(parts < 0)
        if len(absent):
            raise self._no_vector(keys[absent[0]])
        order = np.argsort(parts, kind="stable")
        for group in np.split(order, np.flatnonzero(np.diff(parts[order])) + 1) if len(order) else []:
            part = self._read_vectors(paths[parts[group[0]]])
            if part is None:
                raise self._no_vector(keys[group[0]])
            out[group] = part[rows[group]]

    def _no_vector(self, key: str) -> DamagedVersion:
        return DamagedVersion(f"no vector for the text with sha256 {key}", where=str(self.folder), hint="almanac run KB embeds what is missing")

    @property
    def _keys(self) -> VectorKeys:
        if self._known is None:
            self._known = VectorKeys(self.folder, self._read_keys)
        return self._known

    def _read_keys(self, path: Path) -> pa.Array | None:
        """The keys of a part, of which nothing else is read."""
        try:
            with pq.ParquetFile(path, page_checksum_verification=True) as file:
                self._require_schema(file)
                return pa.concat_arrays([pa.array([], pa.string()), *file.read(columns=["text_sha256"]).column(0).chunks])
        except (pa.ArrowException, OSError) as error:
            self._put_aside(path, error)
            return None

    def _read_vectors(self, path: Path) -> Vectors | None:
        """The vectors of a part whose name and content agree."""
        try:
            content = path.read_bytes()
            if (found := hashlib.sha256(content).hexdigest()) != path.stem:
                raise pa.ArrowInvalid(f"its content has the SHA-256 {found}")
            with pq.ParquetFile(pa.BufferReader(content)) as file:
                self._require_schema(file)
                column = file.read(columns=["vector"]).column(0).combine_chunks()
        except (pa.ArrowException, OSError) as error:
            self._put_aside(path, error)
            return None
        vectors: Vectors = column.flatten().to_numpy().reshape(-1, self.dimension)
        return vectors

    def _require_schema(self, file: pq.ParquetFile) -> None:
        if not file.schema_arrow.equals(self._schema):
            raise pa.ArrowInvalid(f"columns are {file.schema_arrow.names} of {file.schema_arrow.types}")

    def _put_aside(self, path: Path, error: Exception) -> None:
        """Moves a damaged part out of the way: its keys have no vector from then on."""
        if isinstance(error, OSError) and error.errno is not None:  # the disk's trouble, not the file's
            raise StorageError(f"a vector part cannot be read: {error.strerror}", where=str(path), hint="check permissions and disk") from error
        aside = path.with_name(f"{path.name}.damaged")
        move(path, aside)
        if self._known is not None:
            self._known.drop(path)
        _log.warning("vector_part_damaged", part=str(path), moved_to=str(aside), error=str(error))


def embed_missing(
    chunks_path: Path,
    store: VectorStore,
    load: Callable[[], Embedder],
    *,
    checkpoint: int = 500,
    on_progress: Callable[[int, int], None] | None = None,
    before: Callable[[list[str]], None] | None = None,
    refused: dict[str, str] | None = None,
) -> ChunkCounts:
    """Embeds each text that has no vector yet, longest first, `checkpoint` texts a part; a part is on disk before the next begins.

    `load` gives the embedder and is only called when there is such a text: loading a model takes seconds. `on_progress(done, total)` counts
    texts. `total` of the result counts rows, `embedded` the texts embedded now, and `cached` the other rows. `before(texts)` may raise to forbid it.
    A text that the embedder refuses gets no vector: its key and the reason go into `refused`; without `refused`, the error is raised.
    """
    keys = pq.read_table(chunks_path, columns=["text_sha256"]).column(0).to_pylist()
    # Longest first: texts of a part are of like length, so little is padded, and the slowest part comes before the estimates.
    todo = sorted(_texts_of(chunks_path, set(store.missing(keys))).items(), key=lambda entry: (-len(entry[1]), entry[0]))
    if not todo:
        return ChunkCounts(total=len(keys), cached=len(keys))
    if before:
        before([text for _, text in todo])
    if on_progress:
        on_progress(0, len(todo))
    embedder = load()
    if embedder.info.fingerprint != store.fingerprint:
        raise EmbedderMismatch(f"the vectors are of embedder {store.fingerprint}, not {embedder.info.fingerprint}", where=str(store.folder))
    billed = embedder.tokens if isinstance(embedder, RemoteEmbedder) else 0
    embedded = 0
    for begin in range(0, len(todo), checkpoint):
        part = todo[begin : begin + checkpoint]
        taken: list[str] = []
        vectors = []
        for start in range(0, len(part), _SHOWN_EVERY):
            some = part[start : start + _SHOWN_EVERY]
            vectors.append(_embed(embedder, some, refused))
            taken += [key for key, _ in some if not refused or key not in refused]
            if on_progress:
                on_progress(begin + start + len(some), len(todo))
        if taken:
            store.write_part(taken, np.concatenate(vectors))
        embedded += len(taken)
    tokens = embedder.tokens - billed if isinstance(embedder, RemoteEmbedder) else None
    return ChunkCounts(total=len(keys), embedded=embedded, cached=len(keys) - len(todo), tokens=tokens)


def _embed(embedder: Embedder, some: list[tuple[str, str]], refused: dict[str, str] | None) -> Vectors:
    """The vectors of those that the embedder takes; the keys of the others are put into `refused`."""
    texts = [text for _, text in some]
    if refused is None or not isinstance(embedder, RemoteEmbedder):
        return checked_vectors(embedder.embed_documents(texts), texts, embedder.info)
    vectors, reasons = embedder.embed_each(texts)
    refused.update((some[row][0], reason) for row, reason in reasons.items())
    taken = [text for row, text in enumerate(texts) if row not in reasons]
    return checked_vectors(vectors, taken, embedder.info)


def _texts_of(chunks_path: Path, keys: set[str]) -> dict[str, str]:
    texts: dict[str, str] = {}
    if keys:
        for batch in pq.ParquetFile(chunks_path).iter_batches(columns=["text_sha256", "embedded_text"]):
            texts.update((key, text) for key, text in zip(*(column.to_pylist() for column in batch.columns), strict=True) if key in keys)
    return texts
