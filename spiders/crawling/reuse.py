"""An earlier crawl's pages, read again without a request: for what is declared of the items has changed, and the site has just been asked."""

from almanac.schemas.declaration.source import SiteSource, Source
from almanac.schemas.reports import CrawlOutcome, PageCounts
from almanac.spiders.crawling.fetching_fingerprint import fetching_of
from almanac.spiders.crawling.previous_crawls import PreviousCrawls, is_fresh
from almanac.spiders.crawling.requester_fingerprint import requester_fingerprint
from almanac.spiders.crawling.stats import read_stats
from almanac.spiders.store.raw import RawStore


def reusable_crawl(source: Source, raw: RawStore, previous: PreviousCrawls) -> str | None:
    """The last crawl that counts, where a new one would ask the same, as the same, within a day; None where it has to be asked.

    It must have been complete, every body must be whole, and no run may have seen anything newer. Files are always read: that costs no more than
    finding out whether they changed.
    """
    crawl = previous.concluded
    if crawl is None or previous.failed or previous.interrupted or not isinstance(source, SiteSource):
        return None
    index, stats = raw.index(crawl), read_stats(raw, crawl)
    if stats is None or stats.finish != "finished" or index.damaged or not is_fresh(index.checked_at):
        return None
    if index.head.fetching != fetching_of(source) or index.requester != requester_fingerprint(source):
        return None
    return crawl if all(raw.body(entry.sha256) is not None for entry in index.in_order()) else None


def pages_of(source: Source, raw: RawStore, crawl: str) -> CrawlOutcome:
    """The outcome of asking for nothing: the pages of `crawl` are there, unchanged."""
    index = raw.index(crawl)
    pages = PageCounts(unchanged=len(index.urls) - index.kept)
    sizes = sum(entry.size for entry in index.in_order() if not entry.kept)
    return CrawlOutcome(source=source.name, crawl=crawl, finish="reused", pages=pages, kept=index.kept, bytes=sizes)
