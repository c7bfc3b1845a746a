"""Step: this run's items against the live version's, and the tables of records and documents that come of it."""

import json
from pathlib import Path

import pyarrow as pa
import structlog

from almanac.core.tables import DOCUMENTS, RECORDS, read_table, write_table
from almanac.flows.pipeline.handles import Comparison, Items, Live, Validated
from almanac.flows.pipeline.run import Run
from almanac.schemas.errors import DamagedVersion
from almanac.schemas.reports import ItemCounts
from almanac.transforms.assemble import briefs_of, split_items
from almanac.transforms.compare import Brief, ItemKey, compare_items

log = structlog.get_logger("almanac.compare")


def compare(run: Run, items: Items, validated: Validated, live: Live | None) -> Comparison:
    """Counts what is new against the live version, and stages records and documents, each with the time since when its content is known."""
    quarantined = validated.quarantined_rows()
    known = None if live is None else _items_of(run, live)
    redirects = {} if items.redirects is None else {(source, url): to for source, url, to in json.loads(items.redirects.read_bytes())}
    found = compare_items(briefs_of(items.table, quarantined), known or [], redirects)
    split_items(items.table, found.first_seen, quarantined, run.staging / RECORDS, run.staging / DOCUMENTS)
    counts = ItemCounts(
        **{"in": items.found},
        added=found.count("added"),
        changed=found.count("changed"),
        moved=found.count("moved"),
        unchanged=found.count("unchanged"),
        removed=len(found.removed),
        deduplicated=items.deduplicated,
        quarantined=validated.rejected,
    )
    live_items = None if known is None else len(known)
    return Comparison(counts, live_items, run.staging / RECORDS, run.staging / DOCUMENTS, _write_keys(run.staging / "unchanged.parquet", found.unchanged))


def unchanged_items(comparison: Comparison) -> frozenset[ItemKey]:
    """The keys of the items that are as they were."""
    if comparison.unchanged is None:
        return frozenset()
    keys = read_table(comparison.unchanged, ["source", "document_id"]).to_pydict()
    return frozenset(zip(keys["source"], keys["document_id"], strict=True))


def _write_keys(path: Path, keys: frozenset[ItemKey]) -> Path | None:
    if not keys:
        return None
    sources, ids = zip(*sorted(keys), strict=True)
    write_table(path, pa.table({"source": pa.array(sources, pa.string()), "document_id": pa.array(ids, pa.string())}))
    return path


def _items_of(run: Run, live: Live) -> list[Brief] | None:
    """The live version's items; None where they cannot be read."""
    try:
        return [*briefs_of(live.folder / RECORDS), *briefs_of(live.folder / DOCUMENTS)]
    except DamagedVersion as error:
        # A new version is the way out of a damaged one, so this run must not end here.
        log.warning("live version is damaged, everything counts as added", kb=run.kb, version=live.manifest.version, error=str(error))
        return None
