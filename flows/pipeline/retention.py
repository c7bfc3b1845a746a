"""Applies the declared retention to versions, vectors, results of expectations and raw pages."""

from collections.abc import Collection
from pathlib import Path

import structlog

from almanac.core.durable import TEMPORARY, sweep
from almanac.core.settings import DataDir
from almanac.core.tables import DOCUMENTS, RECORDS, read_table
from almanac.flows.pipeline.earlier_runs import ending_of
from almanac.flows.pipeline.results import prune_results
from almanac.flows.pipeline.state import judges_of_live
from almanac.index.upkeep.prune import prune
from almanac.index.versions.lock import Lease
from almanac.index.versions.store import list_versions, version_dir, version_names
from almanac.schemas.declaration import Declaration
from almanac.schemas.errors import DamagedVersion
from almanac.schemas.reports import PruneResult
from almanac.spiders.store.raw import RawStore
from almanac.spiders.store.retention import Pruned

log = structlog.get_logger("almanac.retention")


def apply_retention(
    data: DataDir, declaration: Declaration, *, crawls: Collection[str] = (), keep_vectors: Collection[str] = (), lease: Lease | None = None
) -> PruneResult:
    """Removes what exceeds the declared retention, and returns what was removed. `crawls` and `keep_vectors` are kept in addition.

    The caller holds the writer lock and is outside `vectors_in_use`: as long as a process uses vectors, none are removed.
    """
    result = prune(data, declaration, keep_vectors=keep_vectors, lease=lease)
    made_by = {manifest.run_id for manifest in list_versions(data.index(declaration.name))}
    judges = made_by | judges_of_live(data.processed(declaration.name))
    result.bytes += prune_results(data, declaration.name, declaration.retention.versions, judges)
    pruned = prune_raw(data, declaration, crawls=crawls)
    result.crawls, result.pages, result.bytes = pruned.crawls, pruned.bodies, result.bytes + pruned.bytes
    return result


def prune_raw(data: DataDir, declaration: Declaration, *, crawls: Collection[str] = ()) -> Pruned:
    """Removes crawls, and pages of theirs, that exceed the declared retention; `crawls` are kept in addition. Nothing is written."""
    index_dir = data.index(declaration.name)
    manifests = list_versions(index_dir)
    made_by = {manifest.run_id for manifest in manifests}
    needed = set(crawls) | made_by | {crawl for manifest in manifests for crawl in manifest.lineage.get("crawls", {}).values()}
    bodies = _bodies_of_versions(index_dir)
    if bodies is None:
        return Pruned()
    gone = Pruned()
    # Also of sources that are declared no longer.
    for folder in data.raw_folders(declaration.name):
        raw = RawStore(folder)
        stored = raw.crawls()
        newest = stored[-declaration.retention.crawls :]
        concluded = next((crawl for crawl in reversed(stored) if ending_of(data, declaration.name, crawl) == "concluded"), None)
        pruned = raw.prune({*newest, *needed, *([concluded] if concluded else [])}, bodies)
        swept = sweep(folder.rglob(TEMPORARY))
        gone = Pruned(gone.crawls + pruned.crawls, gone.bodies + pruned.bodies, gone.bytes + pruned.bytes + swept)
    return gone


def _bodies_of_versions(index_dir: Path) -> set[str] | None:
    """Hashes of the raw pages that the items of kept versions come from; None if a table cannot be read."""
    tables = [version_dir(index_dir, version) / name for version in version_names(index_dir) for name in (RECORDS, DOCUMENTS)]
    try:
        return {digest for path in tables if path.is_file() for digest in read_table(path, ["raw_sha256"]).column(0).to_pylist()}
    except DamagedVersion as error:
        log.warning("raw pages are left for the next time: a kept version does not say which it needs", error=str(error))
        return None
