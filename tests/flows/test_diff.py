"""How one kept version differs from another."""

from pathlib import Path

from almanac.core.tables import CHUNKS, DOCUMENTS, chunks_table, items_table, write_table
from almanac.flows.reporting.diff import compare_versions
from almanac.index.versions.publish import finish_version
from almanac.index.versions.version_store import version_dir
from almanac.schemas.items import Item
from tests.index import making


def _tables_of(root: Path, **versions: list[Item]) -> Path:
    for version, items in versions.items():
        folder = version_dir(root, version)
        write_table(folder / DOCUMENTS, items_table(items))
        chunks = [making.chunk_of(item) for item in items]
        write_table(folder / CHUNKS, chunks_table(chunks))
        finish_version(root, making.manifest_of("shop", version, chunks))
    return root


def test_diff_tells_added_changed_moved_and_removed_apart(tmp_path: Path) -> None:
    def item(document_id: str, url: str, text: str) -> Item:
        return Item("pages", "document", document_id, url, document_id, text, {}, {}, "raw", making.AT)

    before = [
        item("same", "u1", "t1"),
        item("other text", "u2", "t2"),
        item("other url", "u3", "t3"),
        item("old id", "u4", "t4"),
        item("gone", "u5", "t5"),
    ]
    after = [
        item("same", "u1", "t1"),
        item("other text", "u2", "T2"),
        item("other url", "U3", "t3"),
        item("new id", "U4", "t4"),
        item("new", "u6", "t6"),
    ]
    root = _tables_of(tmp_path, v0001=before, v0002=after)
    result = compare_versions(root, "v0001", "v0002")
    assert result.items == {"added": 1, "changed": 1, "moved": 2, "unchanged": 1, "removed": 1}
    assert result.chunks == {"added": 4, "kept": 1, "removed": 4}
    assert result.stages == ["chunker"]
    assert [(c.change, c.document_id, c.was) for c in result.changes] == [
        ("added", "new", None), ("changed", "other text", None), ("moved", "new id", "u4"), ("moved", "other url",
        "u3"), ("removed", "gone", None),
    ]  # fmt: skip
    back = compare_versions(root, "v0002", "v0001").items
    assert back == result.items
    assert compare_versions(root, "v0002", "v0002").changes == []


def test_each_of_several_equal_texts_moves_once(tmp_path: Path) -> None:
    root = _tables_of(
        tmp_path,
        v0001=[making.item(f"u{n}", "notice") for n in range(3)],
        v0002=[making.item(f"w{n}", "notice") for n in range(5)],
    )
    assert compare_versions(root, "v0001", "v0002").items == {
        "added": 2,
        "changed": 0,
        "moved": 3,
        "unchanged": 0,
        "removed": 0,
    }
