"""The steps of a refresh, each a function of the run: they hand on files. None knows Prefect; `flows/refresh.py` makes tasks of them."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import structlog

from almanac.core.durable import remove, write_file
from almanac.core.tables import CHUNKS, DOCUMENTS, RECORDS, StoredItems, read_batches, read_table
from almanac.flows.pipeline.item_mapper import Gathering
from almanac.flows.pipeline.question_vectors import are_kept, kept_questions
from almanac.flows.pipeline.run import Run, read_report
from almanac.index.build.builder import build_version
from almanac.index.build.delta import BuildFacts
from almanac.index.build.digest import DIGESTED, digest_of
from almanac.index.build.job import BuildJob
from almanac.index.embedding.tokens import count_tokens, count_truncated_chunks, max_tokens, token_spans
from almanac.index.reader import OpenVersion
from almanac.index.upkeep.takedown import forgotten_urls
from almanac.index.vectors.store import VectorStore, embed_missing
from almanac.index.verify.verifier import verify_version
from almanac.index.versions.lock import Lease
from almanac.index.versions.publish import finish_version, publish
from almanac.index.versions.store import version_dir
from almanac.query.evaluation.golden import measure_recall
from almanac.schemas.declaration.embed import Embed
from almanac.schemas.declaration.source import SiteSource, Source
from almanac.schemas.errors import DamagedVersion, GateRefused, NoRecords, UsageError
from almanac.schemas.hashing import canonical_json
from almanac.schemas.items import Reject
from almanac.schemas.manifest import Check, Manifest, Verdict
from almanac.schemas.reports import ChunkCounts, CrawlOutcome, Recall
from almanac.spiders.crawling.crawl import fetch_site, require_pages
from almanac.spiders.crawling.previous_crawls import Earlier
from almanac.spiders.crawling.read_files import read_files
from almanac.spiders.crawling.reuse import pages_of, reusable_crawl
from almanac.transforms.assemble import briefs_of, split_items, write_chunks, write_items
from almanac.transforms.chunking.chunker import Chunker
from almanac.transforms.compare import Brief, ItemKey, compare_items
from almanac.transforms.validate import validate_items

log = structlog.get_logger("almanac.steps")
_ITEMS = "items.parquet"  # of all sources, before they are validated


def acquire(run: Run, source: Source) -> None:
    """Crawls a site or reads files: pages land in `data/raw` as they arrive. Where nothing needs to be asked for, an earlier crawl's are taken."""
    raw = run.raw(source.name)
    earlier = run.earlier(source.name)
    reused = _reused(run, source, earlier)
    if reused is not None:
        log.info("no page is asked for; those of an earlier crawl are read", kb=run.kb, source=source.name, crawl=reused.crawl)
        run.keep_outcome(reused)
        return
    if earlier.interrupted:
        log.info("pages of runs that were cut off are taken over", kb=run.kb, source=source.name, runs=earlier.interrupted)
    earlier = earlier.model_copy(update={"afresh": run.scope.full})
    only, forgotten = run.scope.urls, forgotten_urls(run.index_dir)
    with run.show(f"crawl {source.name}") as on_page:
        if isinstance(source, SiteSource):
            outcome = fetch_site(source, raw, run.run_id, earlier=earlier, only=only, forgotten=forgotten, on_page=on_page)
        else:
            folder = run.declaration.path.parent
            outcome = read_files(source, folder, raw, run.run_id, earlier=earlier, only=only, forgotten=forgotten, on_page=on_page)
    run.keep_outcome(outcome)
    if isinstance(source, SiteSource):
        require_pages(source, outcome)
    _tell(run, outcome)


def _reused(run: Run, source: Source, earlier: Earlier) -> CrawlOutcome | None:
    """The pages of the last crawl, where the run does not cover the source, or where only later stages than fetching have changed."""
    raw = run.raw(source.name)
    if not run.scope.covers(source.name):
        crawl = run.crawl_as_live(source.name, earlier)
        if crawl is None:
            hint = f"almanac run {run.declaration.handle} without --source fetches all sources"
            raise UsageError(f"source '{source.name}' was never fetched, and a version needs it", where=str(run.declaration.path), hint=hint)
        return pages_of(source, raw, crawl)
    if run.scope.full or run.scope.sources or not run.only_later_stages_changed:
        return None
    crawl = reusable_crawl(source, raw, earlier)
    return None if crawl is None else pages_of(source, raw, crawl)


