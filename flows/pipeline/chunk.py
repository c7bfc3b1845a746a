"""Step: documents cut into chunks. What the live version cut the same way is copied from it."""

from functools import partial

import structlog

from almanac.core.durable import move, remove
from almanac.core.tables import CHUNKS, DOCUMENTS, RECORDS, Batches, batches_of
from almanac.flows.pipeline.compare import unchanged_items
from almanac.flows.pipeline.earlier_runs import read_report
from almanac.flows.pipeline.handles import Comparison, Live, Tables
from almanac.flows.pipeline.run import Run
from almanac.flows.pipeline.state import STATE
from almanac.index.build.digest import digest_of
from almanac.index.embedding.tokens import count_truncated_chunks, max_tokens, token_spans
from almanac.schemas.errors import DamagedVersion
from almanac.transforms.assemble import write_chunks
from almanac.transforms.chunking.chunker import Chunker

_ROWS = 2000  # in a row group of copied chunks
log = structlog.get_logger("almanac.chunk")


def chunk(run: Run, comparison: Comparison, live: Live | None) -> Tables:
    """Cuts the documents that are new or changed, and takes the chunks of the others from the live version where it was cut in the same way.

    Then puts all tables of the run into their place.
    """
    declared, table = run.declaration, run.staging / CHUNKS
    chunker = Chunker(
        declared.chunk, declared.language, embed=lambda texts: run.model().embed_documents(texts), token_spans=partial(token_spans, declared.embed)
    )
    before = live if comparison.live_items is not None else None
    is_cut_alike = live is not None and live.manifest.fingerprints.get("chunker") == run.stages["chunker"] and not run.scope.full
    unchanged = unchanged_items(comparison) if is_cut_alike else None
    tables = (comparison.records, comparison.documents)
    try:
        total = write_chunks(table, tables, chunker, unchanged=unchanged, live=_chunks_of(before))
    except DamagedVersion as error:
        log.warning("the live version's chunks are damaged: all are cut anew", kb=run.kb, error=str(error))
        before, total = None, write_chunks(table, tables, chunker)
    truncated = _count_truncated(run, before)
    digest = digest_of(batches_of(table), run.embedder.fingerprint, scratch=run.staging)
    if not run.is_plan:
        _keep_tables(run)
    records, documents, chunks = (run.tables / name for name in (RECORDS, DOCUMENTS, CHUNKS))
    return Tables(records, documents, chunks, total, truncated, digest)


def _keep_tables(run: Run) -> None:
    """Puts the finished tables where `data/processed/<kb>` promises them, each in one step."""
    if (run.processed / STATE).exists():
        remove(run.processed / STATE)  # it describes the tables that are replaced now
    for name in (RECORDS, DOCUMENTS, CHUNKS):
        move(run.staging / name, run.processed / name)


def _count_truncated(run: Run, before: Live | None) -> int | None:
    """Chunks of which the embedder reads only the beginning. Where the live version's are counted, only what differs from it is looked at."""
    embed = run.embed
    manifest = before.manifest if before is not None and before.manifest.embedder == run.embedder else None
    told = read_report(run.data.runs(run.kb) / f"{manifest.run_id}.json") if manifest is not None else None
    known = told.chunks.truncated if told is not None and manifest is not None and told.chunks.total == manifest.counts.chunks else None
    truncated = count_truncated_chunks(embed, batches_of(run.staging / CHUNKS), _chunks_of(before), known)
    if truncated:
        hint = "smaller chunks, by chunk.size, are embedded whole"
        log.warning("of long chunks only the beginning is embedded", kb=run.kb, chunks=truncated, tokens=max_tokens(embed), hint=hint)
    return truncated


def _chunks_of(live: Live | None) -> Batches | None:
    return None if live is None else live.tables.batches_of(CHUNKS, rows=_ROWS)
