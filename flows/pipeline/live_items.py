"""The items of the live version, as a run compares its own with them: from its tables, whatever release wrote them,
else from an equal copy of them.

What was published is never compared with nothing: where no table can be read, the gate refuses, and says why.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from almanac.core.logs import get_logger
from almanac.core.tables import DOCUMENTS, RECORDS
from almanac.flows.pipeline.handles import Live
from almanac.flows.pipeline.run import Run
from almanac.flows.pipeline.state import tables_are_of
from almanac.index.segments.version_tables import StoredTables
from almanac.index.versions.version_store import published_last, read_outline, version_dir
from almanac.schemas.errors import DamagedVersion, NotFound
from almanac.schemas.manifest import Counts, Outline
from almanac.transforms.item_changes import Brief, Briefs

log = get_logger("almanac.compare")
# without them, nothing tells which item is which; what else lacks counts as changed
_NEEDED = ("source", "document_id", "url")
_KINDS = {RECORDS: "record", DOCUMENTS: "document"}


@dataclass(frozen=True)
class LiveItems:
    """The items of the live version, and the tables that they were read from."""

    version: str
    items: Briefs
    tables: StoredTables


@dataclass(frozen=True)
class Incomparable:
    """Why the items of the version that was published last cannot be read."""

    version: str
    reason: str


def find_live_items(run: Run, live: Live | None) -> Iterator[LiveItems | Incomparable]:
    """Yields the items of the live version from each place that still has them, the version's own tables first, then
    why there is no further one.

    Yields nothing before the first publication. Raises StorageError where the disk fails, or where a file may not be
    read.

    Args:
        run: The run that compares.
        live: The version that is live; None where this release cannot read it. Then its name is looked up.
    """
    version = live.manifest.version if live is not None else published_last(run.index_dir)
    if version is None:
        return
    reason = "its tables cannot be read"
    try:
        outline = read_outline(run.index_dir, version)
        yield _read(version, StoredTables(run.index_dir, version_dir(run.index_dir, version), outline))
    except (DamagedVersion, NotFound) as error:
        reason = error.message
        log.warning("the live version's items cannot be read", kb=run.kb, version=version, error=str(error))
    if tables_are_of(run, version):
        # all three are there
        copy = Outline(version=version, run_id="", counts=Counts(records=1, documents=1, chunks=1))
        try:
            yield _read(version, StoredTables(run.index_dir, run.processed, copy), is_counted=False)
        except DamagedVersion as error:
            log.warning("the copy of its tables cannot be read either", kb=run.kb, version=version, error=str(error))
    yield Incomparable(version, reason)


def _read(version: str, tables: StoredTables, *, is_counted: bool = True) -> LiveItems:
    counts = tables.manifest.counts
    try:
        items = Briefs(
            _whole(batch, kind)
            for table, kind in _KINDS.items()
            for batch in tables.batches(table, Brief._fields, rows=10_000)
        )
    except (pa.ArrowException, KeyError, TypeError, ValueError) as error:  # columns of other names or types
        raise DamagedVersion(f"its items have other columns: {error}", where=str(tables.folder)) from error
    if is_counted and len(items) != counts.records + counts.documents:
        raise DamagedVersion(
            f"{version} has {len(items)} items instead of {counts.records + counts.documents}", where=str(tables.folder)
        )
    return LiveItems(version, items, tables)


def _whole(batch: pa.Table, kind: str) -> pa.Table:
    """The batch with all columns of `Brief`, of those that another release did not write a value that equals none."""
    missing = [name for name in _NEEDED if name not in batch.column_names]
    if missing:
        raise KeyError(f"there is no {' and no '.join(missing)}")
    other = {
        name: pa.repeat(kind if name == "kind" else "", len(batch))
        for name in Brief._fields
        if name not in batch.column_names
    }
    return pa.table(
        {name: other[name] if name in other else batch.column(name).cast(pa.string()) for name in Brief._fields}
    )
