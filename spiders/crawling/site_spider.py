"""The one spider: walks a declared site and stores what it finds; it maps nothing.

It keeps its own queue and gives Scrapy no more requests than the page limit leaves room for: so the limit
is exact, and every URL is either stored, counted with a reason, or still in the queue when a limit ends the crawl. None of these
are a redirect to a page that is stored already, and pages with the next numbers where a pagination has come to its end.
"""

import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import scrapy
from scrapy import signals
from scrapy.exceptions import CloseSpider, StopDownload
from scrapy.http import Response
from twisted.python.failure import Failure

from schemas.errors import StorageError
from schemas.items import Page
from schemas.reports import CrawlOutcome, FailedPage, PageCounts
from schemas.sources import SiteSource
from spiders.crawling.chain import Chain, marks_of
from spiders.crawling.earlier import EarlierPages
from spiders.crawling.frontier import Frontier, Waiting
from spiders.crawling.paging import numbered_next
from spiders.crawling.problems import REFUSED, header, problem_of, reason_of
from spiders.crawling.sitemaps import MAX_BYTES, MAX_NESTING, MAX_SITEMAPS, MAX_URLS, Sitemap, read_sitemap
from spiders.links import Link, Road
from spiders.raw import Entry, Journal
from spiders.reading.content import Content, is_text_type
from spiders.urls import is_on_domains

# How servers answer a number beyond the last page.
_NO_SUCH_NUMBER = frozenset({400, 404, 410, 416, 422})
# And how some do; it is a failure where a later number is a page.
_MAYBE_NO_SUCH_NUMBER = frozenset({403, 405, 406, 409, 500, 501})
_WORTH_STOPPING = 64 << 10  # bytes; a smaller body has arrived before a download could be stopped


@dataclass(frozen=True, slots=True)
class _Read:
    """What a page leads to. `chain` is the pagination that it belongs to, `adds` whether it holds what that did not have yet."""

    links: list[Link]
    chain: Chain | None
    canonical: str | None = None
    adds: bool = True
    problem: str = ""


