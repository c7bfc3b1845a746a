"""Step: this run's items against the live version's, and the tables of records and documents that come of it."""

import json
from collections.abc import Collection
from pathlib import Path

import pyarrow as pa
import structlog

from almanac.core.tables import DOCUMENTS, RECORDS, read_table, text_lengths, write_table
from almanac.flows.pipeline.handles import Comparison, Items, Live, Validated
from almanac.flows.pipeline.run import Run
from almanac.schemas.errors import DamagedVersion
from almanac.schemas.reports import ItemCounts
from almanac.transforms.assemble import BRIEF, briefs_in, briefs_of, split_items
from almanac.transforms.compare import Brief, ItemKey, compare_items
from almanac.transforms.compare import Comparison as Compared

log = structlog.get_logger("almanac.compare")


def compare(run: Run, items: Items, validated: Validated, live: Live | None) -> Comparison:
    """Counts what is new against the live version, and stages records and documents, each with the time since when its content is known."""
    quarantined = validated.quarantined_rows()
    known = None if live is None else _items_of(run, live)
    redirects = {} if items.redirects is None else {(source, url): to for source, url, to in json.loads(items.redirects.read_bytes())}
    found = compare_items(briefs_of(items.table, quarantined), known or [], redirects)
    split_items(items.table, found.first_seen, quarantined, run.staging / RECORDS, run.staging / DOCUMENTS)
    try:
        shrunk = 0 if live is None or known is None else _count_shrunk(items.table, quarantined, live, known, found)
    except DamagedVersion as error:
        _warn_of_damage(run, live, error)
        return compare(run, items, validated, None)
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
    return Comparison(
        counts=counts,
        live_items=live_items,
        records=run.staging / RECORDS,
        documents=run.staging / DOCUMENTS,
        unchanged=_write_keys(run.staging / "unchanged.parquet", found.unchanged),
        duplicates=items.duplicates,
        sources=items.sources,
        rewritten=len(found.rewritten),
        shrunk=shrunk,
    )


def _count_shrunk(table: Path, quarantined: Collection[int], live: Live, known: list[Brief], found: Compared) -> int:
    """How many of the rewritten items have less than half of the characters that they had. Reads the texts of the rows in question, and no others."""
    if not found.rewritten:
        return 0
    rows = [row for row in range(len(found.changes) + len(quarantined)) if row not in quarantined]  # of the items that were compared
    lengths = text_lengths(table, [rows[place] for place in found.rewritten])
    before = {place: old.key for place in found.rewritten if (old := found.before[place]) is not None}
    wanted = set(before.values())
    places = {item.key: place for place, item in enumerate(known) if item.key in wanted}
    records = sum(item.kind == "record" for item in known)  # they come first
    was = live.tables.text_lengths(RECORDS, [place for place in places.values() if place < records])
    of_documents = live.tables.text_lengths(DOCUMENTS, [place - records for place in places.values() if place >= records])
    was |= {place + records: length for place, length in of_documents.items()}
    return sum(2 * lengths[rows[place]] < was[places[key]] for place, key in before.items())


def _warn_of_damage(run: Run, live: Live | None, error: DamagedVersion) -> None:
    # A new version is the way out of a damaged one, so a run must not end here.
    version = live.manifest.version if live is not None else None
    log.warning("live version is damaged, everything counts as added", kb=run.kb, version=version, error=str(error))


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
        return [brief for table in (RECORDS, DOCUMENTS) for brief in briefs_in(live.tables.batches(table, BRIEF, rows=10_000))]
    except DamagedVersion as error:
        _warn_of_damage(run, live, error)
        return None
