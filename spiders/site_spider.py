"""The one spider: walks a declared site and stores what it finds; it maps nothing.

It keeps its own queue, breadth first, and gives Scrapy no more requests than the page limit leaves room for: so the limit
is exact, and every URL is either stored, counted with a reason, or still in the queue when a limit ends the crawl. Only a
redirect to a page that is stored already is none of these.
"""

import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import scrapy
from scrapy import signals
from scrapy.exceptions import (
    CannotResolveHostError,
    CloseSpider,
    DownloadCancelledError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    IgnoreRequest,
    ResponseDataLossError,
    StopDownload,
)
from scrapy.http import Response
from twisted.internet.error import ConnectError, ConnectionDone, ConnectionLost
from twisted.python.failure import Failure

from schemas.errors import StorageError
from schemas.items import Page
from schemas.reports import CrawlOutcome, FailedPage, PageCounts
from schemas.sources import SiteSource
from spiders.content import Content, is_text_type, looks_like_text
from spiders.links import Road
from spiders.middlewares import Refusal
from spiders.raw import Journal
from spiders.urls import is_on_domains

_UNREACHABLE = (
    CannotResolveHostError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    ResponseDataLossError,
    ConnectError,
    ConnectionDone,
    ConnectionLost,
)
_REFUSED = frozenset({"refused_by_robots", "too_large", "not_text", "off_site", "denied"})
_WORTH_STOPPING = 64 << 10  # bytes; a smaller body has arrived before a download could be stopped


@dataclass(frozen=True, slots=True)
class Waiting:
    """A URL in the queue. `listing` is known where pagination led to it from a listing."""

    url: str
    depth: int
    listing: bool | None = None


