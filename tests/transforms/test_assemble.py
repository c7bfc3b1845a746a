"""The tables of a run: copied where nothing changed, cut anew where something did, and the same either way."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from almanac.core.tables import CHUNKS, DOCUMENTS, RECORDS, StoredItems, batches_of
from almanac.schemas.declaration.chunk_section import Chunk
from almanac.schemas.items import Item
from almanac.transforms.assemble import cut_items, items_to_cut, split_items, write_chunks, write_items
from almanac.transforms.chunking.chunker import Chunker
from almanac.transforms.item_changes import Briefs, compare_items

_CHUNKER = Chunker(Chunk(by="paragraphs", size=60, overlap=10))


def _document(name: str, text: str = "", *, at: str) -> Item:
    text = text or "\n\n".join(f"Paragraph {n} of {name} tells of this and of that." for n in range(3))
    return Item("s", "document", name, f"u/{name}", name, text, {}, {}, "raw", at)


def _record(name: str, *, at: str) -> Item:
    return Item("r", "record", name, f"u/{name}", name, f"record {name}", {"n": 1}, {"n": 1}, "raw", at)


def _assemble(
    folder: Path, items: Iterable[Item], live: Path | None = None, *, copied: bool = True
) -> list[dict[str, Any]]:
    folder.mkdir()
    write_items(folder / "items.parquet", items)
    before = Briefs.read(batches_of(live / RECORDS, live / DOCUMENTS)) if live else Briefs.from_briefs([])
    compared = compare_items(Briefs.read(batches_of(folder / "items.parquet")), before)
    tables = (folder / RECORDS, folder / DOCUMENTS)
    split_items(folder / "items.parquet", compared.first_seen, (), *tables)
    unchanged = compared.unchanged if copied else None
    cut = (cut_items(fresh, _CHUNKER) for table in tables for fresh in items_to_cut(table, unchanged))
    write_chunks(folder / CHUNKS, cut, unchanged=unchanged, live=batches_of(live / CHUNKS) if live else None)
    rows: list[dict[str, Any]] = pq.read_table(folder / CHUNKS).to_pylist()
    return sorted(rows, key=lambda row: str(row["chunk_id"]))


@pytest.mark.parametrize("copied", [True, False])
def test_chunks_that_are_copied_are_those_that_would_be_cut(tmp_path: Path, copied: bool) -> None:
    first = [_document("a", at="1"), _document("b", at="1"), _record("r", at="1")]
    _assemble(tmp_path / "v1", first)
    edited = _document("b", first[1].text + "\n\nOne more paragraph at the end.", at="2")
    second = [_document("a", at="2"), edited, _document("c", at="2"), _record("r", at="2")]
    rows = _assemble(tmp_path / f"v2{copied}", second, tmp_path / "v1", copied=copied)
    expected = _assemble(tmp_path / f"alone{copied}", second)
    assert [row | {"fetched_at": ""} for row in rows] == [row | {"fetched_at": ""} for row in expected]
    times = {(row["document_id"], row["ordinal"]): row["fetched_at"] for row in rows}
    # what is known keeps its time
    assert {times["a", n] for n in range(3)} == {times["r", 0]} == {times["b", 0]} == {"1"}
    assert times["c", 0] == times["b", max(n for name, n in times if name == "b")] == "2"


def test_items_that_were_quarantined_are_left_out_and_the_others_keep_their_order(tmp_path: Path) -> None:
    items = [_document(name, at="1") for name in "abcde"] + [_record("r", at="1")]
    write_items(tmp_path / "items.parquet", items)
    briefs = Briefs.read(batches_of(tmp_path / "items.parquet", rows=2), {1, 3})
    assert [briefs[row].document_id for row in range(len(briefs))] == ["a", "c", "e", "r"]
    counts = split_items(
        tmp_path / "items.parquet",
        pa.array(["t1", "t2", "t3", "t4"], pa.large_string()),
        {1, 3},
        tmp_path / RECORDS,
        tmp_path / DOCUMENTS,
    )
    assert counts == (1, 3)
    assert [(item.document_id, item.fetched_at) for item in StoredItems(tmp_path / DOCUMENTS)] == [
        ("a", "t1"),
        ("c", "t2"),
        ("e", "t3"),
    ]
