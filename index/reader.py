"""Read access to one version of an index: dense search, lexical search, and the columns of its chunks.

`OpenVersion` is what queries use. It never changes the content of a version. A version consists of segments, or is its
own single segment; readers see one list of rows, in the order of segments. A million chunks are not loaded: rows and
vectors are mapped into memory, and a set of chunks is a bit mask.
"""

import json
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from heapq import merge
from itertools import islice, pairwise
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from almanac.core.coded import Coded
from almanac.core.computed_once import computed_once
from almanac.core.mapped import read_ahead
from almanac.index.lexical.lexical_facts import LEXICAL
from almanac.index.open_segment import Mask, OpenSegment
from almanac.index.pinned_version import PinnedVersion, way_out
from almanac.index.segments.segment_rows import COLUMNS, ID_LENGTH, ROWS_SCHEMA
from almanac.index.vectors.keys import RowNumbers
from almanac.index.vectors.nearest import exact_cosines, find_nearest
from almanac.index.versions.version_store import version_dir
from almanac.schemas.errors import AlmanacError, DamagedVersion, EmbedderMismatch, storage_error
from almanac.schemas.manifest import Manifest

if TYPE_CHECKING:
    from almanac.index.embedding.embedder import Vectors
    from almanac.index.lexical.lexical_reader import AnalyzedQuery, LexicalIndex

_FEW = 200  # vectors up to which a disk is not asked to read all of them ahead
_MISSING = -1
_DECODER = json.JSONDecoder()


class ChunkSet(Set[str]):
    """A set of chunks of an open version, such as those that pass a filter. `mask` is over all rows of its segments:
    half a million chunks take a megabyte.

    Iterating yields the ids in the order of rows; of a large set, only ask for its length and whether it contains an
    id.
    """

    def __init__(self, version: "OpenVersion", mask: Mask) -> None:
        self.mask = mask
        self._version, self._count = version, int(np.count_nonzero(mask))

    @classmethod
    def _from_iterable(cls, it: Iterable[str]) -> Set[str]:  # type: ignore[override]  # of sets that operators make
        return frozenset(it)

    def __len__(self) -> int:
        return self._count

    def __contains__(self, chunk_id: object) -> bool:
        row = self._version.row_of(chunk_id) if isinstance(chunk_id, str) else -1
        return row >= 0 and bool(self.mask[row])

    def __iter__(self) -> Iterator[str]:
        for batch in self._version.batches(["chunk_id"], self):
            yield from batch.column(0).to_pylist()


