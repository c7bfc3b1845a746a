"""Step: a source's pages, fetched or read into `data/raw`, or those of an earlier crawl where nothing needs to be asked
for.
"""

import time
from collections.abc import Callable, Iterable
from pathlib import Path

from almanac.core.durable import write_file
from almanac.core.logs import get_logger
from almanac.core.progress import OnProgress, ignore
from almanac.core.url_folders import say_folders
from almanac.flows.pipeline.earlier_runs import crawl_as_live, only_later_stages_changed, previous_crawls
from almanac.flows.pipeline.handles import MappedSource, Pages
from almanac.flows.pipeline.run import Run
from almanac.index.upkeep.takedown import forgotten_urls
from almanac.schemas.crawl_outcome import CrawlOutcome
from almanac.schemas.declaration.source import RowSource, SiteSource, Source
from almanac.schemas.errors import Retriable, UsageError
from almanac.schemas.manifest import Manifest
from almanac.spiders.crawling.crawl import RunningCrawl, begin_crawl, require_pages
from almanac.spiders.crawling.previous_crawls import PreviousCrawls
from almanac.spiders.crawling.read_files import read_files
from almanac.spiders.crawling.reuse import pages_of, reusable_crawl
from almanac.spiders.rows.read_rows import read_rows

log = get_logger("almanac.acquire")
_WORTH_TRYING_S = 2.0


def acquire(
    run: Run,
    source: Source,
    live: Manifest | None,
    on_page: OnProgress = ignore,
    take: Callable[[Source], RunningCrawl | None] = lambda _: None,
) -> Pages:
    """Crawls a site, or reads files or rows: pages land in `data/raw` as they arrive, and the outcome in the run's
    staging folder, also where it is an error.

    `take` gives the crawl of the source if it runs already.
    Raises UsageError where a source that the run does not cover was never fetched, and what `require_pages` raises.
    """
    raw, previous = run.raw(source.name), previous_crawls(run, source.name)
    reused = _reused(run, source, live, previous)
    outcome = reused or _fetched(run, source, previous, on_page, take)
    outcome.counted = (
        "pages" if isinstance(source, SiteSource) else "rows" if isinstance(source, RowSource) else "files"
    )
    # Staged before anything is raised: the report of a run that ends here says what became of the source.
    write_file(_outcome_file(run, source), outcome.model_dump_json(), synced=False)
    if reused is not None:
        log.info(
            "no page is asked for; those of an earlier crawl are read",
            kb=run.kb,
            source=source.name,
            crawl=outcome.crawl,
        )
    else:
        if isinstance(source, SiteSource):
            _require_pages(run, source, outcome)
        _log_losses(run, outcome)
    fingerprint = raw.index(outcome.crawl).fingerprint
    not_fetched = sum(limit.known_urls_not_fetched for limit in outcome.limits_reached)
    return Pages(
        source.name,
        outcome.crawl,
        outcome.finish,
        outcome.pages,
        outcome.kept,
        fingerprint,
        outcome.unfollowed,
        not_fetched,
    )


def _require_pages(run: Run, source: SiteSource, outcome: CrawlOutcome) -> None:
    """As `require_pages`; what may pass is not worth another try once the time of the source is used up."""
    try:
        require_pages(source, outcome)
    except Retriable as error:
        error.is_final = _seconds_used(run, source) > source.limits.seconds - _WORTH_TRYING_S
        raise


def read_outcomes(run: Run, mapped: Iterable[MappedSource] = ()) -> list[CrawlOutcome]:
    """The outcomes of the sources that the run has come to, in the order of the declaration; of those in `mapped`, also
    what became of their texts.
    """
    paths = [_outcome_file(run, source) for source in run.declaration.sources]
    outcomes = [CrawlOutcome.model_validate_json(path.read_bytes()) for path in paths if path.is_file()]
    texts = {mapped_source.source: dict(mapped_source.texts) for mapped_source in mapped}
    return [outcome.model_copy(update=texts.get(outcome.source, {})) for outcome in outcomes]


def _outcome_file(run: Run, source: Source) -> Path:
    return run.staging / f"crawl-{source.name}.json"


def begin_fetching(run: Run, source: SiteSource, live: Manifest | None) -> RunningCrawl | None:
    """Begins the crawl of a site; None where pages of an earlier one are to be read. Raises what `acquire` raises
    before the first request.
    """
    previous = previous_crawls(run, source.name)
    return None if _reused(run, source, live, previous) else _begun(run, source, previous)


