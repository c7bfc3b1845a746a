"""How one version differs from another: items, chunks, and stages with another fingerprint. Only the tables of the
versions are read.
"""

from pathlib import Path
from typing import Literal

import numpy as np

from almanac.core.digests import Digests, DigestSet, RowNumbers, digests_of
from almanac.core.tables import CHUNKS, DOCUMENTS, RECORDS, Batches, read_rows
from almanac.index.segments.version_tables import VersionTables
from almanac.index.versions.version_store import read_manifest, version_dir
from almanac.schemas.reports import DiffResult, ItemChange
from almanac.transforms.item_changes import CHANGES, Brief, Briefs, Comparison, compare_items

Difference = Literal["added", "changed", "moved", "removed"]
_REPORTED = ("added", "changed", "moved", "unchanged", "removed")
_BATCH = 10_000  # rows
_ORDER: tuple[Literal["added", "changed", "moved"], ...] = ("added", "changed", "moved")
_ID = 16  # bytes of a chunk id


def compare_versions(index_dir: Path, since: str, to: str) -> DiffResult:
    """Compares version `to` with version `since`. Raises NotFound, or DamagedVersion if a table cannot be read.

    Changes are classified as in a run, except that redirects are not known here: a page that was redirected and edited
    counts as removed and added.
    """
    older, newer = read_manifest(index_dir, since), read_manifest(index_dir, to)
    before, after = (
        VersionTables.in_folder(version_dir(index_dir, manifest.version), manifest) for manifest in (older, newer)
    )
    items, live = (Briefs.read(_items(tables)) for tables in (after, before))
    compared = compare_items(items, live)
    counts = {name: compared.count(name) for name in CHANGES} | {"removed": len(compared.removed)}
    old_ids, new_ids = (_ids(tables) for tables in (before, after))
    kept_chunks = int(DigestSet(old_ids).has(new_ids).sum())
    stages = [
        name
        for name in {**older.fingerprints, **newer.fingerprints}
        if older.fingerprints.get(name) != newer.fingerprints.get(name)
    ]
    chunks = {"added": len(new_ids) - kept_chunks, "kept": kept_chunks, "removed": len(old_ids) - kept_chunks}
    changes = [*_changed(items, live, compared, after), *_removed(live, compared, before)]
    return DiffResult(
        kb=index_dir.name,
        since=since,
        to=to,
        items={name: counts[name] for name in _REPORTED},
        chunks=chunks,
        stages=stages,
        changes=changes,
    )


def _ids(tables: VersionTables) -> Digests:
    """The chunk ids, as 16 bytes each."""
    return np.concatenate(
        [
            digests_of([], _ID),
            *(digests_of(batch.column(0), _ID) for batch in tables.batches(CHUNKS, ["chunk_id"], rows=_BATCH)),
        ]
    )


def _items(tables: VersionTables) -> Batches:
    return tables.batches_of(RECORDS, DOCUMENTS)


def _titles(tables: VersionTables, rows: RowNumbers) -> list[str]:
    """The titles of the items of these rows, ascending."""
    return [title for batch, _ in read_rows(_items(tables), ["title"], rows) for title in batch.column(0).to_pylist()]


def _changed(items: Briefs, live: Briefs, compared: Comparison, tables: VersionTables) -> list[ItemChange]:
    """The items that are new or another, ordered by kind of change, source and id."""
    rows = np.flatnonzero(compared.changes != CHANGES.index("unchanged"))
    changes = []
    for row, title in zip(rows.tolist(), _titles(tables, rows), strict=True):
        item, place, change = items[row], int(compared.before[row]), CHANGES[compared.changes[row]]
        was = live[place].url if place >= 0 else item.url
        changes.append((_ORDER.index(change), item, title, None if was == item.url else was))
    changes.sort(key=lambda entry: (entry[0], entry[1].key))
    return [_change(_ORDER[order], item, title, was) for order, item, title, was in changes]


def _removed(live: Briefs, compared: Comparison, tables: VersionTables) -> list[ItemChange]:
    titles = _titles(tables, compared.removed)
    return [
        _change("removed", item, title)
        for item, title in sorted(zip((live[row] for row in compared.removed.tolist()), titles, strict=True))
    ]


def _change(change: Difference, item: Brief, title: str, was: str | None = None) -> ItemChange:
    return ItemChange(
        change=change, source=item.source, document_id=item.document_id, url=item.url, title=title, was=was
    )