def _tell(run: Run, outcome: CrawlOutcome) -> None:
    where = {"kb": run.kb, "source": outcome.source}
    if outcome.finish not in ("finished", "partial"):
        log.warning("crawl cut short", **where, limit=outcome.finish, pages=outcome.pages.present)
    if outcome.kept:
        log.warning("pages that were not had keep their place", **where, pages=outcome.kept)
    if outcome.beyond_depth:
        log.info("links lead beyond the declared depth", **where, links=outcome.beyond_depth)
    if outcome.unqueued:
        log.warning("far more links than limits.pages lets through", **where, not_queued=outcome.unqueued)


def map_and_clean(run: Run) -> None:
    """Raw pages → items, de-duplicated; what cannot be an item becomes a reject. A page that did not change is not read again."""
    gathering = Gathering(run)
    with run.show("map") as on_page:
        write_items(run.staging / _ITEMS, gathering.items(on_page))
    gathering.keep()


def validate(run: Run) -> None:
    """Great Expectations, built from the declaration; the report is kept with the run."""
    items = StoredItems(run.staging / _ITEMS)
    validation = validate_items(items, run.declaration)
    run.quarantined = validation.rejects.keys()
    run.rejects += validation.rejects.values()
    run.report.items.quarantined = len(run.rejects)
    run.validation = validation.report
    if not run.is_plan:
        write_file(run.data.runs(run.kb) / f"{run.run_id}.validation.json", canonical_json(validation.report))
    if run.report.items.in_ - run.report.items.deduplicated <= len(run.rejects):
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


def compare_and_chunk(run: Run) -> None:
    """Counts what is new against the live version, and writes the run's tables."""
    live = run.live()
    live_items, folder = _items_of(run, live)
    run.live_items = None if folder is None else len(live_items)
    run.comparison = compared = compare_items(briefs_of(run.staging / _ITEMS, run.quarantined), live_items, run.led_to)
    counts = run.report.items
    counts.added, counts.changed, counts.moved = compared.count("added"), compared.count("changed"), compared.count("moved")
    counts.unchanged, counts.removed = compared.count("unchanged"), len(compared.removed)
    tables = (run.staging / RECORDS, run.staging / DOCUMENTS)
    split_items(run.staging / _ITEMS, compared.first_seen, run.quarantined, *tables)
    is_cut_alike = live is not None and live.fingerprints.get("chunker") == run.stages["chunker"] and not run.scope.full
    _cut(run, tables, compared.unchanged if is_cut_alike else frozenset(), folder)
    if not run.is_plan:
        run.keep_tables(RECORDS, DOCUMENTS, CHUNKS)


def _cut(run: Run, tables: tuple[Path, ...], unchanged: frozenset[ItemKey], live: Path | None) -> None:
    chunks = run.staging / CHUNKS
    declared = run.declaration
    chunker = Chunker(
        declared.chunk, declared.language, embed=lambda texts: run.model().embed_documents(texts), token_spans=partial(token_spans, declared.embed)
    )
    try:
        total = write_chunks(chunks, tables, chunker, unchanged=unchanged, live=None if live is None else live / CHUNKS)
    except DamagedVersion as error:
        log.warning("the live version's chunks are damaged: all are cut anew", kb=run.kb, error=str(error))
        live, total = None, write_chunks(chunks, tables, chunker)
    run.report.chunks = ChunkCounts(total=total, truncated=_count_truncated(run, live))


def _count_truncated(run: Run, folder: Path | None) -> int | None:
    """Chunks of which the embedder reads only the beginning. Where the live version's are counted, only what differs from it is looked at."""
    embed, live = run.declaration.embed, run.live()
    told = None if live is None or folder is None or live.embedder != run.embedder else read_report(run.data.runs(run.kb) / f"{live.run_id}.json")
    known = told.chunks.truncated if told is not None and live is not None and told.chunks.total == live.counts.chunks else None
    truncated = count_truncated_chunks(embed, run.staging / CHUNKS, None if folder is None else folder / CHUNKS, known)
    if truncated:
        hint = "smaller chunks, by chunk.size, are embedded whole"
        log.warning("of long chunks only the beginning is embedded", kb=run.kb, chunks=truncated, tokens=max_tokens(embed), hint=hint)
    return truncated


