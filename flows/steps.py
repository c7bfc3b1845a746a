"""The steps of a refresh as Prefect tasks: each is a batch, so that Prefect's share stays in milliseconds.

Steps hand on files and, between mapping and chunking, the run's items.
"""

from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar

import structlog
from prefect import Task, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun

from flows.artifacts import show_validation
from flows.progress import show_progress
from flows.run import Run
from index.build import BuildJob, build_version
from index.embedder import load_embedder
from index.publish import finish_version, publish
from index.vectors import VectorStore, embed_missing
from index.verify import verify_version
from index.versions import version_dir
from schemas.durable import write_file
from schemas.errors import DamagedVersion, NoRecords, Retriable
from schemas.items import Item, canonical_json
from schemas.manifest import EmbedderInfo, Manifest
from schemas.reports import ChunkCounts
from schemas.sources import SiteSource, Source
from schemas.tables import CHUNKS, DOCUMENTS, RECORDS, chunks_table, items_table, read_table, write_table
from spiders.crawling.crawl import fetch_site, require_pages
from spiders.crawling.earlier import earlier_crawls
from spiders.mapping.diagnose import require_matches
from spiders.mapping.pages import map_pages
from spiders.raw import RawStore
from spiders.reading.read_files import read_files
from transforms.chunk import chunk_item
from transforms.compare import ItemKey, Known, compare_items, keep_first_seen
from transforms.deduplicate import deduplicate
from transforms.prepare import prepare_items
from transforms.validate import validate_items

log = structlog.get_logger("almanac.steps")
P = ParamSpec("P")
R = TypeVar("R")


async def _is_retriable(_task: Any, _run: TaskRun, state: State[Any]) -> bool:
    """Only what trying again may mend is tried again: see schemas/errors.py."""
    return isinstance(await state.aresult(raise_on_failure=False), Retriable)


def _step(name: str, *, run_name: str | None = None, retried: bool = False) -> Callable[[Callable[P, R]], Task[P, R]]:
    """A task of which Prefect keeps no result: what a step leaves are files, and the run."""
    return task(
        name=name,
        task_run_name=run_name or name,
        cache_policy=NO_CACHE,
        persist_result=False,
        retries=2 if retried else 0,
        retry_delay_seconds=[1, 4] if retried else 0,
        retry_condition_fn=_is_retriable,
    )


@_step("acquire", run_name="acquire {source.name}", retried=True)
def acquire(run: Run, source: Source) -> None:
    """Crawls a site or reads files: pages land in `data/raw` as they arrive."""
    raw = RawStore(run.data.raw(run.kb, source.name))
    with show_progress(run.kb, f"crawl {source.name}") as on_page:
        if isinstance(source, SiteSource):
            earlier = earlier_crawls(raw, run.run_id, run.ending_of)
            if earlier.interrupted:
                log.info("pages of runs that were cut off are taken over", kb=run.kb, source=source.name, runs=earlier.interrupted)
            outcome = fetch_site(source, raw, run.run_id, earlier=earlier, on_page=on_page)
        else:
            outcome = read_files(source, run.declaration.path.parent, raw, run.run_id, on_page=on_page)
    run.keep_outcome(outcome)
    if isinstance(source, SiteSource):
        require_pages(source, outcome)
    if outcome.finish != "finished":
        log.warning("crawl cut short", kb=run.kb, source=source.name, limit=outcome.finish, pages=outcome.pages.present)
    if outcome.beyond_depth:
        log.info("links lead beyond the declared depth", kb=run.kb, source=source.name, links=outcome.beyond_depth)
    if outcome.unqueued:
        log.warning("far more links than limits.pages lets through", kb=run.kb, source=source.name, not_queued=outcome.unqueued)


@_step("map and clean")
def map_and_clean(run: Run) -> None:
    """Raw pages → items, de-duplicated; what cannot be an item becomes a reject."""
    right = {
        (source.name, url): right
        for source in run.declaration.sources
        for url, right in RawStore(run.data.raw(run.kb, source.name)).index(run.run_id).right_addresses.items()
    }
    result = deduplicate(_mapped(run), lambda item: right.get((item.source, item.url)))
    run.items = result.items
    run.rejects += result.rejects
    run.report.items.deduplicated = result.duplicates


def _mapped(run: Run) -> Iterator[Item]:
    for source, outcome in zip(run.declaration.sources, run.report.sources, strict=True):
        raw = RawStore(run.data.raw(run.kb, source.name))
        matched: dict[str, int] = {}
        seen = 0
        for extraction in map_pages(raw.pages(run.run_id), source, run.declaration.language):
            found = len(extraction.drafts) + len(extraction.rejects)
            seen += found
            run.report.items.in_ += found
            run.rejects += extraction.rejects
            for name, count in extraction.matched.items():
                matched[name] = matched.get(name, 0) + count
            for prepared in prepare_items(extraction.drafts, source, run.declaration.clean):
                if isinstance(prepared, Item):
                    yield prepared
                elif _may_be_empty(source):
                    run.report.items.in_ -= 1
                    outcome.without_text += 1
                else:
                    run.rejects.append(prepared)
        require_matches(source, matched, seen, outcome.pages.present, raw.pages(run.run_id))