class SiteSpider(scrapy.Spider):
    """Crawls one source. What `earlier` holds is read from disk, and stored in the journal as if it had just come."""

    name = "site"

    def __init__(self, source: SiteSource, journal: Journal, earlier: EarlierPages, progress: Callable[[int, int], None], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.source = source
        self.road = Road(source)
        self.earlier = earlier
        self.outcome = CrawlOutcome(source=source.name)
        self.fatal: StorageError | None = None
        self._journal = journal
        self._progress = progress
        self._counts = dict.fromkeys(PageCounts.model_fields, 0)
        self._frontier = Frontier(self.road)
        self._in_flight = 0
        self._deadline = time.monotonic() + source.limits.seconds

    @classmethod
    def from_crawler(cls, crawler: Any, *args: Any, **kwargs: Any) -> "SiteSpider":
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.stop_unwanted, signal=signals.headers_received)
        return spider

    async def start(self) -> AsyncIterator[Any]:
        """Scrapy's entry: the sitemaps and the start URLs."""
        for url in self.source.sitemaps:
            self._frontier.add_sitemap(url)
        for url in self.source.start_urls:
            self._frontier.add(Waiting(self.road.canonical(url)))
        for request in self._released():
            yield request

    def claim(self, url: str, way: list[str]) -> bool:
        """Whether a redirect's target is new; it is not when the page was met before, and then only the way to it is noted."""
        if self._frontier.claim(url, way):
            return True
        self._guarded(lambda: self._journal.alias(self.road.canonical(way[0]), self.road.canonical(url)))
        return False

    def refusal_of(self, url: str) -> str | None:
        """Why a redirect's target may not be fetched, or None."""
        try:
            canonical = self.road.canonical(url)
        except ValueError:
            return "error"
        if not is_on_domains(canonical, self.source.domains):
            return "off_site"
        return "denied" if self.road.is_denied(canonical) else None

    def stop_unwanted(self, headers: Any, body_length: int | None, request: scrapy.Request) -> None:
        """Ends the download of a large binary file as soon as its headers are known."""
        kind = (headers.get(b"Content-Type") or b"").decode("latin-1")
        is_page = not kind or is_text_type(kind) or b"Location" in headers or "waiting" not in request.cb_kwargs
        if not is_page and not 0 < (body_length or 0) < _WORTH_STOPPING:
            raise StopDownload

    def arrive(self, response: Response, waiting: Waiting) -> Iterator[scrapy.Request]:
        """A response, whatever its status: stored or counted, and its links queued."""
        problem = problem_of(response)
        if problem is None:
            self._take(response, waiting)
        elif not (self._is_guess(waiting) and response.status in _NO_SUCH_NUMBER):
            self._fail(waiting, *problem, status=response.status)
        self._frontier.done(waiting)
        yield from self._go_on()

    def arrive_sitemap(self, response: Response, sitemap: Waiting) -> Iterator[scrapy.Request]:
        """A sitemap: its pages and sitemaps are queued; it is no page itself."""
        try:
            if response.status != 200:
                raise ValueError(f"answered {response.status}")
            self._take_sitemap(read_sitemap(response.body, response.url, header(response, "Content-Type") or ""), sitemap)
        except ValueError as error:
            reason = "server_error" if response.status >= 500 else "error"
            self._fail_sitemap(sitemap.url, reason, str(error), status=response.status)
        yield from self._go_on()

    def fail(self, failure: Failure) -> Iterator[scrapy.Request]:
        """A request that came to nothing."""
        asked = failure.request.cb_kwargs  # type: ignore[attr-defined]  # Scrapy puts it there
        reason, detail, status = reason_of(failure.value)
        if "sitemap" in asked and reason is not None:
            self._fail_sitemap(asked["sitemap"].url, reason, detail, status=status)
        elif "waiting" in asked:
            if reason is not None:
                self._fail(asked["waiting"], reason, detail, status=status)
            self._frontier.done(asked["waiting"])
        yield from self._go_on()

    def finished(self, reason: str) -> CrawlOutcome:
        """What became of the crawl; `reason` is Scrapy's."""
        is_cut = not self._frontier.is_empty
        finish = "finished"
        if reason == "closespider_timeout" or (is_cut and time.monotonic() >= self._deadline):
            finish = "seconds"
        elif is_cut:
            finish = "bytes" if self._is_heavy else "pages"
        return self.outcome.model_copy(
            update={"finish": finish, "pages": PageCounts(**self._counts), "beyond_depth": self._frontier.beyond_depth, "unqueued": self._frontier.unqueued}
        )

    @property
    def _done(self) -> int:
        return self._counts["fetched"] + self._counts["unchanged"]

    @property
    def _is_heavy(self) -> bool:
        return self.source.limits.bytes is not None and self.outcome.bytes >= self.source.limits.bytes

    @property
    def _has_room(self) -> bool:
        """Whether the limits leave room for one more request, those in flight being pages yet to come."""
        return self._done + self._in_flight < self.source.limits.pages and not self._is_heavy and time.monotonic() < self._deadline

    def _go_on(self) -> Iterator[scrapy.Request]:
        self._in_flight -= 1
        yield from self._released()

    def _released(self) -> Iterator[scrapy.Request]:
        """Requests that the limits leave room for now."""
        while self._has_room:
            if (sitemap := self._frontier.take_sitemap()) is not None:
                request = scrapy.Request(sitemap.url, callback=self.arrive_sitemap, meta={"download_maxsize": MAX_BYTES}, cb_kwargs={"sitemap": sitemap})
            elif (waiting := self._frontier.take()) is not None:
                request = scrapy.Request(waiting.url, callback=self.arrive, cb_kwargs={"waiting": waiting})
            else:
                return
            self._in_flight += 1
            yield request.replace(errback=self.fail, dont_filter=True)

    def _is_guess(self, waiting: Waiting) -> bool:
        """Whether nobody said that there is such a page: its number was tried."""
        return waiting.chain is not None and self.source.pagination.is_guessed

    def _take(self, response: Response, waiting: Waiting) -> None:
        """Stores a page, counts it, and queues its links. A guessed page that adds nothing is none."""
        stored: Entry | None = response.meta.get("stored")
        page = stored.page(response.body) if stored else self._page(response, waiting)
        read = self._read(Content(page), waiting)
        if self._is_guess(waiting) and not read.adds:
            return
        if waiting.chain is not None:
            for failure in waiting.chain.doubtful:
                self._count(failure)
            waiting.chain.doubtful.clear()
        self._store(replace(page, canonical=read.canonical), stored, list(response.meta.get("redirect_urls", [])))
        if read.problem:
            self.outcome.failures.append(FailedPage(url=page.url, reason="error", status=page.status, detail=read.problem))
        self._counts["unchanged" if stored and stored.unchanged else "fetched"] += 1
        self.outcome.bytes += len(page.body)
        self._frontier.add_links(read.links, waiting, read.chain)
        self._progress(self._done, len(self._frontier) + self._in_flight - 1)

    def _read(self, content: Content, waiting: Waiting) -> "_Read":
        """Malformed markup may cost the links of a page, never the page."""
        try:
            canonical = self.road.stated_address(content)
            links = self.road.links(content, in_chain=waiting.chain is not None)
            if waiting.chain is None and not any(link.role == "next" for link in links):
                return _Read(links, None, canonical)
            chain = waiting.chain or Chain()
            adds = chain.adds(marks_of(content, self.road))
        except Exception as error:
            return _Read([], waiting.chain, problem=f"its links could not be read: {error!r}")
        goes_on = adds or (chain.may_go_on and not self.source.pagination.is_guessed)
        return _Read(links if goes_on else [link for link in links if link.role != "next"], chain, canonical, adds)

    def _store(self, page: Page, stored: Entry | None, redirects: list[str]) -> None:
        if stored is None:
            self._guarded(lambda: self._journal.add(page, redirects=redirects))
        elif not self.earlier.is_own(stored):
            self._guarded(lambda: self._journal.repeat(replace(stored, canonical=page.canonical)))

    def _guarded(self, write: Callable[[], None]) -> None:
        """A journal that cannot be written ends the crawl."""
        try:
            write()
        except StorageError as error:
            self.fatal = error
            raise CloseSpider("storage") from error

    def _take_sitemap(self, found: Sitemap, sitemap: Waiting) -> None:
        for url in self.road.sitemap_pages(found.pages):
            self._frontier.add(Waiting(url))
        for url in found.sitemaps:
            refusal = self.refusal_of(url)
            if refusal is not None:
                self._fail_sitemap(url, refusal, f"named by {sitemap.url}", status=None)
            elif not self._frontier.add_sitemap(url, sitemap.depth + 1):
                detail = f"named by {sitemap.url}: more than {MAX_SITEMAPS} sitemaps, or indexes nested deeper than {MAX_NESTING}"
                self._fail_sitemap(url, "error", detail, status=None)
        if found.left:
            self._fail_sitemap(sitemap.url, "too_large", f"it names more than {MAX_URLS} URLs; {found.left} were left", status=None)

    def _page(self, response: Response, waiting: Waiting) -> Page:
        return Page(
            url=self.road.canonical(response.url),
            body=response.body,
            status=response.status,
            content_type=header(response, "Content-Type") or "",
            fetched_at=datetime.now(UTC).isoformat(timespec="seconds"),
            requested_url=waiting.url,
            etag=header(response, "ETag"),
            last_modified=header(response, "Last-Modified"),
            canonical=self.road.linked_address(b", ".join(response.headers.getlist("Link")).decode("latin-1"), response.url),
        )

    def _fail(self, waiting: Waiting, reason: str, detail: str, *, status: int | None) -> None:
        failure = FailedPage(url=waiting.url, reason=reason, status=status, detail=detail)
        if not self._is_guess(waiting) or waiting.chain is None:
            self._count(failure)
            return
        if status in _MAYBE_NO_SUCH_NUMBER:
            waiting.chain.doubtful.append(failure)
        else:
            self._count(failure)
        if waiting.chain.may_pass_over():
            following = numbered_next(waiting.url, self.source.pagination)
            self._frontier.add_links([Link(following, "next")] if following else [], waiting, waiting.chain)

    def _count(self, failure: FailedPage) -> None:
        self._counts["gone" if failure.reason == "gone" else "refused" if failure.reason in REFUSED else "failed"] += 1
        self.outcome.failures.append(failure)

    def _fail_sitemap(self, url: str, reason: str, detail: str, *, status: int | None) -> None:
        """A sitemap that is gone is no page that is gone: what it named is out of reach."""
        self._counts["refused" if reason in REFUSED else "failed"] += 1
        self.outcome.failures.append(FailedPage(url=url, reason=reason, status=status, detail=f"sitemap: {detail}" if detail else "sitemap"))