def _items_of(run: Run, live: Manifest | None) -> tuple[list[Brief], Path | None]:
    """The live version's items and its folder; none where there is none to compare with."""
    if live is None:
        return [], None
    folder = version_dir(run.index_dir, live.version)
    try:
        return [*briefs_of(folder / RECORDS), *briefs_of(folder / DOCUMENTS)], folder
    except DamagedVersion as error:
        # A new version is the way out of a damaged one, so this run must not end here.
        log.warning("live version is damaged, everything counts as added", kb=run.kb, version=live.version, error=str(error))
        return [], None


def digest(run: Run) -> str:
    """The digest of the run's chunks, which tells whether they are the live version's."""
    return digest_of(read_table(run.tables / CHUNKS, DIGESTED), run.embedder.fingerprint)


def embed(run: Run) -> int:
    """Embeds the texts that have no vector yet, a checkpoint every 500. The model is only loaded when there is such a text.

    An item of which the embedder refuses a text is quarantined, and the run's tables are made anew without it. Returns how many there were.
    """
    store = VectorStore(run.data.vectors, run.embedder)
    refused: dict[str, str] = {}
    with run.show("embed") as on_progress:
        counts = embed_missing(run.processed / CHUNKS, store, run.model, on_progress=on_progress, before=partial(_require_affordable, run), refused=refused)
    taken_out = _quarantine_refused(run, refused) if refused else 0
    total = run.report.chunks.total if refused else counts.total
    kept = {"total": total, "cached": min(counts.cached, total), "truncated": run.report.chunks.truncated, "cost": run.declaration.embed.cost(counts.tokens)}
    run.report.chunks = counts.model_copy(update=kept)
    return taken_out


def check_cost(embed: Embed, tokens: int | None) -> Check | None:
    """The gate's check of what embedding so many tokens costs; None where nothing limits it."""
    if embed.max_cost is None:
        return None
    cost = embed.cost(tokens)
    return Check(name="max_cost", value=cost, limit=embed.max_cost, ok=cost is None or cost <= embed.max_cost)


def _require_affordable(run: Run, texts: list[str]) -> None:
    embed = run.declaration.embed
    tokens = None if embed.max_cost is None else count_tokens(embed, texts)
    check = check_cost(embed, tokens)
    if check is not None and not check.ok:
        assert run.report.gate is not None
        run.report.gate = Verdict(verdict="refused", checks=[*run.report.gate.checks, check])
        raise GateRefused(
            f"embedding {len(texts):,} texts of about {tokens:,} tokens costs about {check.value:,}, and embed.max_cost is {check.limit:,}",
            where=str(run.declaration.path),
            hint="nothing was embedded, and what is published serves on; almanac plan KB tells the cost; raise embed.max_cost if it is right",
        )


def _quarantine_refused(run: Run, refused: Mapping[str, str]) -> int:
    """Takes out the items of which a text was refused: `refused` maps the texts' keys to the reasons."""
    reasons: dict[ItemKey, str] = {}
    for batch in read_batches(run.processed / CHUNKS, ["source", "document_id", "text_sha256"], rows=10_000):
        for source, document_id, key in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            if key in refused:
                reasons.setdefault((source, document_id), refused[key])
    numbers = {n: brief for n, brief in enumerate(briefs_of(run.staging / _ITEMS)) if brief.key in reasons and n not in run.quarantined}
    run.rejects += [Reject(one.source, one.url, one.document_id, "embed", reasons[one.key]) for one in numbers.values()]
    log.warning("items are quarantined: the embedder refuses them", kb=run.kb, items=len(numbers), first=next(iter(refused.values())))
    run.quarantined = frozenset(run.quarantined) | numbers.keys()
    counts = run.report.items
    counts.quarantined = len(run.rejects)
    if counts.in_ - counts.deduplicated <= len(run.rejects):
        counts.added = counts.changed = counts.moved = counts.unchanged = counts.removed = 0
        raise NoRecords(_nothing_left(run), where=str(run.declaration.path), hint="rejects.jsonl says why")
    compare_and_chunk(run)
    run.digest = digest(run)
    return len(numbers)