def _begun(run: Run, source: SiteSource, previous: PreviousCrawls) -> RunningCrawl:
    _log_taken_over(run, source, previous)
    previous, left = (
        previous.model_copy(update={"afresh": run.scope.full}),
        source.limits.seconds - round(_seconds_used(run, source)),
    )
    only, forgotten = run.scope.urls, forgotten_urls(run.index_dir)
    return begin_crawl(
        source, run.raw(source.name), run.run_id, previous=previous, only=only, forgotten=forgotten, seconds=left
    )


def _seconds_used(run: Run, source: SiteSource) -> float:
    """Since the first try of this run to crawl the source: `limits.seconds` holds for all tries together."""
    note, now = run.staging / f"begun-{source.name}", time.monotonic()
    if not note.exists():
        write_file(note, repr(now), synced=False)
    return now - float(note.read_text())


def _fetched(
    run: Run,
    source: Source,
    previous: PreviousCrawls,
    on_page: OnProgress,
    take: Callable[[Source], RunningCrawl | None],
) -> CrawlOutcome:
    if isinstance(source, SiteSource):
        with take(source) or _begun(run, source, previous) as crawl:
            return crawl.conclude(on_page)
    _log_taken_over(run, source, previous)
    previous, folder = previous.model_copy(update={"afresh": run.scope.full}), run.declaration.path.parent
    only, forgotten = run.scope.urls, forgotten_urls(run.index_dir)
    if isinstance(source, RowSource):
        raw = run.raw(source.name)
        return read_rows(source, folder, raw, run.run_id, previous=previous, forgotten=forgotten, on_page=on_page)
    return read_files(
        source,
        folder,
        run.raw(source.name),
        run.run_id,
        previous=previous,
        only=only,
        forgotten=forgotten,
        on_page=on_page,
    )


def _log_taken_over(run: Run, source: Source, previous: PreviousCrawls) -> None:
    if previous.interrupted:
        log.info(
            "pages of runs that were cut off are taken over", kb=run.kb, source=source.name, runs=previous.interrupted
        )


def _reused(run: Run, source: Source, live: Manifest | None, previous: PreviousCrawls) -> CrawlOutcome | None:
    """The pages of the last crawl, where the run does not cover the source, or where only later stages than fetching
    have changed.
    """
    raw = run.raw(source.name)
    if not run.scope.covers(source.name):
        crawl = crawl_as_live(run, source.name, live, previous.concluded)
        if crawl is None:
            hint = f"almanac run {run.declaration.handle} without --source fetches all sources"
            raise UsageError(
                f"source '{source.name}' was never fetched, and a version needs it",
                where=str(run.declaration.path),
                hint=hint,
            )
        return pages_of(source, raw, crawl)
    if run.scope.full or run.scope.sources or not only_later_stages_changed(run):
        return None
    crawl = reusable_crawl(source, raw, previous)
    return None if crawl is None else pages_of(source, raw, crawl)


def _log_losses(run: Run, outcome: CrawlOutcome) -> None:
    where = {"kb": run.kb, "source": outcome.source}
    for cut in outcome.limits_reached:
        not_fetched = {"known_urls_not_fetched": cut.known_urls_not_fetched, "folders": say_folders(cut.folders)}
        log.warning("crawl cut short", **where, limit=cut.limit, pages=outcome.pages.present, **not_fetched)
    if outcome.kept:
        # the others were not asked for, as with --url, or no link led to them
        tell = log.warning if outcome.pages.failed else log.info
        tell(
            "pages that this crawl did not get are kept as they were",
            **where,
            pages=outcome.kept,
            failed=outcome.pages.failed,
        )
    if outcome.nofollow:
        log.info("pages ask that their links are not followed", **where, pages=outcome.nofollow)
    for unknown_url in outcome.unknown_urls:
        shown = f"the page of {unknown_url.shows}" if unknown_url.shows else "a page"
        log.warning(
            f"the site answers a made-up URL with {shown}; those that show the same are gone",
            **where,
            url=unknown_url.url,
            gone=unknown_url.pages,
        )
    if outside := [failure for failure in outcome.failures if failure.reason == "outside_root"]:
        log.warning(
            "links lead out of the declared folder and are not read",
            **where,
            links=len(outside),
            first=outside[0].url,
            detail=outside[0].detail,
        )
    if outcome.not_fetched:
        log.info(
            "pages lead to files that are not fetched",
            **where,
            **{not_fetched.type: not_fetched.documents for not_fetched in outcome.not_fetched},
        )
    if outcome.beyond_depth:
        log.info("links lead beyond the declared depth", **where, links=outcome.beyond_depth)
    if outcome.unqueued:
        log.warning("far more links than limits.pages lets through", **where, not_queued=outcome.unqueued)