def _may_be_empty(source: Source) -> bool:
    """Whether pages are taken as they come: a crawl meets pages of pictures or nothing, and those are no broken items."""
    return isinstance(source, SiteSource) and source.yields == "documents" and source.match is None and source.each is None


@_step("validate")
def validate(run: Run) -> None:
    """Great Expectations, built from the declaration; the report is kept with the run."""
    validation = validate_items(run.items, run.declaration)
    run.items = validation.kept
    run.rejects += validation.rejects
    run.report.items.quarantined = len(run.rejects)
    write_file(run.data.runs(run.kb) / f"{run.run_id}.validation.json", canonical_json(validation.report))
    show_validation(run.kb, validation.report)
    if not run.items:
        has_sites = any(isinstance(source, SiteSource) for source in run.declaration.sources)
        hint = "almanac test-url KB URL shows what one page yields" if has_sites else "mend the files, or the rules that are declared for them"
        raise NoRecords(_nothing_left(run), where=str(run.declaration.path), hint=hint)


def _nothing_left(run: Run) -> str:
    pages = run.report.pages
    if not run.rejects:
        return f"no items in {pages.present} pages: no page matched, or none held an item"
    first = run.rejects[0]
    field = f", field {first.field}" if first.field else ""
    return f"all {len(run.rejects)} items of {pages.present} pages were quarantined; the first: {first.url}: {first.reason}{field}"


@_step("compare and chunk")
def compare_and_chunk(run: Run) -> None:
    """Counts what is new against the live version, and writes the run's tables."""
    live_items, live_chunks = _live(run)
    run.live_items = len(live_items) if live_items else None
    comparison = compare_items(run.items, live_items)
    counts = run.report.items
    counts.added, counts.changed, counts.unchanged, counts.removed = comparison.added, comparison.changed, comparison.unchanged, comparison.removed
    chunks = keep_first_seen((row for item in comparison.items for row in chunk_item(item, run.declaration.chunk)), live_chunks)
    run.report.chunks = ChunkCounts(total=len(chunks))
    write_table(run.staging / RECORDS, items_table(i for i in comparison.items if i.kind == "record"))
    write_table(run.staging / DOCUMENTS, items_table(i for i in comparison.items if i.kind == "document"))
    write_table(run.staging / CHUNKS, chunks_table(chunks))
    run.keep_tables(RECORDS, DOCUMENTS, CHUNKS)


def _live(run: Run) -> tuple[dict[ItemKey, Known], dict[str, str]]:
    """The live version's items, and its chunks' first-seen times; both empty where there is none to compare with."""
    version = run.report.previous
    if version is None:
        return {}, {}
    folder = version_dir(run.index_dir, version)
    items: dict[ItemKey, Known] = {}
    try:
        for name in (RECORDS, DOCUMENTS):
            columns = read_table(folder / name, ["source", "document_id", "content_sha256", "fetched_at"]).to_pydict()
            keys = zip(columns["source"], columns["document_id"], strict=True)
            items |= dict(zip(keys, map(Known, columns["content_sha256"], columns["fetched_at"]), strict=True))
        chunks = read_table(folder / CHUNKS, ["chunk_id", "fetched_at"]).to_pydict()
    except DamagedVersion as error:
        # A new version is the way out of a damaged one, so this run must not end here.
        log.warning("live version is damaged, everything counts as added", kb=run.kb, version=version, error=str(error))
        return {}, {}
    return items, dict(zip(chunks["chunk_id"], chunks["fetched_at"], strict=True))


@_step("embed", retried=True)
def embed(run: Run, info: EmbedderInfo) -> None:
    """Embeds the texts that have no vector yet, a checkpoint every 500. The model is only loaded when there is such a text."""
    store = VectorStore(run.data.vectors, info)
    chunks = run.processed / CHUNKS
    with show_progress(run.kb, "embed") as on_progress:
        run.report.chunks = embed_missing(chunks, store, lambda: load_embedder(run.declaration.embed), on_progress=on_progress)


@_step("build")
def build(run: Run, version: str, info: EmbedderInfo) -> None:
    """A fresh version directory, in a child process."""
    job = BuildJob(
        kb=run.kb,
        version_dir=version_dir(run.index_dir, version),
        collection=run.declaration.collection,
        chunks=run.processed / CHUNKS,
        records=run.processed / RECORDS,
        documents=run.processed / DOCUMENTS,
        vectors_root=run.data.vectors,
        embedder=info,
    )
    with show_progress(run.kb, "build") as on_progress:
        build_version(job, on_progress=on_progress)


@_step("verify")
def verify(run: Run, version: str, info: EmbedderInfo) -> None:
    """The finished directory, read by another process."""
    problems = verify_version(version_dir(run.index_dir, version), None, run.data.vectors, info)
    if problems:
        first = problems[0]
        raise DamagedVersion(
            f"the new version {version} differs from what was built in {len(problems)} places; first: {first.kind} at {first.where}",
            where=str(version_dir(run.index_dir, version)),
            hint="the live version serves on; run again, and check the disk if it happens again",
        )


@_step("publish")
def seal_and_publish(run: Run, manifest: Manifest, *, go_live: bool) -> None:
    """Syncs the directory, writes the manifest, and moves the pointer when the gate let it pass."""
    index_dir = run.index_dir
    finish_version(index_dir, manifest)
    if go_live:
        publish(index_dir, manifest.version)
