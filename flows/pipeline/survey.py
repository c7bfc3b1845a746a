"""The survey of a run: acquires, maps, validates, compares and chunks, and lets the gate judge the counts. Nothing is
embedded.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from almanac.core.logs import get_logger
from almanac.core.progress import OnProgress, Show, ignore, silent
from almanac.core.tables import read_table
from almanac.flows.pipeline.acquire import acquire
from almanac.flows.pipeline.batches import FanOut, do_all
from almanac.flows.pipeline.chunk import chunk
from almanac.flows.pipeline.compare import compare
from almanac.flows.pipeline.crawls_ahead import CrawlsAhead, crawls_ahead
from almanac.flows.pipeline.earlier_runs import ending_of, find_live, live_manifest
from almanac.flows.pipeline.handles import (
    Comparison,
    ItemBatches,
    Items,
    Live,
    Measured,
    PageBatches,
    Pages,
    Rejects,
    Tables,
    Validated,
)
from almanac.flows.pipeline.item_batches import cut_batch, is_much_to_cut, stage_items
from almanac.flows.pipeline.ledger import Ledger
from almanac.flows.pipeline.map import MAP_REJECTS, map_pages
from almanac.flows.pipeline.page_batches import is_worth_sharing, map_batch, remove_parts, stage_pages
from almanac.flows.pipeline.run import Run
from almanac.flows.pipeline.state import confirmed_before, inputs_of
from almanac.flows.pipeline.validate import require_records, validate
from almanac.index.embedding.model_folder import require_models
from almanac.index.segments.tables import VersionTables
from almanac.index.versions.store import current_version, list_versions, version_names
from almanac.query.models.rerank import find_reranker
from almanac.schemas.crawl_outcome import PageCounts
from almanac.schemas.declaration.source import SiteSource, Source
from almanac.schemas.errors import DamagedVersion, ManyDefects, NoRecords
from almanac.schemas.manifest import Manifest, Verdict
from almanac.schemas.reports import ChunkCounts
from almanac.spiders.crawling.chromium import require_browser
from almanac.spiders.reading.bounded import close_reader
from almanac.transforms.gate import judge

log = get_logger("almanac.run")
_CONTENT = ["source", "document_id", "content_sha256", "raw_sha256"]
Do = Callable[..., Any]  # carries out a step: as a Prefect task, or as the plain function that it is


def call_directly(step: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Calls a step as a plain function."""
    return step(*arguments, **named)


@dataclass(frozen=True)
class Survey:
    """The result of a survey. `items` is None if nothing was mapped, because nothing has changed since the live version
    was confirmed.
    """

    live: Live | None
    pages: tuple[Pages, ...]
    items: Items | None
    validated: Validated
    comparison: Comparison
    tables: Tables
    verdict: Verdict

    @property
    def is_passed(self) -> bool:
        return self.verdict.verdict == "passed"


def survey(
    run: Run,
    do: Do = call_directly,
    *,
    ledger: Ledger | None = None,
    show: Show = silent,
    fan_out: FanOut | None = None,
) -> Survey:
    """Finds out what a run would publish. With `fan_out`, workers of a cluster map the pages; without it, processes of
    this machine, if there are many.

    Errors in the declaration, and an extra or a browser that is missing, are raised before the first request. If pages
    and rules are those that confirmed the live version, nothing is mapped.
    """
    ledger = ledger or Ledger()
    ledger.previous = _version_before(run)
    _ = run.golden, find_reranker(run.declaration)
    require_models(run.declaration.embed)
    for source in run.declaration.sources:
        if isinstance(source, SiteSource) and run.scope.covers(source.name):
            require_browser(source)
    manifest = live_manifest(run.data, run.kb)
    ledger.note_stages(run.stages, manifest)
    with ledger.stage("crawl", run.kb), crawls_ahead(run, manifest) as ahead:
        pages = tuple(_acquire(run, do, source, manifest, show, ahead) for source in run.declaration.sources)
    live = find_live(run)  # after the crawl, which may have taken hours
    ledger.inputs = inputs_of(run, pages)
    confirmed = confirmed_before(run, ledger.inputs, live)
    if confirmed is not None:
        items, (validated, comparison, tables) = None, confirmed
        remove_parts(run)  # of a run that was cut off
        ledger.note(validated)
        ledger.note(comparison)
    else:
        items, validated = _find_items(run, do, pages, ledger, show, fan_out)
        with ledger.stage("chunk", run.kb), show("chunk") as on_item:
            comparison, tables = cut(run, do, items, validated, live, ledger, fan_out, on_item)
    ledger.note(ChunkCounts(total=tables.total, truncated=tables.truncated))
    verdict = ledger.note(judge_run(run, pages, validated, comparison))
    return Survey(live, pages, items, validated, comparison, tables, verdict)


def _version_before(run: Run) -> str | None:
    """The live version; None before the first one, and where no complete version is left to go back to. Raises
    DamagedVersion where the pointer is lost.
    """
    try:
        return current_version(run.index_dir)
    except DamagedVersion as error:
        if version_names(run.index_dir):
            raise
        log.warning("no complete version is left: begun anew", kb=run.kb, error=error.message)
        return None


def _acquire(run: Run, do: Do, source: Source, live: Manifest | None, show: Show, ahead: CrawlsAhead) -> Pages:
    with show(f"crawl {source.name}") as on_page:
        pages: Pages = do(acquire, run, source, live, ahead.beside(source, on_page), ahead.take)
    return pages


