"""Writes the tables of a run: chunks of unchanged items are copied from the live version, the others are cut anew. Works in batches of bounded memory."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from almanac.core.tables import CHUNK_SCHEMA, ITEM_SCHEMA, Batches, TableWriter, chunks_table, item_of, items_table, read_batches
from almanac.schemas.items import ChunkRow, Item
from almanac.transforms.chunking.chunker import Chunker
from almanac.transforms.compare import Brief, ItemKey

_BATCH = 500  # items
BRIEF = list(Brief._fields)


def write_items(path: Path, items: Iterable[Item]) -> int:
    """Writes items to a table and returns how many there were."""
    with TableWriter(path, ITEM_SCHEMA) as writer:
        waiting: list[Item] = []
        for item in items:
            waiting.append(item)
            if len(waiting) == _BATCH:
                writer.write(items_table(waiting))
                waiting = []
        writer.write(items_table(waiting))
    return writer.rows


def briefs_of(path: Path, without: Collection[int] = ()) -> Iterator[Brief]:
    """Yields the items of a table as briefs for a comparison, in order, except those whose row number is in `without`."""
    yield from (brief for number, brief in enumerate(briefs_in(read_batches(path, BRIEF, rows=10_000))) if number not in without)


def briefs_in(batches: Iterable[pa.Table]) -> Iterator[Brief]:
    """Yields the rows of batches with the columns `BRIEF` as briefs, in order."""
    for batch in batches:
        yield from (Brief(*row) for row in zip(*(batch.column(name).to_pylist() for name in BRIEF), strict=True))


def split_items(items: Path, first_seen: list[str], without: Collection[int], records: Path, documents: Path) -> tuple[int, int]:
    """Splits a table of items into one of records and one of documents, and returns the rows of each.

    Args:
        first_seen: for each kept item in order, the time since when its content is known; it becomes `fetched_at`.
        without: row numbers of items to leave out.
        records: path of the table of records.
        documents: path of the table of documents.
    """
    place = 0
    with TableWriter(records, ITEM_SCHEMA) as into_records, TableWriter(documents, ITEM_SCHEMA) as into_documents:
        for batch in _kept(items, without):
            times = pa.array(first_seen[place : place + batch.num_rows], pa.string())
            place += batch.num_rows
            batch = batch.set_column(ITEM_SCHEMA.get_field_index("fetched_at"), "fetched_at", times)
            is_record = pc.equal(batch.column("kind"), "record")
            into_records.write(batch.filter(is_record))
            into_documents.write(batch.filter(pc.invert(is_record)))
    return into_records.rows, into_documents.rows


def write_chunks(path: Path, tables: Iterable[Path], chunker: Chunker, *, unchanged: Collection[ItemKey] = (), live: Batches | None = None) -> int:
    """Writes the chunks of all items in `tables` and returns how many there are.

    Args:
        unchanged: keys of items whose chunks are copied from `live`; pass none if the chunker has changed.
        live: reads the live version's chunks; a chunk that it already has keeps its `fetched_at`, even if its document changed around it.
    """
    since = _first_seen(live, unchanged) if live is not None else {}
    with TableWriter(path, CHUNK_SCHEMA) as writer:
        if live is not None and unchanged:
            for batch in live(None):
                writer.write(batch.filter(_among(batch, unchanged)))
        for table in tables:
            for batch in read_batches(table, rows=_BATCH):
                fresh = batch.filter(pc.invert(_among(batch, unchanged))) if unchanged else batch
                rows = (row for item in map(item_of, fresh.to_pylist()) for row in chunker.rows(item))
                writer.write(chunks_table(keep_first_seen(rows, since)))
    return writer.rows


def keep_first_seen(chunks: Iterable[ChunkRow], since: Mapping[str, str]) -> list[ChunkRow]:
    """The chunks, with `fetched_at` from `since` (chunk id → time) where the id is known."""
    return [replace(chunk, fetched_at=since.get(chunk.chunk_id, chunk.fetched_at)) for chunk in chunks]


def _first_seen(live: Batches, unchanged: Collection[ItemKey]) -> dict[str, str]:
    """Chunk id → `fetched_at` of the live chunks that are cut anew and may come out the same."""
    since: dict[str, str] = {}
    for batch in live(["source", "document_id", "chunk_id", "fetched_at"]):
        other = batch.filter(pc.invert(_among(batch, unchanged))) if unchanged else batch
        since.update(zip(other.column("chunk_id").to_pylist(), other.column("fetched_at").to_pylist(), strict=True))
    return since


def _among(batch: pa.Table, keys: Collection[ItemKey]) -> pa.Array:
    pairs = zip(batch.column("source").to_pylist(), batch.column("document_id").to_pylist(), strict=True)
    return pa.array([pair in keys for pair in pairs], pa.bool_())


def _kept(items: Path, without: Collection[int]) -> Iterator[pa.Table]:
    number = 0
    for batch in read_batches(items):
        if without:
            mask = pa.array([row not in without for row in range(number, number + batch.num_rows)], pa.bool_())
            number += batch.num_rows
            batch = batch.filter(mask)
        yield batch
