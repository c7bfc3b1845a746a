"""Step: this run's items against the live version's, and the tables of records and documents that come of it."""

import json
from collections.abc import Collection
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from almanac.core.digests import DigestSet, as_digests
from almanac.core.logs import get_logger
from almanac.core.tables import DOCUMENTS, RECORDS, batches_of, read_table, text_lengths, write_table
from almanac.flows.pipeline.handles import Comparison, Items, Live, Validated
from almanac.flows.pipeline.live_items import Incomparable, LiveItems, find_live_items
from almanac.flows.pipeline.run import Run
from almanac.schemas.errors import DamagedVersion
from almanac.schemas.reports import ItemCounts
from almanac.transforms.assemble import split_items
from almanac.transforms.item_changes import Briefs, compare_items
from almanac.transforms.item_changes import Comparison as Compared

log = get_logger("almanac.compare")


def compare(run: Run, items: Items, validated: Validated, live: Live | None) -> Comparison:
    """Counts what is new against the live version, and stages records and documents, each with the time since when its
    content is known.

    Items are compared with those of the version that is live also where `live` is None because this release cannot read
    it (`live_items`).
    """
    reason = None
    for live_items in find_live_items(run, live):
        if isinstance(live_items, Incomparable):
            log.warning(
                "the live version cannot be compared with",
                kb=run.kb,
                version=live_items.version,
                finding=reason or live_items.reason,
            )
            return _compared(
                run, items, validated, None, compared_with=live_items.version, incomparable=reason or live_items.reason
            )
        try:
            return _compared(run, items, validated, live_items, compared_with=live_items.version)
        except DamagedVersion as error:
            reason = error.message
    return _compared(run, items, validated, None)


def _compared(
    run: Run,
    items: Items,
    validated: Validated,
    live: LiveItems | None,
    *,
    compared_with: str | None = None,
    incomparable: str | None = None,
) -> Comparison:
    """The comparison with these live items. Raises DamagedVersion where their texts cannot be read."""
    quarantined = validated.quarantined_rows()
    redirects = (
        {}
        if items.redirects is None
        else {(source, url): to for source, url, to in json.loads(items.redirects.read_bytes())}
    )
    compared = compare_items(
        Briefs.read(batches_of(items.table), quarantined),
        Briefs.from_briefs([]) if live is None else live.items,
        redirects,
    )
    shrunk = 0 if live is None else _count_shrunk(items.table, quarantined, live, compared)
    split_items(items.table, compared.first_seen, quarantined, run.staging / RECORDS, run.staging / DOCUMENTS)
    counts = ItemCounts(
        **{"in": items.extracted},
        added=compared.count("added"),
        changed=compared.count("changed"),
        moved=compared.count("moved"),
        unchanged=compared.count("unchanged"),
        removed=len(compared.removed),
        deduplicated=items.deduplicated,
        quarantined=validated.rejected,
    )
    return Comparison(
        counts=counts,
        live_items=None if live is None else len(live.items),
        records=run.staging / RECORDS,
        documents=run.staging / DOCUMENTS,
        unchanged=_write_keys(run.staging / "unchanged.parquet", compared.unchanged),
        duplicates=items.duplicates,
        sources=items.sources,
        rewritten=len(compared.rewritten),
        shrunk=shrunk,
        compared_with=compared_with,
        incomparable=incomparable,
    )


def _count_shrunk(table: Path, quarantined: Collection[int], live: LiveItems, compared: Compared) -> int:
    """How many of the rewritten items have less than half of the characters that they had. Reads the texts of the rows
    in question, and no others.
    """
    if not len(compared.rewritten):
        return 0
    total = len(compared.changes) + len(quarantined)
    rows = np.delete(np.arange(total), sorted(quarantined))[compared.rewritten].tolist()  # in the table
    lengths = text_lengths(table, rows)
    places = compared.before[compared.rewritten].tolist()
    records = pc.sum(pc.equal(live.items.column("kind"), "record")).as_py() or 0  # they come first
    was = live.tables.text_lengths(RECORDS, [place for place in places if place < records])
    of_documents = live.tables.text_lengths(DOCUMENTS, [place - records for place in places if place >= records])
    was |= {place + records: length for place, length in of_documents.items()}
    return sum(2 * lengths[row] < was[place] for row, place in zip(rows, places, strict=True))


def unchanged_items(comparison: Comparison) -> DigestSet | None:
    """The keys of the items that are as they were, as `item_keys` gives them; None where there are none."""
    if comparison.unchanged is None:
        return None
    column = read_table(comparison.unchanged, ["item"]).column(0)
    return DigestSet(as_digests(column.to_pylist(), column.type.byte_width))


def copied_items(run: Run, comparison: Comparison, live: Live | None) -> DigestSet | None:
    """The keys of the items whose chunks are those of the live version: of the unchanged ones, where it was cut in the
    same way. None where there are none.
    """
    is_cut_alike = (
        live is not None and live.manifest.fingerprints.get("chunker") == run.stages["chunker"] and not run.scope.full
    )
    return unchanged_items(comparison) if is_cut_alike else None


def _write_keys(path: Path, keys: DigestSet) -> Path | None:
    if not len(keys):
        return None
    size = keys.digests.dtype.itemsize
    write_table(
        path,
        pa.table(
            {"item": pa.Array.from_buffers(pa.binary(size), len(keys), [None, pa.py_buffer(keys.digests.tobytes())])}
        ),
    )
    return path
