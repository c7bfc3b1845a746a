"""Reuses the last crawl without a single request, for when only later stages were declared anew and the site was
crawled recently.
"""

from almanac.schemas.crawl_outcome import CrawlOutcome, PageCounts
from almanac.schemas.declaration.source import SiteSource, Source
from almanac.spiders.crawling.fetching_fingerprint import fetching_of
from almanac.spiders.crawling.previous_crawls import PreviousCrawls, is_fresh
from almanac.spiders.crawling.requester_fingerprint import requester_fingerprint
from almanac.spiders.crawling.stats import read_stats
from almanac.spiders.selecting.withheld import WITHHELD
from almanac.spiders.store.raw import RawStore


def reusable_crawl(source: Source, raw: RawStore, previous: PreviousCrawls) -> str | None:
    """The run id of the last concluded crawl if a new one would request the same pages as the same requester; None if
    the site must be crawled.

    The crawl must be complete and less than a day old, every body intact, and no failed or interrupted crawl newer. No
    page or sitemap of it may have failed: that may be there by now, and would not be counted. Files are never reused:
    reading them costs no more than checking whether they changed.
    """
    crawl = previous.concluded
    if crawl is None or previous.failed or previous.interrupted or not isinstance(source, SiteSource):
        return None
    index, stats = raw.index(crawl), read_stats(raw, crawl)
    if (
        stats is None
        or stats.finish != "finished"
        or stats.pages.failed
        or stats.sitemaps_failed
        or index.damaged
        or not is_fresh(index.checked_at)
    ):
        return None
    if index.head.fetching != fetching_of(source) or index.requester != requester_fingerprint(source):
        return None
    return crawl if all(raw.body(entry.sha256) is not None for entry in index.in_order()) else None


def pages_of(source: Source, raw: RawStore, crawl: str) -> CrawlOutcome:
    """The outcome of reusing `crawl`: all of its pages, unchanged. What it did not follow counts if the source was
    declared then as it is now.
    """
    index, stats = raw.index(crawl), read_stats(raw, crawl)
    failures = [failure for failure in (stats.failures if stats is not None else ()) if failure.reason in WITHHELD]
    unfollowed = stats.unfollowed if stats is not None and index.head.fetching == fetching_of(source) else 0
    pages = PageCounts(unchanged=len(index.urls) - index.kept - len(failures), refused=len(failures))
    sizes = sum(entry.size for entry in index.in_order() if not entry.kept)
    not_fetched = stats.not_fetched if stats is not None and index.head.fetching == fetching_of(source) else []
    counts = {"kept": index.kept, "bytes": sizes, "unfollowed": unfollowed, "not_fetched": not_fetched}
    limits_reached = stats.limits_reached if stats is not None else []
    return CrawlOutcome(
        source=source.name,
        crawl=crawl,
        finish="reused",
        pages=pages,
        failures=failures,
        limits_reached=limits_reached,
        **counts,
    )
