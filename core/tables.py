"""The Parquet tables under `data/processed` and in each version: their schemas, reading and writing, and conversion of
items and chunks.

Nested values (`fields`, `metadata`) are stored as canonical JSON in one text column, because their structure depends on
the declaration.
"""

import errno
import json
import os
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from almanac.core.digests import RowNumbers
from almanac.core.durable import create, make_folder, move, temporary_beside, write_file
from almanac.schemas.errors import AlmanacError, DamagedVersion, storage_error
from almanac.schemas.hashing import canonical_json, sha256
from almanac.schemas.items import ChunkRow, Item

RECORDS = "records.parquet"
DOCUMENTS = "documents.parquet"
CHUNKS = "chunks.parquet"
REJECTS = "rejects.jsonl"  # beside the tables of the latest run
DUPLICATES = "duplicates.jsonl"

_BUFFER = 1 << 20  # bytes read at a time
_SORTED = 100_000  # rows in memory while a table is read in another order
_UNREADABLE = (pa.ArrowException, OSError, KeyError)
_TEXT = pa.string()
_ITEM_COLUMNS = (
    "source", "kind", "document_id", "url", "title", "text", "passage", "fields", "metadata", "raw_sha256",
    "content_sha256", "text_sha256", "fetched_at",
)  # fmt: skip
ITEM_SCHEMA = pa.schema([(name, _TEXT) for name in _ITEM_COLUMNS])
CHUNK_SCHEMA = pa.schema(
    [
        *((name, _TEXT) for name in ("chunk_id", "document_id", "source", "url", "title", "kind")),
        ("ordinal", pa.int32()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        *((name, _TEXT) for name in ("text", "passage", "embedded_text", "text_sha256", "metadata", "fetched_at")),
    ]
)


def write_table(path: Path, table: pa.Table) -> None:
    """Writes a Parquet file atomically."""
    write_file(path, lambda file: pq.write_table(table, file, compression="zstd", write_page_checksum=True))


class TableWriter:
    """Writes a Parquet file in batches; a context manager. The file appears atomically when the block ends without an
    exception, else not at all.
    """

    def __init__(self, path: Path, schema: pa.Schema, *, statistics: bool = True) -> None:
        """`statistics`: whether the footer, which is read as a whole, has the least and the greatest value of each row
        group.
        """
        self._path = path
        self._temporary = temporary_beside(path)
        make_folder(path.parent)
        create(self._temporary).close()  # with the mode that the folder gives it, which the writer leaves
        self._writer = pq.ParquetWriter(
            self._temporary, schema, compression="zstd", write_page_checksum=True, write_statistics=statistics
        )
        self.rows = 0

    def write(self, table: pa.Table) -> None:
        """Writes a batch as a row group of its own; an empty batch is ignored."""
        if table.num_rows:
            self._writer.write_table(table)
            self.rows += table.num_rows

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._writer.close()
            if kind is None:
                with self._temporary.open("rb") as file:
                    os.fsync(file.fileno())
                move(self._temporary, self._path)
        finally:
            self._temporary.unlink(missing_ok=True)


def read_table(path: Path, columns: list[str] | None = None) -> pa.Table:
    """Reads columns of a table; None reads all. Raises DamagedVersion where it is missing or damaged, StorageError
    where the disk fails.

    Like everything here that reads, it compares each page that it reads with its checksum.
    """
    try:
        return pq.read_table(path, columns=columns, page_checksum_verification=True)
    except _UNREADABLE as error:
        raise damaged_table(path, error) from error


def open_table(path: Path) -> pq.ParquetFile:
    """Opens a table for reading in parts; a context manager. Pages are compared with their checksums.

    Arrow would read ahead, and keep all that it has read until the file is closed: the whole of it, compressed.
    """
    return pq.ParquetFile(path, page_checksum_verification=True, pre_buffer=False, buffer_size=_BUFFER)


# The columns wanted, None for all → the rows of one or several tables, in batches. May be called repeatedly.
Batches = Callable[[Sequence[str] | None], Iterator[pa.Table]]


def batches_of(*paths: Path, rows: int = 10_000) -> Batches:
    """Returns what reads these tables one after the other, in batches of at most `rows` rows. Raises as `read_table`,
    where it is called.
    """

    def read(columns: Sequence[str] | None) -> Iterator[pa.Table]:
        for path in paths:
            yield from read_batches(path, columns, rows=rows)

    return read


def read_batches(path: Path, columns: Sequence[str] | None = None, *, rows: int = 2000) -> Iterator[pa.Table]:
    """Yields a table in batches of at most `rows` rows, so that it need not fit into memory. `columns`: None reads all.
    Raises as `read_table`.
    """
    try:
        with open_table(path) as file:
            for batch in file.iter_batches(batch_size=rows, columns=None if columns is None else list(columns)):
                yield pa.Table.from_batches([batch])
    except _UNREADABLE as error:
        raise damaged_table(path, error) from error


def read_rows(batches: Batches, columns: Sequence[str], rows: RowNumbers) -> Iterator[tuple[pa.Table, RowNumbers]]:
    """Yields the rows with these numbers, ascending, in batches, each with the places of its rows in `rows`. Raises as
    `batches` does.
    """
    begin = 0
    for batch in batches(columns) if len(rows) else ():
        first, last = np.searchsorted(rows, [begin, begin + len(batch)])
        if last > first:
            yield batch.take(pa.array(rows[first:last] - begin)), np.arange(first, last)
        begin += len(batch)


def in_order(read: Callable[[], Iterable[tuple[pa.Table, RowNumbers]]], total: int, rows: int) -> Iterator[pa.Table]:
    """Yields the rows of a table in another order, `rows` at a time; the last table may have fewer.

    Of a table that may be larger than memory, 100,000 rows are held: it is read once for each of these.

    Args:
        read: Gives the table in batches, each with the new place of each of its rows: every number below `total` once.
        total: Number of rows.
        rows: Rows in a yielded table.
    """
    most = max(_SORTED // rows, 1) * rows
    for first in range(0, total, most):
        taken_batches, places = [], []
        for batch, its_places in read():
            here = np.flatnonzero((its_places >= first) & (its_places < first + most))
            taken_batches.append(_with_long_offsets(batch.take(pa.array(here))))
            places.append(its_places[here])
        held = pa.concat_tables(taken_batches).combine_chunks()
        taken_batches.clear()
        order = np.argsort(np.concatenate(places))
        for begin in range(0, len(held), rows):
            yield held.take(pa.array(order[begin : begin + rows]))


def _with_long_offsets(table: pa.Table) -> pa.Table:
    """The table with large strings: many long texts may exceed the 2 GiB that 32-bit offsets can address."""
    return table.cast(pa.schema([(name, pa.large_string()) for name in table.column_names]))


def rows_in(path: Path) -> int:
    """Returns the number of rows of a table, from its footer. Raises as `read_table`."""
    return int(_footer(path).num_rows)


def text_lengths(path: Path, rows: Collection[int]) -> dict[int, int]:
    """Row number → characters in its column `text`, for the given rows; only the row groups that hold them are read.
    Raises as `read_table`.
    """
    wanted, first = sorted(rows), 0
    lengths: dict[int, int] = {}
    try:
        with open_table(path) as file:
            for group in range(file.num_row_groups):
                after = first + file.metadata.row_group(group).num_rows
                here = wanted[bisect_left(wanted, first) : bisect_left(wanted, after)]
                if here:
                    texts = file.read_row_group(group, columns=["text"]).column(0).take([row - first for row in here])
                    lengths.update(zip(here, pc.utf8_length(texts).to_pylist(), strict=True))
                first = after
    except _UNREADABLE as error:
        raise damaged_table(path, error) from error
    return lengths


def groups_in(path: Path) -> int:
    """Returns the number of row groups of a table, from its footer. Raises as `read_table`."""
    return int(_footer(path).num_row_groups)


def read_group(path: Path, number: int, columns: list[str] | None = None) -> pa.Table:
    """Reads columns of a row group, numbered from 0; None reads all. Raises as `read_table`."""
    try:
        with open_table(path) as file:
            return file.read_row_group(number, columns=columns)
    except _UNREADABLE as error:
        raise damaged_table(path, error) from error


def column_bytes(path: Path, column: str) -> int:
    """Returns how many bytes a column of texts takes, about, without reading it. Raises as `read_table`."""
    groups = _footer(path).to_dict()["row_groups"]
    return sum(
        int(column_chunk["total_uncompressed_size"])
        for group in groups
        for column_chunk in group["columns"]
        if column_chunk["path_in_schema"] == column
    )


def _footer(path: Path) -> pq.FileMetaData:
    try:
        return pq.read_metadata(path)
    except _UNREADABLE as error:
        raise damaged_table(path, error) from error


def damaged_table(path: Path, error: Exception) -> AlmanacError:
    """Returns the error for an unreadable table: StorageError where the operating system failed, DamagedVersion where
    the table is missing or damaged.
    """
    if isinstance(error, OSError) and error.errno not in (None, errno.ENOENT):
        return storage_error(error, path)
    hint = (
        "almanac verify KB says what is wrong; almanac rollback KB publishes an older version; almanac run KB "
        "builds a new one"
    )
    return DamagedVersion(f"the table cannot be read: {error}", where=str(path), hint=hint)


class StoredItems:
    """The items of a table, in row order. Can be iterated repeatedly; only one batch is in memory at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __iter__(self) -> Iterator[Item]:
        for batch in read_batches(self._path):
            yield from map(item_of, batch.to_pylist())


def item_of(row: dict[str, Any]) -> Item:
    """Converts a row of an items table back to an item. `language` is not restored: a detected one is in the
    metadata.
    """
    stored_columns = {
        name: row[name]
        for name in ("source", "kind", "document_id", "url", "title", "text", "passage", "raw_sha256", "fetched_at")
    }
    return Item(**stored_columns, fields=json.loads(row["fields"]), metadata=json.loads(row["metadata"]))


def items_table(items: Iterable[Item]) -> pa.Table:
    rows = [
        {
            "source": i.source, "kind": i.kind, "document_id": i.document_id, "url": i.url, "title": i.title,
            "text": i.text,
            "passage": i.passage, "fields": canonical_json(i.fields), "metadata": canonical_json(i.metadata),
            "raw_sha256": i.raw_sha256, "content_sha256": i.content_sha256, "text_sha256": sha256(i.text),
            "fetched_at": i.fetched_at,
        }
        for i in items
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema=ITEM_SCHEMA)


def chunks_table(chunks: Iterable[ChunkRow]) -> pa.Table:
    rows = [
        {
            "chunk_id": c.chunk_id, "document_id": c.document_id, "source": c.source, "url": c.url, "title": c.title,
            "kind": c.kind,
            "ordinal": c.ordinal, "start": c.start, "end": c.end, "text": c.text, "passage": c.passage,
            "embedded_text": c.embedded_text, "text_sha256": c.text_sha256, "metadata": canonical_json(c.metadata),
            "fetched_at": c.fetched_at,
        }
        for c in chunks
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema=CHUNK_SCHEMA)