def build(run: Run, version: str, *, in_full: bool = False) -> BuildFacts:
    """A version directory, in a child process: the live one's Chroma and what is different, or all from kept vectors."""
    parent = run.report.previous if run.live() is not None and not (run.scope.full or in_full) else None
    job = BuildJob(
        kb=run.kb,
        version_dir=version_dir(run.index_dir, version),
        parent=None if parent is None else version_dir(run.index_dir, parent),
        collection=run.declaration.collection,
        language=run.declaration.language,
        chunks=run.processed / CHUNKS,
        records=run.processed / RECORDS,
        documents=run.processed / DOCUMENTS,
        vectors_root=run.data.vectors,
        embedder=run.embedder,
    )
    with run.show("build") as on_progress:
        return build_version(job, on_progress=on_progress)


def verify(run: Run, version: str, facts: BuildFacts) -> BuildFacts:
    """The finished directory, read by another process; of what was copied from a verified version, a sample. Says how it was built in the end.

    A copy with a fault is the fault of what it was copied from: the version is then built in full.
    """
    folder = version_dir(run.index_dir, version)
    since = version_dir(run.index_dir, run.report.previous) if facts.kind == "delta" and run.report.previous else None
    problems = verify_version(folder, None, run.data.vectors, run.embedder, since=since)
    if problems and since is not None:
        log.warning("the live version is damaged, and so is a copy of it: built in full", kb=run.kb, where=problems[0].where, finding=problems[0].kind)
        remove(folder)
        facts = build(run, version, in_full=True)
        problems = verify_version(folder, None, run.data.vectors, run.embedder)
    if problems:
        first = problems[0]
        raise DamagedVersion(
            f"the new version {version} differs from what was built in {len(problems)} places; first: {first.kind} at {first.where}",
            where=str(folder),
            hint="the live version serves on; run again, and check the disk if it happens again",
        )
    return facts


def measure_golden(run: Run, manifest: Manifest) -> None:
    """What share of the golden questions the finished version answers, and the live one where a drop is limited."""
    embed_questions = kept_questions(VectorStore(run.data.vectors, run.embedder), run.model, run.embedder.query_prompt)
    with OpenVersion(run.index_dir, manifest.version, manifest=manifest) as candidate:
        run.recall = measure_recall(run.declaration, candidate, embed_questions, run.golden)
    live = run.live()
    if live is not None and run.declaration.gate.max_recall_drop is not None:
        run.live_recall = _live_recall(run, live)


def _live_recall(run: Run, live: Manifest) -> Recall | None:
    """What the live version answers; None where it cannot be asked. One of another embedder is asked by the vectors that are kept of its questions."""
    store, is_other = VectorStore(run.data.vectors, live.embedder), live.embedder.fingerprint != run.embedder.fingerprint
    prompt = (live if is_other else run).embedder.query_prompt  # searches put the declared one before what they ask of the live version
    if is_other and not are_kept(store, [one.question for one in run.golden], prompt):
        log.warning("the live version has another embedder: its recall is not compared", kb=run.kb, version=live.version)
        return None
    try:
        with OpenVersion(run.index_dir, live.version) as opened:
            return measure_recall(run.declaration, opened, kept_questions(store, run.model, prompt), run.golden)
    except DamagedVersion as error:
        log.warning("the live version answers no golden question: it is damaged", kb=run.kb, version=live.version, error=str(error))
        return None


def publish_finished(run: Run, version: str, lease: Lease) -> None:
    """Moves the pointer to a version that another run sealed. Only for who still holds the lock."""
    publish(run.index_dir, version, lease=lease)


def seal_and_publish(run: Run, manifest: Manifest, lease: Lease, *, go_live: bool) -> None:
    """Syncs the directory, writes the manifest, and moves the pointer when the gate let it pass. Only for who still holds the lock."""
    finish_version(run.index_dir, manifest, lease=lease)
    if go_live:
        publish(run.index_dir, manifest.version, lease=lease)