class OpenVersion:
    """A version opened for queries; the lexical index, rows and vectors are opened on first use. Safe to share among
    threads; close it when done.

    The version and its segments are pinned until `close`: `prune` leaves them alone, and their files stay the same even
    when `rebuild` or `forget` put another folder under its name. Of segments, files that were touched since they were
    verified are compared with their hashes when the version is opened; a version that is its own segment has each part
    compared on first use.

    Args:
        index_dir: The knowledge base's index directory, which contains `versions/`.
        version: The version's name, such as `v0001`.
        manifest: Given for a candidate, a built directory whose manifest is not written yet. A candidate is not pinned.
        gives_way: Whether who wants to write a file of the version is held back until `close`. Then `is_wanted` has to
            be asked several times a minute.

    Raises NotFound for an unknown version, and DamagedVersion here or in any method when a file of the version cannot
    be read.
    """

    def __init__(
        self, index_dir: Path, version: str, *, manifest: Manifest | None = None, gives_way: bool = False
    ) -> None:
        self._index_dir, self._version, self._candidate, self._gives_way = index_dir, version, manifest, gives_way
        self._lock = threading.RLock()
        self._pinned: PinnedVersion | None = None
        self._is_around = False
        self._segments  # noqa: B018  # opens them

    @property
    def folder(self) -> Path:
        """The folder to read the version's files from: the pinned folder, even after it was renamed. Pins the version
        again after `close`.
        """
        return self._opened().folder

    @property
    def is_in_place(self) -> bool:
        """Whether the names of the version and its segments refer to what is pinned. When False, `rebuild` or `forget`
        replaced one: open the version again.
        """
        pinned = self._pinned
        return self._candidate is not None or (pinned is not None and pinned.is_in_place)

    @property
    def is_wanted(self) -> bool:
        """Whether somebody waits to write a file of the version, or has done so: close it, and open it anew."""
        pinned = self._pinned
        return pinned is not None and pinned.is_wanted

    @property
    def _public(self) -> Path:
        return version_dir(self._index_dir, self._version)

    @property
    def _segments(self) -> list[OpenSegment]:
        return self._opened().segments

    def _opened(self) -> PinnedVersion:
        with self._lock:
            if self._pinned is None:
                self._pinned = PinnedVersion(self._index_dir, self._version, self._candidate, gives_way=self._gives_way)
                self.manifest = self._pinned.manifest
                if self._is_around:
                    self.read_around()
            return self._pinned

    def query(self, vector: "Vectors", k: int, ids: Collection[str] | None = None) -> list[tuple[str, float]]:
        """Returns the k nearest chunks as (chunk_id, cosine), highest cosine first, ties by id.

        Small segments, and up to 5,000 rows of any that a filter allows, are compared row by row; of others, those that
        may be near (`index.vectors.nearest`). Cosines are rounded to 6 decimals.

        Args:
            vector: The query's vector, of shape (dimension,).
            k: Maximum number of hits; fewer are returned where fewer chunks are available.
            ids: Restricts the search to these chunks; unknown ids are ignored. None searches all chunks.

        Raises EmbedderMismatch for a vector of another shape, DamagedVersion when the version cannot be read.
        """
        if vector.shape != (self.manifest.embedder.dimension,):
            raise EmbedderMismatch(
                f"the query's vector has the shape {vector.shape}, the version's have dimension "
                f"{self.manifest.embedder.dimension}",
                where=self.manifest.version,
            )
        known = None if ids is None else self.chunk_set(ids)
        if k < 1 or not (self.manifest.counts.chunks if known is None else len(known)):
            return []
        with self._damage_as_error():
            rows = [part.among(mask) for part, mask in zip(self._segments, self._masks(known), strict=True)]
            return find_nearest(rows, vector, k)

    def _masks(self, among: ChunkSet | None) -> list[Mask | None]:
        """For each segment, which of its rows are in a set of chunks."""
        return [None if among is None else among.mask[begin:end] for begin, end in self._spans]

    def chunk_set(self, ids: Collection[str], within: ChunkSet | None = None) -> ChunkSet:
        """Returns a set of the chunks with these ids, or of those of them that are `within` another set; unknown ids
        are left out.
        """
        if isinstance(ids, ChunkSet):
            mask = ids.mask
        else:
            rows = self._locate(list(ids))
            mask = np.zeros(self._size, dtype=np.bool_)
            mask[rows[rows != _MISSING]] = True
        return ChunkSet(self, mask if within is None else mask & within.mask)

    def lexical(self, query: str, k: int, ids: Collection[str] | None = None) -> list[tuple[str, float]]:
        """Returns the k best chunks as (chunk_id, BM25 score), highest score first, ties by id; an empty list where no
        term matches.

        Terms are combined with OR and match the text and the title. The query has no operator syntax.

        Args:
            query: The words to search for.
            k: Maximum number of hits.
            ids: Restricts the search to these chunks, fastest as a set; unknown ids are ignored. None searches all
                chunks.

        Raises DamagedVersion where the lexical index is missing or cannot be read.
        """
        wanted = None if ids is None else self.chunk_set(ids).mask
        with self._damage_as_error():
            return self._lexical.search(query, k, wanted)

    def read_around(self) -> None:
        """Has the system read what lies around each page that is asked for, and no longer each by itself
        (`core.mapped`).

        A first search, which asks for pages from all over, waits for less if each is read by itself; of many searches,
        most find their pages in memory if not.
        """
        with self._lock:
            self._is_around = True
            for part in self._segments:
                part.read_around()

    def compare(self) -> None:
        """Compares the files that searches read with their hashes, which otherwise the first use of each does. Raises
        DamagedVersion.
        """
        with self._damage_as_error():
            self._lexical  # noqa: B018  # opens it
            for part in self._segments:
                part.compare()

    def readings(self, query: str) -> "list[AnalyzedQuery]":
        """Returns the query analyzed for each language of the version, with the document frequency of each term."""
        with self._damage_as_error():
            return self._lexical.readings(query)

    def ids_where(self, mask: "npt.NDArray[np.bool_]") -> ChunkSet:
        """Returns the chunks selected by a boolean mask of shape (n_chunks,), in the order of `column`."""
        if self._live is None:
            return ChunkSet(self, mask)
        every = np.zeros(self._size, dtype=np.bool_)
        every[self._live] = mask
        return ChunkSet(self, every)

    def mask_of(self, chunks: ChunkSet) -> Mask:
        """The mask, of shape (n_chunks,), that `ids_where` makes of a set of chunks."""
        return chunks.mask if self._live is None else chunks.mask[self._live]

    def row_of(self, chunk_id: str) -> int:
        """Number of a chunk's row, counted over all rows of all segments; -1 for an id that the version has not."""
        return int(self._locate([chunk_id])[0])

    def _locate(self, chunk_ids: Sequence[str]) -> RowNumbers:
        """Numbers of chunks' rows, as `row_of`, int64 (n,)."""
        wanted = _as_bytes(chunk_ids)
        numbers = np.full(len(wanted), _MISSING, dtype=np.int64)
        with self._damage_as_error():
            for part, begin in zip(self._segments, self._begins.tolist(), strict=True):
                left = np.flatnonzero(numbers == _MISSING)
                if len(left):
                    rows = part.find(wanted[left])
                    numbers[left] = np.where(rows == _MISSING, _MISSING, rows + begin)
        return numbers

    def _ids_of(self, rows: RowNumbers) -> list[str]:
        """Chunk ids of rows, in their order."""
        ids = np.empty(len(rows), dtype=object)
        with self._damage_as_error():
            for part, places, numbers in self._by_segment(rows):
                ids[places] = part.rows.ids(numbers)
        return list(ids)

    def _required(self, chunk_ids: Sequence[str]) -> RowNumbers:
        rows = self._locate(chunk_ids)
        if len(rows) and rows.min() == _MISSING:
            raise KeyError(chunk_ids[int(np.argmin(rows))])
        return rows

    def rows(self, chunk_ids: Sequence[str], names: Sequence[str] = COLUMNS) -> list[dict[str, Any]]:
        """Returns columns of chunks, in the order of `chunk_ids`, `metadata` parsed: those of chunks.parquet but
        `embedded_text`, or some of them.

        KeyError for an unknown id.
        """
        numbers = self._required(chunk_ids)
        rows: list[dict[str, Any]] = [{}] * len(numbers)
        with self._damage_as_error():
            for part, places, own in self._by_segment(numbers):
                for place, row in zip(places.tolist(), part.rows.rows(own, names), strict=True):
                    rows[place] = row
        if "metadata" in names:
            for row in rows:
                row["metadata"] = _parsed(row["metadata"])
        return rows

    def vectors(self, chunk_ids: Sequence[str]) -> "Vectors":
        """Returns the unit vectors of these chunks, float32 (n, dimension), in the order of `chunk_ids`. KeyError for
        an unknown id.
        """
        numbers = self._required(chunk_ids)
        vectors = np.empty((len(numbers), self.manifest.embedder.dimension), dtype=np.float32)
        with self._damage_as_error():
            for part, places, rows in self._by_segment(numbers):
                if len(rows) > _FEW:
                    read_ahead(*(part.vectors[row] for row in rows.tolist()))
                vectors[places] = part.vectors[rows]
        return vectors

    def cosines(self, vector: "Vectors", chunk_ids: Sequence[str]) -> dict[str, float]:
        """Returns chunk id → cosine to `vector`, a unit vector of shape (dimension,), rounded to 6 decimals. KeyError
        for an unknown id.
        """
        if not chunk_ids:
            return {}
        return dict(zip(chunk_ids, exact_cosines(self.vectors(chunk_ids), vector).tolist(), strict=True))

    def batches(self, names: Sequence[str], among: ChunkSet | None = None) -> Iterator[pa.RecordBatch]:
        """Yields columns of the chunks in row order, or of some of them. Where all of a batch's rows are yielded, they
        are mapped and not copied.
        """
        with self._damage_as_error():
            for part, (begin, end) in zip(self._segments, self._spans, strict=True):
                yield from part.rows.batches(names, part.live if among is None else among.mask[begin:end])

    def column(self, name: str) -> pa.ChunkedArray:
        """Returns a column of chunks.parquet, but `embedded_text`, in row order."""
        return self.table([name]).column(0)

    def table(self, names: Sequence[str], among: ChunkSet | None = None) -> pa.Table:
        """Returns columns of the chunks in row order, or of some of them, as `batches`."""
        return pa.Table.from_batches(
            self.batches(names, among), schema=pa.schema([ROWS_SCHEMA.field(name) for name in names])
        )

    @property
    def chunk_ids(self) -> list[str]:
        """All chunk ids, in row order: an object for each chunk of the version, made anew each time."""
        ids: list[str] = self.column("chunk_id").to_pylist()
        return ids

    def smallest(self, count: int, among: ChunkSet | None = None) -> list[str]:
        """Returns the smallest chunk ids, at most `count`, ascending: a random sample, since ids are hashes, and the
        same for the same content.
        """
        with self._damage_as_error():
            ids = [
                part.rows.ids(part.smallest(count, mask))
                for part, mask in zip(self._segments, self._masks(among), strict=True)
            ]
            return list(islice(merge(*ids), count))

    def chunks_of(
        self, source: str, document_id: str, ordinals: Collection[int] | None = None
    ) -> list[tuple[int, str]]:
        """Returns the chunks of a document as (ordinal, chunk id), in row order, or those with these ordinals; an empty
        list for an unknown document.
        """
        chunks = []
        with self._damage_as_error():
            for part in self._segments:
                rows = part.rows.rows_where("document_id", document_id)
                live = rows if part.live is None else rows[part.live[rows]]
                chunks += [
                    (chunk["ordinal"], chunk["chunk_id"])
                    for chunk in part.rows.rows(live, ("source", "ordinal", "chunk_id"))
                    if chunk["source"] == source and (ordinals is None or chunk["ordinal"] in ordinals)
                ]
        return chunks

    def coded_column(self, name: str) -> Coded:
        """Returns a column of texts, in row order, each distinct text once. Not cached."""
        return self._coded(name, lambda text: text)

    def coded_metadata(self, read: Callable[[dict[str, Any]], Any]) -> Coded:
        """Returns what `read` finds in the metadata of each chunk, in row order. Not cached: equal metadata of many
        chunks are parsed once.
        """
        return self._coded("metadata", lambda text: read(_parsed(text)))

    def _coded(self, name: str, value_of: Callable[[str], Any]) -> Coded:
        def parts() -> Iterator[tuple[list[Any], npt.NDArray[np.int32]]]:
            for batch in self.batches([name]):
                encoded = batch.column(0).dictionary_encode(null_encoding="encode")
                yield (
                    [None if text is None else value_of(text) for text in encoded.dictionary.to_pylist()],
                    encoded.indices.to_numpy(),
                )

        return Coded(parts())

    @computed_once
    def metadata_keys(self) -> list[str]:
        """The declared metadata keys that occur in at least one chunk, sorted."""
        keys: set[str] = set()
        for batch in self.batches(["metadata"]):
            for text in batch.column(0).unique().to_pylist():
                keys.update(_parsed(text))
        return sorted(keys)

    def close(self) -> None:
        """Closes the lexical index, frees memory and files, and releases the pins. A later query opens the version
        again.
        """
        with self._lock:
            if self._pinned is not None:
                self._pinned.close()
                self._pinned = None
            for name in [name for name, value in vars(type(self)).items() if isinstance(value, computed_once)]:
                # the version may have been replaced by the time it is opened again
                self.__dict__.pop(name, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @computed_once
    def _lexical(self) -> "LexicalIndex":
        from almanac.index.lexical.lexical_reader import LexicalIndex

        for part in self._segments:
            part.require_unaltered(LEXICAL)
        return LexicalIndex([part.folder for part in self._segments], self._ids_of, self._live, self._size)

    @computed_once
    def _spans(self) -> list[tuple[int, int]]:
        """First row of each segment and the one after its last, counted over all rows of all segments, deleted ones
        included.
        """
        ends = np.cumsum([0, *map(len, self._segments)]).tolist()
        return list(pairwise(ends))

    @computed_once
    def _begins(self) -> RowNumbers:
        return np.array([begin for begin, _ in self._spans], dtype=np.int64)

    def _by_segment(self, rows: RowNumbers) -> Iterator[tuple[OpenSegment, RowNumbers, RowNumbers]]:
        """Yields each segment that has any of some rows, with their places among these and their numbers in the
        segment.
        """
        order = np.argsort(rows)
        bounds = rows[order].searchsorted([*self._begins, self._size]).tolist()
        for part, number, (begin, end) in zip(self._segments, self._begins, pairwise(bounds), strict=True):
            if begin < end:
                places = order[begin:end]
                yield part, places, rows[places] - number

    @property
    def _size(self) -> int:
        return self._spans[-1][1]

    @computed_once
    def _live(self) -> Mask | None:
        """Mask of the rows that are part of the version, over all rows of all segments; None where all are."""
        if not any(len(part.deleted) for part in self._segments):
            return None
        return np.concatenate(
            [np.ones(len(part), dtype=np.bool_) if part.live is None else part.live for part in self._segments]
        )

    @contextmanager
    def _damage_as_error(self) -> Iterator[None]:
        """Converts what reading a damaged file raises into a DamagedVersion with the version's name and path, and gives
        these to one of a pinned folder, the only one that the code which raised it knows.
        """
        try:
            yield
        except DamagedVersion as error:
            if error.where and str(self._index_dir) in error.where:
                raise
            raise DamagedVersion(
                f"{self.manifest.version}: {error.message}", where=str(self._public), hint=error.hint
            ) from error
        except AlmanacError:
            raise
        except PermissionError as error:
            raise storage_error(error, Path(error.filename or self.folder)) from error
        except Exception as error:
            raise DamagedVersion(
                f"{self.manifest.version} cannot be read: {error}",
                where=str(self._public),
                hint=way_out(self.manifest.version),
            ) from error


def _as_bytes(chunk_ids: Sequence[str]) -> npt.NDArray[np.bytes_]:
    """Chunk ids as bytes of one length, (n,); what is too long or not ASCII is left empty, since no chunk has such an
    id.
    """
    try:
        fixed = np.array(chunk_ids, dtype=f"S{ID_LENGTH + 1}")
    except UnicodeEncodeError:
        fixed = np.array([chunk_id if chunk_id.isascii() else "" for chunk_id in chunk_ids], dtype=f"S{ID_LENGTH + 1}")
    is_longer = fixed.view(np.uint8).reshape(len(fixed), ID_LENGTH + 1)[:, ID_LENGTH] != 0
    fixed[is_longer] = b""
    return fixed.astype(f"S{ID_LENGTH}")


def _parsed(text: str) -> dict[str, Any]:
    """Metadata from canonical JSON, which has no white space around it: not to look for that halves the time."""
    metadata: dict[str, Any] = _DECODER.raw_decode(text)[0]
    return metadata
