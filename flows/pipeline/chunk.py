"""Step: documents cut into chunks. What the live version cut the same way is copied from it."""

from collections.abc import Iterable, Iterator

import pyarrow as pa

from almanac.core.digests import DigestSet
from almanac.core.durable import move, remove
from almanac.core.logs import get_logger
from almanac.core.progress import OnProgress, ignore
from almanac.core.tables import CHUNKS, DOCUMENTS, RECORDS, Batches, batches_of, rows_in
from almanac.flows.pipeline.compare import copied_items
from almanac.flows.pipeline.earlier_runs import read_report
from almanac.flows.pipeline.handles import Comparison, ItemBatches, Live, Tables
from almanac.flows.pipeline.item_batches import chunker_with, parts_folder, read_parts
from almanac.flows.pipeline.run import Run
from almanac.flows.pipeline.state import STATE
from almanac.index.build.digest import digest_of
from almanac.index.embedding.tokens import count_truncated_chunks, max_tokens
from almanac.schemas.errors import DamagedVersion
from almanac.transforms.assemble import cut_items, items_to_cut, write_chunks
from almanac.transforms.chunking.chunker import Chunker

_ROWS = 2000  # in a row group of copied chunks
log = get_logger("almanac.chunk")


def chunk(
    run: Run,
    comparison: Comparison,
    live: Live | None,
    on_item: OnProgress = ignore,
    batches: ItemBatches | None = None,
) -> Tables:
    """Cuts the documents that are new or changed, and takes the chunks of the others from the live version where it was
    cut in the same way.

    Chunks of `batches` that are cut already are read from their parts. Then puts all tables of the run into their
    place.
    """
    table, chunker = run.staging / CHUNKS, chunker_with(run, run.model)
    before = live if comparison.live_items is not None else None
    copied = copied_items(run, comparison, live)
    try:
        parts = None if batches is None else read_parts(run, batches, chunker)
        total = write_chunks(
            table,
            _cut(comparison, chunker, copied, on_item if parts is None else ignore, parts),
            unchanged=copied,
            live=_chunks_of(before),
        )
    except DamagedVersion as error:
        log.warning("the live version's chunks are damaged: all are cut anew", kb=run.kb, error=str(error))
        before, total = None, write_chunks(table, _cut(comparison, chunker, None, on_item))
    truncated = _count_truncated(run, before)
    digest = digest_of(batches_of(table), run.embedder.fingerprint)
    if not run.is_plan:
        _keep_tables(run)
    if parts_folder(run).is_dir():
        remove(parts_folder(run))
    records, documents, chunks = (run.tables / name for name in (RECORDS, DOCUMENTS, CHUNKS))
    return Tables(records, documents, chunks, total, truncated, digest)


def _cut(
    comparison: Comparison,
    chunker: Chunker,
    copied: DigestSet | None,
    on_item: OnProgress,
    parts: Iterable[pa.Table] | None = None,
) -> Iterator[pa.Table]:
    """The chunks of all items that are not copied: of records, then of documents, which `parts` may have already."""
    every = rows_in(comparison.records) + rows_in(comparison.documents)
    done = 0 if copied is None else len(copied)
    for table in (comparison.records, *([comparison.documents] if parts is None else [])):
        for items in items_to_cut(table, copied):
            yield cut_items(items, chunker)
            done += items.num_rows
            on_item(done, every)
    yield from parts or ()


def _keep_tables(run: Run) -> None:
    """Puts the finished tables where `data/processed/<kb>` promises them, each in one step."""
    if (run.processed / STATE).exists():
        remove(run.processed / STATE)  # it describes the tables that are replaced now
    for name in (RECORDS, DOCUMENTS, CHUNKS):
        move(run.staging / name, run.processed / name)


def _count_truncated(run: Run, before: Live | None) -> int | None:
    """Chunks of which the embedder reads only the beginning. Where the live version's are counted, only what differs
    from it is looked at.
    """
    embed = run.embed
    manifest = before.manifest if before is not None and before.manifest.embedder == run.embedder else None
    report = read_report(run.data.runs(run.kb) / f"{manifest.run_id}.json") if manifest is not None else None
    known = (
        report.chunks.truncated
        if report is not None and manifest is not None and report.chunks.total == manifest.counts.chunks
        else None
    )
    truncated = count_truncated_chunks(embed, batches_of(run.staging / CHUNKS), _chunks_of(before), known)
    if truncated:
        log.warning(
            "of long chunks only the beginning is embedded",
            kb=run.kb,
            chunks=truncated,
            tokens=max_tokens(embed),
            hint=_way_to_whole_chunks(run),
        )
    return truncated


def _way_to_whole_chunks(run: Run) -> str:
    """What to declare so that chunks are embedded whole: records are never split, so that a size does not help them."""
    yields = {source.yields for source in run.declaration.sources}
    by_size = "a smaller chunk.size" if run.declaration.chunk.by != "none" else "another chunk.by than none"
    ways = {"records": "for records, a shorter `text`", "documents": f"for documents, {by_size}"}
    return "; ".join([*(way for kind, way in ways.items() if kind in yields), "or an embed.model that reads more"])


def _chunks_of(live: Live | None) -> Batches | None:
    return None if live is None else live.tables.batches_of(CHUNKS, rows=_ROWS)
