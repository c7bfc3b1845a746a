"""Writes the tables of a run: chunks of unchanged items are copied from the live version, the others are cut anew.
Works in batches of bounded memory.
"""

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from almanac.core.digests import DigestSet, SortedDigests, digests_of
from almanac.core.tables import (
    CHUNK_SCHEMA,
    ITEM_SCHEMA,
    Batches,
    TableWriter,
    chunks_table,
    item_of,
    items_table,
    read_batches,
)
from almanac.schemas.items import Item
from almanac.transforms.chunking.chunker import Chunker
from almanac.transforms.item_changes import item_keys

_BATCH = 500  # items
_ID = 16  # bytes of a chunk id


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


def split_items(
    items: Path, first_seen: pa.LargeStringArray, without: Collection[int], records: Path, documents: Path
) -> tuple[int, int]:
    """Splits a table of items into one of records and one of documents, and returns the rows of each.

    Args:
        first_seen: for each kept item in order, the time since when its content is known; it becomes `fetched_at`.
        without: row numbers of items to leave out.
        records: path of the table of records.
        documents: path of the table of documents.
    """
    place = 0
    with TableWriter(records, ITEM_SCHEMA) as into_records, TableWriter(documents, ITEM_SCHEMA) as into_documents:
        for batch in _read_without(items, without):
            times = first_seen[place : place + batch.num_rows].cast(pa.string())
            place += batch.num_rows
            batch = batch.set_column(ITEM_SCHEMA.get_field_index("fetched_at"), "fetched_at", times)
            is_record = pc.equal(batch.column("kind"), "record")
            into_records.write(batch.filter(is_record))
            into_documents.write(batch.filter(pc.invert(is_record)))
    return into_records.rows, into_documents.rows


def items_to_cut(table: Path, unchanged: DigestSet | None = None) -> Iterator[pa.Table]:
    """Yields the items of a table in batches, without those that are `unchanged`: their keys, as `item_keys` gives
    them.
    """
    for batch in read_batches(table, rows=_BATCH):
        yield (
            batch.filter(pa.array(~unchanged.has(item_keys(batch))))
            if unchanged is not None and len(unchanged)
            else batch
        )


def cut_items(items: pa.Table, chunker: Chunker) -> pa.Table:
    """The chunks of items, in their order."""
    return chunks_table(row for item in map(item_of, items.to_pylist()) for row in chunker.rows(item))


def write_chunks(
    path: Path, cut: Iterable[pa.Table], *, unchanged: DigestSet | None = None, live: Batches | None = None
) -> int:
    """Writes the chunks of a run and returns how many there are.

    Args:
        cut: chunks that are cut anew, in the order of their items.
        unchanged: keys of items whose chunks are copied from `live`, as `item_keys` gives them.
        live: reads the live version's chunks; a chunk that it already has keeps its `fetched_at`, even if its document
            changed around it.
    """
    unchanged = unchanged or DigestSet(item_keys(ITEM_SCHEMA.empty_table()))
    since = FirstSeen(live, unchanged) if live is not None else None
    with TableWriter(path, CHUNK_SCHEMA) as writer:
        if live is not None and len(unchanged):
            for batch in live(CHUNK_SCHEMA.names):
                writer.write(batch.filter(pa.array(unchanged.has(item_keys(batch)))))
        for chunks in cut:
            writer.write(chunks if since is None else since.keep(chunks))
    return writer.rows


class FirstSeen:
    """Since when the live chunks are known that are cut anew and may come out the same: 32 bytes a chunk."""

    def __init__(self, live: Batches, unchanged: DigestSet) -> None:
        """`unchanged` are keys of items whose chunks are not cut anew."""
        numbers: dict[str, int] = {}  # of the times
        ids, times = [digests_of([], _ID)], [np.zeros(0, dtype=np.int32)]
        for batch in live(["source", "document_id", "chunk_id", "fetched_at"]):
            other = batch.filter(pa.array(~unchanged.has(item_keys(batch)))) if len(unchanged) else batch
            ids.append(digests_of(other.column("chunk_id"), _ID))
            times.append(
                np.array(
                    [numbers.setdefault(time, len(numbers)) for time in other.column("fetched_at").to_pylist()],
                    dtype=np.int32,
                )
            )
        self._ids, self._times, self._texts = (
            SortedDigests(np.concatenate(ids)),
            np.concatenate(times),
            pa.array(numbers, pa.string()),
        )

    def keep(self, chunks: pa.Table) -> pa.Table:
        """The chunks, with the live one's `fetched_at` where there is one."""
        rows = self._ids.find(digests_of(chunks.column("chunk_id"), _ID))
        is_known = rows >= 0
        if not is_known.any():
            return chunks
        since = self._texts.take(pa.array(np.where(is_known, self._times[rows], 0)))
        times = pc.if_else(pa.array(is_known), since, chunks.column("fetched_at"))
        return chunks.set_column(CHUNK_SCHEMA.get_field_index("fetched_at"), CHUNK_SCHEMA.field("fetched_at"), times)


def _read_without(items: Path, without: Collection[int]) -> Iterator[pa.Table]:
    number = 0
    for batch in read_batches(items):
        if without:
            mask = pa.array([row not in without for row in range(number, number + batch.num_rows)], pa.bool_())
            number += batch.num_rows
            batch = batch.filter(mask)
        yield batch
