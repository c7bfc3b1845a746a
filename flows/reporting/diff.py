"""How one version differs from another: items, chunks, and stages with another fingerprint. Only the tables of the versions are read."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pyarrow.compute as pc

from almanac.core.tables import CHUNKS, DOCUMENTS, RECORDS, read_table
from almanac.index.versions.store import read_manifest, version_dir
from almanac.schemas.reports import DiffResult, ItemChange
from almanac.transforms.assemble import briefs_of
from almanac.transforms.compare import Brief, Comparison, ItemKey, compare_items

Difference = Literal["added", "changed", "moved", "removed"]
_REPORTED = ("added", "changed", "moved", "unchanged", "removed")
_ORDER: tuple[Literal["added", "changed", "moved"], ...] = ("added", "changed", "moved")


def compare_versions(index_dir: Path, since: str, to: str) -> DiffResult:
    """Compares version `to` with version `since`. Raises NotFound, or DamagedVersion if a table cannot be read.

    Changes are classified as in a run, except that redirects are not known here: a page that was redirected and edited counts as removed and added.
    """
    older, newer = read_manifest(index_dir, since), read_manifest(index_dir, to)
    before, after = version_dir(index_dir, since), version_dir(index_dir, to)
    items = list(_items(after))
    compared = compare_items(items, _items(before))
    counts = Counter[str](compared.changes)
    counts["removed"] = len(compared.removed)
    old_ids, new_ids = (read_table(folder / CHUNKS, ["chunk_id"]).column(0) for folder in (before, after))
    kept = pc.sum(pc.is_in(new_ids, value_set=old_ids)).as_py() or 0
    stages = [name for name in {**older.fingerprints, **newer.fingerprints} if older.fingerprints.get(name) != newer.fingerprints.get(name)]
    chunks = {"added": len(new_ids) - kept, "kept": kept, "removed": len(old_ids) - kept}
    changes = _listed(items, compared, _titles(before) | _titles(after))
    return DiffResult(kb=index_dir.name, since=since, to=to, items={name: counts[name] for name in _REPORTED}, chunks=chunks, stages=stages, changes=changes)


def _items(folder: Path) -> Iterator[Brief]:
    for name in (RECORDS, DOCUMENTS):
        if (folder / name).is_file():
            yield from briefs_of(folder / name)


def _titles(folder: Path) -> dict[ItemKey, str]:
    titles: dict[ItemKey, str] = {}
    for name in (RECORDS, DOCUMENTS):
        if (folder / name).is_file():
            columns = read_table(folder / name, ["source", "document_id", "title"]).to_pydict()
            titles.update(zip(zip(columns["source"], columns["document_id"], strict=True), columns["title"], strict=True))
    return titles


def _listed(items: list[Brief], compared: Comparison, titles: dict[ItemKey, str]) -> list[ItemChange]:
    """The changes, ordered by kind, source and id."""

    def change_of(item: Brief, change: Difference, before: Brief | None) -> ItemChange:
        was = before.url if before is not None and before.url != item.url else None
        return ItemChange(change=change, source=item.source, document_id=item.document_id, url=item.url, title=titles[item.key], was=was)

    told = sorted(zip(items, compared.changes, compared.before, strict=True), key=lambda one: one[0].key)
    changed = [change_of(item, name, before) for name in _ORDER for item, change, before in told if change == name]
    return changed + [change_of(item, "removed", None) for item in sorted(compared.removed)]