def _find_items(
    run: Run, do: Do, pages: tuple[Pages, ...], ledger: Ledger, show: Show, fan_out: FanOut | None
) -> tuple[Items, Validated]:
    with ledger.stage("map", run.kb), show("map") as on_page:
        try:
            items = ledger.note(map_all(run, pages, do, fan_out, on_page))
        except (NoRecords, ManyDefects):
            ledger.note(Rejects.of(run.staging / MAP_REJECTS))
            raise
    if not items.is_whole:
        ledger.inputs = ""  # of this run's pages nobody may conclude that nothing changed
    with ledger.stage("validate", run.kb):
        validated = ledger.note(do(validate, run, items))
        require_records(run, pages, items, validated)
    return items, validated


def map_all(
    run: Run,
    pages: tuple[Pages, ...],
    do: Do = call_directly,
    fan_out: FanOut | None = None,
    on_page: OnProgress = ignore,
) -> Items:
    """The items of the pages of all sources, as `map_pages` says; many pages are mapped in batches. Raises as that
    does.
    """
    batches: PageBatches | None = None
    if fan_out is not None or is_worth_sharing(run, pages):
        batches = do(stage_pages, run, pages)
        try:
            do_all(map_batch, run, batches, batches.count, batches.pages, fan_out, on_page)
        finally:
            close_reader()
    items: Items = do(map_pages, run, pages, on_page, batches)
    return items


def cut(
    run: Run,
    do: Do,
    items: Items,
    validated: Validated,
    live: Live | None,
    ledger: Ledger,
    fan_out: FanOut | None,
    on_item: OnProgress = ignore,
) -> tuple[Comparison, Tables]:
    """Compares the valid items with the live version, and cuts them into chunks. With `fan_out`, workers of a cluster
    cut where there is much to cut.
    """
    comparison: Comparison = ledger.note(do(compare, run, items, validated, live))
    batches: ItemBatches | None = None
    if is_much_to_cut(run, comparison, live, by_workers=fan_out is not None):
        batches = do(stage_items, run, comparison, live)
        do_all(cut_batch, run, batches, batches.count, batches.items, fan_out, on_item)
    tables: Tables = do(chunk, run, comparison, live, on_item, batches)
    return comparison, tables


def judge_run(
    run: Run, pages: tuple[Pages, ...], validated: Validated, comparison: Comparison, measured: Measured | None = None
) -> Verdict:
    """The verdict of the gate on counts and, if given, recall."""
    # Of a few pages that were asked for, one that failed is a large share; those that were left alone are no failures.
    left_alone = PageCounts(unchanged=sum(one.kept for one in pages if one.finish == "partial"))
    counted = sum((one.counts for one in pages), left_alone)
    recall, live_recall = (None, None) if measured is None else (measured.read(), measured.read_live())
    return judge(
        run.declaration,
        counted,
        comparison.counts,
        comparison.live_items,
        shrunk=comparison.shrunk,
        rewritten=comparison.rewritten,
        compared_with=comparison.compared_with,
        incomparable=comparison.incomparable,
        not_fetched=sum(one.not_fetched for one in pages),
        broken_expectations=validated.broken,
        expectations=validated.checks,
        recall=recall,
        live_recall=live_recall,
        unasked=None if measured is None else measured.unasked,
    )


def is_live(run: Run, survey: Survey) -> bool:
    """Whether the live version holds exactly the surveyed content: the same items and chunks, indexed in the same
    way.
    """
    live, items = survey.live, survey.comparison.counts
    if live is None or not live.is_whole or survey.comparison.live_items is None:
        return False
    same_items = not (items.added or items.changed or items.moved or items.removed)
    same_index = (
        live.manifest.embedder == run.embedder and live.manifest.fingerprints.get("index") == run.stages["index"]
    )
    return same_items and same_index and live.manifest.digest == survey.tables.digest


def finished_before(run: Run, survey: Survey, previous: str | None) -> Manifest | None:
    """A complete version with this content that passed the gate, made by a run that was killed, or had no room, before
    it could publish it.
    """
    if not survey.is_passed or run.scope.full:
        return None
    wanted = ("passed", previous, run.stages, run.embedder, run.declaration.collection, survey.tables.digest)
    for kept in reversed(list_versions(run.index_dir)):
        found = (kept.gate.verdict, kept.parent, kept.fingerprints, kept.embedder, kept.collection, kept.digest)
        if found == wanted and ending_of(run.data, run.kb, kept.run_id) != "concluded":
            stored = VersionTables.of(run.version_dir(kept.version), kept)
            if all(
                _content_of(read_table(path, _CONTENT)) == _content_of(stored.read(path.name, _CONTENT))
                for path in (survey.tables.records, survey.tables.documents)
            ):
                return kept
    return None


def _content_of(items: pa.Table) -> pa.Table:
    """The items of a table, sorted, without their times, which differ if a file was read again."""
    return items.sort_by([(name, "ascending") for name in _CONTENT])


def refused_before(run: Run, digest: str) -> Manifest | None:
    """A kept version with this content that the gate has refused before. Reusing it keeps nightly refusals from filling
    the disk.
    """
    for kept in reversed(list_versions(run.index_dir)):
        same = kept.digest == digest and kept.declaration_sha256 == run.declaration.sha256
        if same and kept.gate.verdict == "refused" and kept.fingerprints.get("index") == run.stages["index"]:
            return kept
    return None
