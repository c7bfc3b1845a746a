"""Stages the tables of new segments in hidden folders.

The name of a segment is a hash of its content, so one that is in its place already is found before it is made again.
"""

from collections.abc import Iterable, Mapping
from itertools import count
from pathlib import Path
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict

from almanac.core.durable import remove
from almanac.core.stamps import altered_file
from almanac.core.tables import CHUNK_SCHEMA, CHUNKS, DOCUMENTS, ITEM_SCHEMA, RECORDS, TableWriter
from almanac.index.build.job import SegmentSpec
from almanac.index.chroma.noted import is_as_sealed
from almanac.index.segments.segment_store import SEGMENTS, is_sealed, read_segment, segment_dir
from almanac.schemas.errors import DamagedVersion
from almanac.schemas.hashing import sha256
from almanac.schemas.manifest import Counts

_SCHEMAS = {CHUNKS: CHUNK_SCHEMA, RECORDS: ITEM_SCHEMA, DOCUMENTS: ITEM_SCHEMA}
# `content_sha256` covers all that a reader sees
_ITEM_KEY = ("source", "kind", "document_id", "content_sha256", "raw_sha256", "fetched_at")
_CHUNK_KEY = ("chunk_id", "fetched_at")  # the id covers the rest
KEYS = {CHUNKS: _CHUNK_KEY, RECORDS: _ITEM_KEY, DOCUMENTS: _ITEM_KEY}


class StagedSegment(BaseModel):
    """A segment whose tables are written. `folder` is the hidden folder that has them; None where an equal segment is
    in its place already.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    counts: Counts
    folder: Path | None

    @property
    def is_new(self) -> bool:
        return self.folder is not None


class Stager:
    """Context manager that writes the tables of a segment into a hidden folder, in batches. `rows` and `bytes` count
    chunks and the bytes of their columns.
    """

    def __init__(self, index_dir: Path, spec: SegmentSpec) -> None:
        self._index_dir, self._spec = index_dir, spec
        self._folder = unused_folder(index_dir, "staged")
        self._writers = {name: TableWriter(self._folder / name, schema) for name, schema in _SCHEMAS.items()}
        self._keys: dict[str, list[str]] = {name: [] for name in _SCHEMAS}
        self.rows, self.bytes = 0, 0

    def write(self, name: str, batch: pa.Table) -> None:
        """Adds rows to the table of that name."""
        self._writers[name].write(batch)
        self._keys[name] += keys_of(batch, name).to_pylist()
        if name == CHUNKS:
            self.rows, self.bytes = self.rows + batch.num_rows, self.bytes + batch.nbytes

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for writer in self._writers.values():
            writer.__exit__(*error)  # type: ignore[arg-type]
        if error[0] is not None:
            remove(self._folder)

    def finish(self) -> StagedSegment:
        """Returns the segment of these rows. Call it after the block. Where an intact segment of that name is in its
        place, the staged tables are removed.
        """
        hashed = sha256(
            "\n".join([self._spec.making, *(line for name in _SCHEMAS for line in (name, *sorted(self._keys[name])))])
        )[:32]
        counts = Counts(records=len(self._keys[RECORDS]), documents=len(self._keys[DOCUMENTS]), chunks=self.rows)
        if is_intact(self._index_dir, hashed):
            remove(self._folder)
            return StagedSegment(name=hashed, counts=counts, folder=None)
        return StagedSegment(name=hashed, counts=counts, folder=self._folder)


def keys_of(batch: pa.Table, name: str) -> pa.ChunkedArray:
    """Returns a text for each row of a table that is equal for equal rows only: ids and hashes, joined by line
    feeds.
    """
    columns = [batch.column(column).cast(pa.large_string()) for column in KEYS[name]]
    return pc.binary_join_element_wise(*columns, pa.scalar("\n", pa.large_string()), null_handling="replace")


def stage_segment(index_dir: Path, spec: SegmentSpec, tables: Mapping[str, Iterable[pa.Table]]) -> StagedSegment:
    """Writes the tables of a new segment, given as batches by name. Raises StorageError where the disk is full."""
    with Stager(index_dir, spec) as stager:
        for name, batches in tables.items():
            for batch in batches:
                stager.write(name, batch)
    return stager.finish()


def is_intact(index_dir: Path, name: str) -> bool:
    """Whether a segment of this name is sealed, and none of its files was altered, nor its Chroma opened."""
    folder = segment_dir(index_dir, name)
    try:
        if not is_sealed(folder):
            return False
        segment = read_segment(index_dir, name)
        return altered_file(folder, segment.files) is None and is_as_sealed(folder)
    except DamagedVersion:
        return False


def unused_folder(index_dir: Path, what: str) -> Path:
    """Makes a hidden folder for a segment in the making; leftovers are removed by the next writer
    (`discard_unfinished`).
    """
    for number in count(1):
        folder = index_dir / SEGMENTS / f".{what}.{number}"
        try:
            folder.mkdir(parents=True)
            return folder
        except FileExistsError:
            continue
    raise AssertionError