class SiteSpider(scrapy.Spider):
    """Crawls one source. `arrived` are pages that an earlier, killed attempt stored: they are read again, not fetched again."""

    name = "site"

    def __init__(self, source: SiteSource, journal: Journal, arrived: list[Page], progress: Callable[[int, int], None], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.source = source
        self.road = Road(source)
        self.outcome = CrawlOutcome(source=source.name)
        self.fatal: StorageError | None = None
        self._journal = journal
        self._progress = progress
        self._counts = dict.fromkeys(PageCounts.model_fields, 0)
        self._queue: deque[Waiting] = deque()
        self._seen: set[str] = set()
        self._in_flight = 0
        self._deadline = time.monotonic() + source.limits.seconds
        self._arrived = {url: page for page in arrived for url in (page.url, self.road.canonical(page.requested_url or page.url))}

    @classmethod
    def from_crawler(cls, crawler: Any, *args: Any, **kwargs: Any) -> "SiteSpider":
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.stop_unwanted, signal=signals.headers_received)
        return spider

    async def start(self) -> AsyncIterator[Any]:
        """Scrapy's entry: the start URLs, and what follows from pages that had arrived."""
        for url in self.source.start_urls:
            self._enqueue(Waiting(self.road.canonical(url), 0))
        for request in self._released():
            yield request

    def claim(self, url: str, way: list[str]) -> bool:
        """Whether a redirect's target is new. A hop that only differs in how it is written is the same page, on its way."""
        canonical = self.road.canonical(url)
        if canonical in {self.road.canonical(hop) for hop in way}:
            return True
        is_new = canonical not in self._seen
        self._seen.add(canonical)
        return is_new

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
        is_page = not kind or is_text_type(kind) or b"Location" in headers or request.meta.get("dont_obey_robotstxt")
        if not is_page and not 0 < (body_length or 0) < _WORTH_STOPPING:
            raise StopDownload

    def arrive(self, response: Response, waiting: Waiting) -> Iterator[scrapy.Request]:
        """A response, whatever its status: stored or counted, and its links queued."""
        self._in_flight -= 1
        problem = _problem_of(response)
        if problem is not None:
            self._fail(waiting.url, *problem, status=response.status)
        else:
            page = self._page(response, waiting)
            try:
                self._journal.add(page, redirects=list(response.meta.get("redirect_urls", [])))
            except StorageError as error:
                self.fatal = error
                raise CloseSpider("storage") from error
            self._keep(page, waiting)
        yield from self._released()

    def fail(self, failure: Failure) -> Iterator[scrapy.Request]:
        """A request that came to nothing."""
        self._in_flight -= 1
        waiting: Waiting = failure.request.cb_kwargs["waiting"]  # type: ignore[attr-defined]  # Scrapy puts it there
        reason, detail, status = _reason_of(failure.value)
        if reason is not None:
            self._fail(waiting.url, reason, detail, status=status)
        yield from self._released()

    def finished(self, reason: str) -> CrawlOutcome:
        """What became of the crawl; `reason` is Scrapy's."""
        finish = "seconds" if reason == "closespider_timeout" or (self._queue and time.monotonic() >= self._deadline) else "finished"
        finish = "pages" if finish == "finished" and self._queue else finish
        return self.outcome.model_copy(update={"finish": finish, "pages": PageCounts(**self._counts)})

    def _released(self) -> Iterator[scrapy.Request]:
        """Requests that the limits leave room for now."""
        while self._queue and self._counts["fetched"] + self._in_flight < self.source.limits.pages and time.monotonic() < self._deadline:
            waiting = self._queue.popleft()
            page = self._arrived.get(waiting.url)
            if page is not None:
                self._seen.add(page.url)
                self._keep(page, waiting)
                continue
            self._in_flight += 1
            yield scrapy.Request(waiting.url, callback=self.arrive, errback=self.fail, cb_kwargs={"waiting": waiting}, dont_filter=True)

    def _keep(self, page: Page, waiting: Waiting) -> None:
        """Counts a stored page and queues its links."""
        self._counts["fetched"] += 1
        self.outcome.bytes += len(page.body)
        try:
            self._queue_links(page, waiting)
        except Exception as error:  # the page is stored and counted; malformed markup may cost its links, never the page
            self.outcome.failures.append(FailedPage(url=page.url, reason="error", status=page.status, detail=f"its links could not be read: {error!r}"))
        self._progress(self._counts["fetched"], len(self._queue) + self._in_flight)

    def _queue_links(self, page: Page, waiting: Waiting) -> None:
        if waiting.depth >= self.source.limits.depth:
            return
        is_listing = waiting.listing or self.road.is_listing(page.url)
        for link in self.road.links(Content(page), listing=is_listing):
            self._enqueue(Waiting(link.url, waiting.depth + 1, True if link.role == "next" and is_listing else None))

    def _enqueue(self, waiting: Waiting) -> None:
        if waiting.url not in self._seen:
            self._seen.add(waiting.url)
            self._queue.append(waiting)

    def _page(self, response: Response, waiting: Waiting) -> Page:
        return Page(
            url=self.road.canonical(response.url),
            body=response.body,
            status=response.status,
            content_type=_header(response, "Content-Type") or "",
            fetched_at=datetime.now(UTC).isoformat(timespec="seconds"),
            requested_url=waiting.url,
            etag=_header(response, "ETag"),
            last_modified=_header(response, "Last-Modified"),
        )

    def _fail(self, url: str, reason: str, detail: str, *, status: int | None) -> None:
        self._counts["gone" if reason == "gone" else "refused" if reason in _REFUSED else "failed"] += 1
        self.outcome.failures.append(FailedPage(url=url, reason=reason, status=status, detail=detail))


def _header(response: Response, name: str) -> str | None:
    value = response.headers.get(name)
    return None if value is None else value.decode("latin-1")


def _problem_of(response: Response) -> tuple[str, str] | None:
    """Reason and detail why a response is no page, or None where it is one."""
    if response.status in (404, 410):
        return "gone", ""
    if response.status >= 500 or response.status in (408, 429):
        return "server_error", ""
    if response.status != 200:
        return "error", f"answered {response.status}"
    kind = _header(response, "Content-Type")
    is_text = is_text_type(kind) if kind else looks_like_text(response.body)
    return None if is_text else ("not_text", kind or "binary")


def _reason_of(error: BaseException | None) -> tuple[str | None, str, int | None]:
    """Reason, detail and status of a failed request; no reason where there is nothing to report."""
    detail = str(error)[:300] or type(error).__name__
    match error:
        case Refusal():
            return error.reason, error.detail, error.status
        case StopDownload() if error.response is not None:
            reason, detail = _problem_of(error.response) or ("error", detail)
            return reason, detail, error.response.status
        case DownloadTimeoutError():
            return "timeout", detail, None
        case DownloadCancelledError():
            return "too_large", detail, None
        case IgnoreRequest() if "during decompression" in detail:
            return "too_large", detail, None
        case IgnoreRequest() if "robots.txt" in detail:
            return "refused_by_robots", "", None
        case _ if isinstance(error, _UNREACHABLE):
            return "unreachable", detail, None
        case _:
            return "error", detail, None
