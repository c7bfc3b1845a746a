"""The tables of a run: what the live version holds unchanged is copied from it, the rest is cut anew. A batch at a time, whatever the size."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from almanac.core.tables import CHUNK_SCHEMA, ITEM_SCHEMA, TableWriter, chunks_table, item_of, items_table, read_batches
from almanac.schemas.items import ChunkRow, Item
from almanac.transforms.chunking.chunker import Chunker
from almanac.transforms.compare import Brief, ItemKey

_BATCH = 500  # items
_BRIEF = list(Brief._fields)


def write_items(path: Path, items: Iterable[Item]) -> int:
    """Items into a table; how many there were."""
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
    """The items of a table, as a comparison sees them; those whose number is in `without` are left out."""
    number = 0
    for batch in read_batches(path, _BRIEF, rows=10_000):
        for row in zip(*(batch.column(name).to_pylist() for name in _BRIEF), strict=True):
            if number not in without:
                yield Brief(*row)
            number += 1


def split_items(items: Path, first_seen: list[str], without: Collection[int], records: Path, documents: Path) -> tuple[int, int]:
    """Writes the kept items of a table as records and documents, each with the time since when its content is known. Returns how many."""
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


def write_chunks(path: Path, tables: Iterable[Path], chunker: Chunker, *, unchanged: Collection[ItemKey] = (), live: Path | None = None) -> int:
    """The chunks of the items in `tables`. Those of `unchanged` items are copied from the table `live`; pass none where the chunker is another.

    A chunk that the live version has keeps the time since when it is known, also where its document changed around it.
    """
    since = _first_seen(live, unchanged) if live is not None else {}
    with TableWriter(path, CHUNK_SCHEMA) as writer:
        if live is not None and unchanged:
            for batch in read_batches(live):
                writer.write(batch.filter(_among(batch, unchanged)))
        for table in tables:
            for batch in read_batches(table, rows=_BATCH):
                fresh = batch.filter(pc.invert(_among(batch, unchanged))) if unchanged else batch
                rows = (row for item in map(item_of, fresh.to_pylist()) for row in chunker.rows(item))
                writer.write(chunks_table(keep_first_seen(rows, since)))
    return writer.rows


def keep_first_seen(chunks: Iterable[ChunkRow], since: Mapping[str, str]) -> list[ChunkRow]:
    """Chunks that are known keep their time: `since` maps chunk ids to it."""
    return [replace(chunk, fetched_at=since.get(chunk.chunk_id, chunk.fetched_at)) for chunk in chunks]


def _first_seen(live: Path, unchanged: Collection[ItemKey]) -> dict[str, str]:
    """The times of the chunks that may be cut anew and come out the same."""
    since: dict[str, str] = {}
    for batch in read_batches(live, ["source", "document_id", "chunk_id", "fetched_at"], rows=10_000):
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
