"""Applies the declared retention to versions, vectors, results of expectations and raw pages."""

from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from almanac.core.durable import TEMPORARY, sweep
from almanac.core.logs import get_logger
from almanac.core.settings import DataDir
from almanac.core.tables import DOCUMENTS, RECORDS
from almanac.flows.pipeline.earlier_runs import ending_of, prune_reports
from almanac.flows.pipeline.state import judges_of_live
from almanac.flows.pipeline.validation_results import prune_results
from almanac.index.segments.version_tables import TablePart, VersionTables
from almanac.index.upkeep.prune import prune
from almanac.index.versions.lock import Lease
from almanac.index.versions.version_store import list_versions, read_manifest, version_dir, version_names
from almanac.schemas.declaration import Declaration
from almanac.schemas.errors import DamagedVersion, NotFound
from almanac.schemas.reports import PruneResult
from almanac.spiders.store.raw import RawStore
from almanac.spiders.store.raw_retention import Pruned

log = get_logger("almanac.retention")


def apply_retention(
    data: DataDir,
    declaration: Declaration,
    *,
    crawls: Collection[str] = (),
    keep_vectors: Collection[str] = (),
    lease: Lease | None = None,
) -> PruneResult:
    """Removes what exceeds the declared retention, and returns what was removed. `crawls` and `keep_vectors` are kept
    in addition.

    The caller holds the writer lock and is outside `vectors_in_use`: as long as a process uses vectors, none are
    removed.
    """
    result = prune(data, declaration, keep_vectors=keep_vectors, lease=lease)
    made_by = {manifest.run_id for manifest in list_versions(data.index(declaration.name))}
    judges = made_by | judges_of_live(data.processed(declaration.name))
    result.bytes += prune_results(data, declaration.name, declaration.retention.versions, judges)
    pruned = prune_raw(data, declaration, crawls=crawls)
    crawled = {crawl for folder in data.raw_folders(declaration.name) for crawl in RawStore(folder).crawls()}
    freed = prune_reports(data, declaration.name, judges | crawled)
    result.crawls, result.pages, result.bytes = pruned.crawls, pruned.bodies, result.bytes + pruned.bytes + freed
    return result


def prune_raw(data: DataDir, declaration: Declaration, *, crawls: Collection[str] = ()) -> Pruned:
    """Removes crawls, and pages of theirs, that exceed the declared retention; `crawls` are kept in addition. Nothing
    is written.
    """
    index_dir = data.index(declaration.name)
    manifests = list_versions(index_dir)
    made_by = {manifest.run_id for manifest in manifests}
    needed = (
        set(crawls)
        | made_by
        | {crawl for manifest in manifests for crawl in manifest.lineage.get("crawls", {}).values()}
    )
    bodies = _bodies_of_versions(index_dir)
    if bodies is None:
        return Pruned()
    gone = Pruned()
    # Also of sources that are declared no longer.
    for folder in data.raw_folders(declaration.name):
        raw = RawStore(folder)
        stored = raw.crawls()
        newest = stored[-declaration.retention.crawls :]
        concluded = next(
            (crawl for crawl in reversed(stored) if ending_of(data, declaration.name, crawl) == "concluded"), None
        )
        pruned = raw.prune({*newest, *needed, *([concluded] if concluded else [])}, bodies)
        swept = sweep(folder.rglob(TEMPORARY))
        gone = Pruned(gone.crawls + pruned.crawls, gone.bodies + pruned.bodies, gone.bytes + pruned.bytes + swept)
    return gone


def _bodies_of_versions(index_dir: Path) -> set[str] | None:
    """Hashes of the raw pages that the items of kept versions come from; None if a table cannot be read. A segment is
    read once for all versions.
    """
    try:
        return {
            digest
            for part in _item_tables(index_dir)
            for batch in part.batches(["raw_sha256"])
            for digest in batch.column(0).to_pylist()
        }
    except (DamagedVersion, NotFound) as error:
        log.warning(
            "raw pages are left for the next time: a kept version does not say which it needs", error=str(error)
        )
        return None


def _item_tables(index_dir: Path) -> Iterator[TablePart]:
    """The tables of items of all versions, each once, without the rows that every version of it has deleted."""
    parts: dict[Path, TablePart] = {}
    for version in version_names(index_dir):
        for part in _item_tables_of(index_dir, version):
            before = parts.get(part.path)
            parts[part.path] = (
                part if before is None else replace(part, without=np.intersect1d(part.without, before.without))
            )
    yield from parts.values()


def _item_tables_of(index_dir: Path, version: str) -> list[TablePart]:
    folder = version_dir(index_dir, version)
    try:
        tables = VersionTables.in_folder(folder, read_manifest(index_dir, version))
    except DamagedVersion:
        own = [folder / name for name in (RECORDS, DOCUMENTS) if (folder / name).is_file()]
        if not own:
            raise
        return [TablePart(path, None, np.zeros(0, dtype=np.int64)) for path in own]  # such as of an earlier format
    return [part for name in (RECORDS, DOCUMENTS) for part in tables.parts(name)]
