"""How one version differs from another, from their tables alone: items, chunks, and the stages whose rules changed."""

from collections import defaultdict, deque
from pathlib import Path
from typing import Literal, NamedTuple

import pyarrow.compute as pc

from index.versions import read_manifest, version_dir
from schemas.reports import DiffResult, ItemChange
from schemas.tables import CHUNKS, DOCUMENTS, RECORDS, read_table

_COLUMNS = ["source", "document_id", "kind", "url", "title", "content_sha256", "text_sha256"]
Change = Literal["added", "changed", "moved", "removed"]
Key = tuple[str, str]


class _Item(NamedTuple):
    source: str
    document_id: str
    kind: str
    url: str
    title: str
    content_sha256: str
    text_sha256: str

    @property
    def key(self) -> Key:
        """Ids are unique within a source."""
        return (self.source, self.document_id)

    def as_change(self, change: Change, was: str | None = None) -> ItemChange:
        return ItemChange(change=change, source=self.source, document_id=self.document_id, url=self.url, title=self.title, was=was)


def compare_versions(index_dir: Path, since: str, to: str) -> DiffResult:
    """What `to` has that `since` has not, and the other way about. Raises NotFound, or DamagedVersion where a table cannot be read.

    An item moved where it has another URL and the same text: under its id, or under another one of the same source whose item is no more.
    """
    older, newer = read_manifest(index_dir, since), read_manifest(index_dir, to)
    before, after = _items(version_dir(index_dir, since)), _items(version_dir(index_dir, to))
    changes = _changes(before, after)
    counts = {name: sum(change.change == name for change in changes) for name in ("added", "changed", "moved")}
    counts["unchanged"] = len(after) - sum(counts.values())
    counts["removed"] = sum(change.change == "removed" for change in changes)
    old_ids, new_ids = (read_table(version_dir(index_dir, version) / CHUNKS, ["chunk_id"]).column(0) for version in (since, to))
    kept = pc.sum(pc.is_in(new_ids, value_set=old_ids)).as_py() or 0
    stages = [name for name in {**older.fingerprints, **newer.fingerprints} if older.fingerprints.get(name) != newer.fingerprints.get(name)]
    chunks = {"added": len(new_ids) - kept, "kept": kept, "removed": len(old_ids) - kept}
    return DiffResult(kb=index_dir.name, since=since, to=to, items=counts, chunks=chunks, stages=stages, changes=changes)


def _items(folder: Path) -> dict[Key, _Item]:
    items: dict[Key, _Item] = {}
    for name in (RECORDS, DOCUMENTS):
        if (folder / name).is_file():
            columns = read_table(folder / name, _COLUMNS).to_pydict()
            items |= {item.key: item for item in map(_Item, *(columns[column] for column in _COLUMNS))}
    return items


def _changes(before: dict[Key, _Item], after: dict[Key, _Item]) -> list[ItemChange]:
    """By kind of change, then by source and id."""
    gone = {key: item for key, item in before.items() if key not in after}
    moved_from = _moves([item for key, item in after.items() if key not in before], gone)
    added, changed, moved = [], [], []
    for key, item in sorted(after.items()):
        was = before.get(key) or moved_from.get(key)
        if was is None:
            added.append(item.as_change("added"))
        elif was.key != key or (was.url != item.url and was.text_sha256 == item.text_sha256):
            moved.append(item.as_change("moved", was.url))
        elif was.content_sha256 != item.content_sha256:
            changed.append(item.as_change("changed", was.url if was.url != item.url else None))
    left = {item.key for item in moved_from.values()}
    removed = [item.as_change("removed") for key, item in sorted(gone.items()) if key not in left]
    return [*added, *changed, *moved, *removed]


def _moves(new: list[_Item], gone: dict[Key, _Item]) -> dict[Key, _Item]:
    """For new items, the gone one of equal text that each was before; each gone one once."""
    waiting: dict[tuple[str, str, str], deque[_Item]] = defaultdict(deque)
    for item in sorted(gone.values()):
        waiting[item.source, item.kind, item.text_sha256].append(item)
    found = {}
    for item in sorted(new):
        if same := waiting.get((item.source, item.kind, item.text_sha256)):
            found[item.key] = same.popleft()
    return found
