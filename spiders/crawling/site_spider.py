"""The Scrapy spider of all site sources: crawls a declared site and stores its pages; it maps nothing.

It has its own queue and gives Scrapy no more requests than the page limit leaves room for. So the limit is exact, and
every URL is either stored, counted with a reason, or still in the queue when a limit ends the crawl. Two kinds of URL
are none of these: redirects to a page that is stored by itself, and guessed page numbers beyond the end of a
pagination.
"""

import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import scrapy
from scrapy import signals
from scrapy.exceptions import CloseSpider, StopDownload
from scrapy.http import Response
from twisted.python.failure import Failure

from almanac.core.clock import utc_now
from almanac.core.url_folders import by_folder
from almanac.schemas.crawl_outcome import FOLDERS_REPORTED, LIMITS, FailedPage, LimitReached, PageCounts
from almanac.schemas.declaration.source import SiteSource
from almanac.schemas.errors import StorageError
from almanac.schemas.items import Page
from almanac.spiders.crawling.chain import Chain, marks_of
from almanac.spiders.crawling.fallback_pages import FallbackPages
from almanac.spiders.crawling.frontier import Frontier, Waiting
from almanac.spiders.crawling.previous_crawls import PreviousPages
from almanac.spiders.crawling.problems import (
    ARRIVED,
    content_type_of,
    document_of,
    file_name,
    header,
    problem_of,
    reason_of,
    robots_header,
)
from almanac.spiders.crawling.refusal import Refusal
from almanac.spiders.crawling.seen_redirects import Led, SeenRedirects
from almanac.spiders.crawling.sitemap_queue import SitemapQueue
from almanac.spiders.crawling.sitemaps import MAX_BYTES
from almanac.spiders.crawling.stats import REFUSED, CrawlStats
from almanac.spiders.crawling.unknown_urls import UnknownUrls
from almanac.spiders.reading.content import Content, is_text_type
from almanac.spiders.reading.linked_types import SNIFFED, may_be_document, says_nothing, sent_name, type_of_headers
from almanac.spiders.selecting.documents import LinkTexts, not_fetched_by_type
from almanac.spiders.selecting.json_bodies import (
    begins_as_json,
    error_in,
    problem_of_json,
    reads_json,
    turned_from_json,
)
from almanac.spiders.selecting.links import Link, UrlPolicy
from almanac.spiders.selecting.pagination import numbered_next
from almanac.spiders.selecting.withheld import rules_for, withheld
from almanac.spiders.store.journal import Entry
from almanac.spiders.store.raw import Journal

# Statuses with which servers answer a number beyond the last page.
_NO_SUCH_NUMBER = frozenset({400, 404, 410, 416, 422})
# Statuses with which some do; counted as failures if a later number is a page.
_MAYBE_NO_SUCH_NUMBER = frozenset({403, 405, 406, 409, 500, 501})
# Reasons for which the page is gone for good, and its links with it: no fallback page is used.
_FINAL = frozenset({"gone", "forgotten"})
_WORTH_STOPPING = 64 << 10  # bytes; a smaller body arrives before its download can be stopped


@dataclass(frozen=True, slots=True)
class _Read:
    """What a page leads to.

    Attributes:
        chain: the pagination that the page belongs to; None if none.
        canonical: the canonical URL that the page declares.
        adds: whether the page has anything new to its pagination.
        noindex: as in `Page`.
        nofollow: whether its plain links are left because it asks for that.
        problem: why its links could not be read; empty if they could.
        unfollowed: of a start page, the keys of pages that it links to and the policy does not lead on to.
        left_out: key → type of the documents that it links to and that are not fetched.
        link_texts: keys of the URLs that it links to, with the links' texts; only where documents are fetched.
    """

    links: list[Link]
    chain: Chain | None
    canonical: str | None = None
    adds: bool = True
    noindex: str = ""
    nofollow: bool = False
    problem: str = ""
    unfollowed: set[str] = field(default_factory=set)
    left_out: dict[str, str] = field(default_factory=dict)
    link_texts: list[tuple[str, str]] = field(default_factory=list)


class SiteSpider(scrapy.Spider):
    """Crawls one source. Pages that `previous` has from interrupted crawls are read from disk and journalled as if they
    had just arrived.
    """

    name = "site"

    def __init__(
        self,
        source: SiteSource,
        journal: Journal,
        previous: PreviousPages,
        progress: Callable[[int, int], None],
        only: Collection[str] = (),
        forgotten: Collection[str] = (),
        shown_for_unknown: Mapping[str, str] = MappingProxyType({}),
        spares_starts: bool = True,
        **kwargs: Any,
    ) -> None:
        """`progress(done, queued)` is called after each page. With `only`, just these URLs are fetched; `forgotten`
        ones are never requested.

        `shown_for_unknown` is that of the last crawl's stats; `spares_starts` is as in `Job`.
        """
        super().__init__(**kwargs)
        self.source = source
        self.policy = UrlPolicy(source)
        self.previous = previous
        self.stats = CrawlStats(source=source.name)
        self.fatal: StorageError | None = None
        self._journal = journal
        self._progress = progress
        self._counts = dict.fromkeys(PageCounts.model_fields, 0)
        self._frontier = Frontier(self.policy)
        self._link_texts = LinkTexts()
        self._has_unseen = False  # a page that failed, and of which there is no copy
        self._fallback_pages = FallbackPages(self.policy, previous, self._frontier, self._link_texts)
        self._sitemaps = SitemapQueue(self.policy, self._frontier, self.stats, self._count, self.refusal_of)
        self._seen_redirects = SeenRedirects(source)
        self._not_arrived: dict[str, FailedPage] = {}  # by key, also of the addresses that redirects led to
        self._past_the_end: list[str] = []  # guessed numbers that gave no JSON
        self._unknown = UnknownUrls(self.policy, shown_for_unknown, spares_starts=spares_starts)
        self._only = only
        self._forgotten = {self._key(url) for url in forgotten}
        self._unfollowed: set[str] = set()
        self._in_flight = 0
        self._withheld = 0  # pages that arrived and yield no item
        self._deadline = time.monotonic() + source.limits.seconds

    @classmethod
    def from_crawler(cls, crawler: Any, *args: Any, **kwargs: Any) -> "SiteSpider":
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.stop_unwanted, signal=signals.headers_received)
        crawler.signals.connect(spider.stop_untold, signal=signals.bytes_received)
        return spider

    async def start(self) -> AsyncIterator[Any]:
        """Yields the first requests (Scrapy's entry point): for sitemaps and start URLs, or for `only`."""
        for url in () if self._only else self.source.sitemaps:
            self._frontier.add_sitemap(url)
        for url in self._only or self.source.start_urls:
            self._frontier.add(Waiting(self.policy.canonical(url)))
        for request in self._released():
            yield request

    def claim(self, url: str, way: list[str]) -> bool:
        """Whether a redirect's target is new. If the page was found before, the redirecting URL is journalled as its
        alias.
        """
        if self._frontier.claim(url, way):
            return True
        for hop in way:
            self._link_texts.leads(self._key(hop), self._key(url))
        self._guarded(lambda: self._journal.alias(self.policy.canonical(way[0]), self.policy.canonical(url)))
        return False

    def refusal_of(self, url: str) -> str | None:
        """The reason why a URL may not be fetched; None if it may."""
        try:
            canonical = self.policy.canonical(url)
        except ValueError:
            return "error"
        if not self.policy.is_on_site(canonical):
            return "off_site"
        if self._key(canonical) in self._forgotten:
            return "forgotten"
        return "denied" if self.policy.is_denied(canonical) else None

    def stop_unwanted(self, headers: Any, body_length: Any, request: scrapy.Request) -> None:
        """Ends the download of a large file as soon as its headers have arrived, unless it is a page or a document that
        is fetched.

        `body_length` is Twisted's constant, a text, where the server names none.
        """
        request.meta.pop("beginning", None)  # of an earlier attempt
        kind = (headers.get(b"Content-Type") or b"").decode("latin-1")
        is_page = (
            not kind
            or is_text_type(kind)
            or b"Location" in headers
            or not {"waiting", "made_up"} & request.cb_kwargs.keys()
        )
        if is_page or (isinstance(body_length, int) and 0 < body_length < _WORTH_STOPPING):
            return
        told = type_of_headers(kind, sent_name(headers.get(b"Content-Disposition") or b""), request.url)
        if "waiting" in request.cb_kwargs and told in self.source.documents:
            return
        is_untold = "waiting" in request.cb_kwargs and told is None and says_nothing(kind)
        is_packed = b"Content-Encoding" in headers  # and its first bytes say nothing, either
        if not is_untold or (is_packed and not self.source.documents):
            raise StopDownload
        if not is_packed:
            request.meta["beginning"] = b""

    def stop_untold(self, data: bytes, request: scrapy.Request) -> None:
        """Ends the download of a file of which the headers say nothing, once its beginning shows that it is no document
        that is fetched.
        """
        if "beginning" not in request.meta:
            return
        beginning = request.meta["beginning"] = request.meta["beginning"] + data[:SNIFFED]
        if len(beginning) >= SNIFFED:
            del request.meta["beginning"]
            if not self.source.documents or not may_be_document(beginning):
                raise StopDownload

    def arrive(self, response: Response, waiting: Waiting) -> Iterator[scrapy.Request]:
        """Handles the response to a page request, whatever its status: stores or counts it and queues its links.

        The page may have to wait until its host has answered a made-up URL.
        """
        asking = self._unknown.ask_before(response, waiting) if self._problem_of(response) is None else None
        if asking is None:
            yield from self._arrived(response, waiting)
            return
        for request in asking:
            self._in_flight += 1
            yield request.replace(callback=self.arrive_made_up, errback=self.fail, dont_filter=True)

    def arrive_made_up(self, response: Response | None, made_up: str) -> Iterator[scrapy.Request]:
        """Handles what a host answers to a made-up URL, or that it does not, and then the pages that waited for it."""
        for page, waiting in self._unknown.take(made_up, response):
            yield from self.arrive(page, waiting)  # its place may have to be asked, too
        yield from self._go_on()

    def _arrived(self, response: Response, waiting: Waiting) -> Iterator[scrapy.Request]:
        if self._problem_of(response) is None and self._unknown.waits(response, waiting):
            yield from self._decided()
        else:
            yield from self._handled(response, waiting)

    def _decided(self) -> Iterator[scrapy.Request]:
        """Handles the pages that wait until it is decided what they are: when enough of them do, or nothing else is
        under way.
        """
        for response, waiting in self._unknown.decided(at_once=self._in_flight == self._unknown.doubtful):
            yield from self._handled(response, waiting)

    def _handled(self, response: Response, waiting: Waiting) -> Iterator[scrapy.Request]:
        problem = self._problem_of(response) or self._unknown.problem_of(response, waiting)
        if problem is None:
            self._take(response, waiting)
        elif self._is_guess(waiting) and (
            response.status in _NO_SUCH_NUMBER or (response.status in ARRIVED and problem[0] == "gone")
        ):
            self.stats.ended.append(waiting.url)
        else:
            self._leave_out(response, waiting)
            self._fail(waiting, *problem, status=response.status, request=response.request)
        self._frontier.done(waiting)
        yield from self._go_on()

    def arrive_sitemap(self, response: Response, sitemap: Waiting) -> Iterator[scrapy.Request]:
        """Handles the response to a sitemap request: queues its pages and sitemaps; it is not stored."""
        self._sitemaps.take(response, sitemap)
        yield from self._go_on()

    def fail(self, failure: Failure) -> Iterator[scrapy.Request]:
        """Handles a failed request."""
        request: scrapy.Request = failure.request  # type: ignore[attr-defined]  # Scrapy puts it there
        asked = request.cb_kwargs
        reason, detail, status = (
            reason_of(failure.value, "the limit of sitemaps")
            if "sitemap" in asked
            else reason_of(failure.value, gone=self.source.gone)
        )
        if "sitemap" in asked and reason is not None:
            self._sitemaps.fail(asked["sitemap"].url, reason, detail, status=status)
        elif "made_up" in asked:
            yield from self.arrive_made_up(None, asked["made_up"])
            return
        elif "waiting" in asked:
            if isinstance(failure.value, StopDownload):
                self._leave_out(failure.value.response, asked["waiting"])
            if reason is not None:
                self._fail(asked["waiting"], reason, detail, status=status, request=request)
            elif isinstance(failure.value, Refusal) and failure.value.seen:
                self._leave_to(failure.value.seen, asked["waiting"], request)
            else:  # no time was left for it: it stays under way
                yield from self._go_on()
                return
            self._frontier.done(asked["waiting"])
        yield from self._go_on()

    def _leave_to(self, seen: str, waiting: Waiting, request: scrapy.Request) -> None:
        """Notes a page whose redirect leads to one that another request is for."""
        way = [waiting.url, *self._landed(waiting, request)]
        self._seen_redirects.note(Led(waiting, request, seen), [self._key(url) for url in way], self._key(seen))

    def _settle_redirects(self) -> None:
        """Counts as failed what redirects led to, and nothing came of: pages that wait for each other, or for one that
        failed.
        """
        for led, why in self._seen_redirects.settle(self._not_arrived):
            self._fail(led.waiting, why.reason or "error", why.detail, status=why.status, request=led.request)

    def finished(self, reason: str) -> CrawlStats:
        """The stats of the finished crawl; `reason` is Scrapy's finish reason."""
        is_cut = not self._frontier.is_done
        finish = "partial" if self._only else "finished"
        if reason == "closespider_timeout" or (is_cut and time.monotonic() >= self._deadline):
            finish = "seconds"
        elif is_cut:
            finish = "bytes" if self._is_heavy else "pages"
        counted = {failure.url for failure in self.stats.failures}
        beyond_depth = self._frontier.beyond_depth
        found = {
            "limits_reached": [*self._cut_by(finish), *self._cut_by("depth", beyond_depth)],
            "ended": self.stats.ended
            + [url for url in self._past_the_end if finish == "finished" and url not in counted],
            "beyond_depth": len(beyond_depth),
            "unfollowed": self._frontier.not_queued(self._unfollowed - self._forgotten),
            "unqueued": self._frontier.unqueued,
            "not_fetched": not_fetched_by_type(self.source, self._frontier.left_out),
            "unknown_urls": self._unknown.reports,
            "shown_for_unknown": self._unknown.shown,
            "fallbacks_used": self._fallback_pages.fallbacks_used,
        }
        return self.stats.model_copy(update={"finish": finish, "pages": PageCounts(**self._counts), **found})

    def _cut_by(self, limit: str, urls: Collection[str] | None = None) -> list[LimitReached]:
        """What the crawl did not fetch for a limit: `urls`, by default what it did not come to; nothing if it was not
        cut.
        """
        if limit not in LIMITS:
            return []
        if urls is None:
            known = (self.policy.canonical(url) for url in self.previous.urls())
            urls = self._frontier.not_answered(url for url in known if self.refusal_of(url) is None)
        told = {"known_urls_not_fetched": len(urls), "folders": by_folder(urls, FOLDERS_REPORTED)}
        return [LimitReached(source=self.source.name, limit=limit, **told)] if urls else []

    def name_documents(self) -> None:
        """Writes into the journal what links call the documents that arrived, once all pages are read. Where pages were
        not seen, links may still be there.
        """
        if self._only:  # no link was seen
            return
        has_unseen = self._has_unseen or not self._frontier.is_empty or time.monotonic() >= self._deadline
        with suppress(CloseSpider):
            for url, text in self._link_texts.names().items():
                called = text or (self.previous.link_text(url) if has_unseen else "")
                self._guarded(partial(self._journal.name, url, called))

    def _problem_of(self, response: Response) -> tuple[str, str] | None:
        return problem_of(response, self.source.documents, self.source.gone)

    def _leave_out(self, response: Response | None, waiting: Waiting) -> None:
        """Counts a document of a type that is not fetched, where only the answer told the type."""
        kind = document_of(response) if response is not None and response.status in ARRIVED else None
        if kind is not None and kind not in self.source.documents:
            self._frontier.leave_out({self._key(waiting.url): kind}, asked=True)

    @property
    def _done(self) -> int:
        return self._counts["fetched"] + self._counts["unchanged"] + self._withheld

    @property
    def _is_heavy(self) -> bool:
        return self.source.limits.bytes is not None and self.stats.bytes >= self.source.limits.bytes

    @property
    def _has_room(self) -> bool:
        """Whether the limits allow one more request, counting those in flight as pages."""
        return (
            self._done + self._in_flight < self.source.limits.pages
            and not self._is_heavy
            and time.monotonic() < self._deadline
        )

    def _go_on(self) -> Iterator[scrapy.Request]:
        self._in_flight -= 1
        if not self._in_flight and self._frontier.is_empty:
            self._settle_redirects()
            self._fallback_pages.probe()
        yield from self._released()
        if self._in_flight and self._in_flight == self._unknown.doubtful:  # all that is under way waits
            yield from self._decided()

    def _released(self) -> Iterator[scrapy.Request]:
        """Requests that the limits allow now."""
        while self._has_room:
            if (sitemap := self._frontier.take_sitemap()) is not None:
                request = scrapy.Request(
                    sitemap.url,
                    callback=self.arrive_sitemap,
                    meta={"download_maxsize": MAX_BYTES},
                    cb_kwargs={"sitemap": sitemap},
                )
            elif (waiting := self._frontier.take()) is not None:
                if self._key(waiting.url) in self._forgotten:
                    self._fail(waiting, "forgotten", "it was taken down", status=None, request=None)
                    self._frontier.done(waiting)
                    continue
                request = scrapy.Request(waiting.url, callback=self.arrive, cb_kwargs={"waiting": waiting})
            else:
                return
            self._in_flight += 1
            yield request.replace(errback=self.fail, dont_filter=True)

    def _is_guess(self, waiting: Waiting) -> bool:
        """Whether the URL was made by counting up a page number, without a link to it."""
        return waiting.chain is not None and self.source.pagination.is_guessed

    def _take(self, response: Response, waiting: Waiting) -> None:
        """Stores a page, counts it, and queues its links. A guessed page that adds nothing ends its pagination and is
        not stored.
        """
        stored: Entry | None = response.meta.get("stored")
        page = stored.page(response.body) if stored else self._page(response, waiting)
        content = Content(page)
        if (unreadable := self._why_unreadable(content, waiting)) is not None:
            is_cut = begins_as_json(content) and problem_of_json(content) is not None
            if is_cut:
                self._count_doubtful(waiting)
            self._fail(
                waiting,
                "not_json",
                unreadable,
                status=page.status,
                request=response.request,
                may_be_past_the_end=not is_cut,
            )
            return
        if self.policy.is_start(waiting.url):
            self._unknown.note_start(content)
        read = self._read(content, waiting)
        if not response.meta.get("from_disk"):
            self._fallback_pages.site_is_alive()
        if self._is_guess(waiting) and not read.adds:
            self.stats.ended.append(waiting.url)
            return
        if read.canonical is not None and self._key(read.canonical) in self._forgotten:
            self._fail(
                waiting,
                "forgotten",
                f"it calls {read.canonical} its right address",
                status=page.status,
                request=response.request,
            )
            return
        self._count_doubtful(waiting)
        content.page = page = replace(page, canonical=read.canonical, noindex=read.noindex)
        redirects = stored.redirects if stored else list(response.meta.get("redirect_urls", []))
        self._store(page, stored, redirects, waiting.card)
        if read.problem:
            self.stats.failures.append(
                FailedPage(url=page.url, reason="error", status=page.status, detail=read.problem)
            )
        why = (
            withheld(content, self.source)
            if self.policy.yields_items(page.url, in_chain=waiting.chain is not None)
            else None
        )
        if why is not None:
            self._withheld += 1
            self._count(FailedPage(url=page.url, reason=why[0], status=page.status, detail=why[1]))
        else:
            self._counts["unchanged" if stored and stored.unchanged else "fetched"] += 1
        self.stats.nofollow += read.nofollow
        self.stats.bytes += len(page.body)
        if content.is_document:
            for way in (waiting.url, *redirects, page.url):
                self._link_texts.arrived(self._key(way), page.url)
        if not self._only:
            self._frontier.add_links(read.links, waiting, read.chain, page)
            self._frontier.leave_out(read.left_out)
            self._link_texts.note(read.link_texts)
            self._unfollowed |= read.unfollowed
        self._progress(self._done, len(self._frontier) + self._in_flight - 1)

    def _why_unreadable(self, content: Content, waiting: Waiting) -> str | None:
        """Why a page of which JSON is read is none: one that says it is JSON, or was when it was last stored, or tells
        an error.

        Its items and what it leads to are unknown.
        """
        in_chain, urls = waiting.chain is not None, (waiting.url, content.url)
        is_listing = (
            in_chain
            or any(map(self.policy.is_listing, urls))
            or (self.source.listing is None and self.policy.is_start(waiting.url))
        )
        is_item = any(self.policy.yields_items(url, in_chain=in_chain) for url in urls)
        is_past_the_end = self._is_guess(waiting) and not content.page.body.strip()
        if is_past_the_end or not reads_json(self.source, as_listing=is_listing, as_item=is_item):
            return None
        if (why := problem_of_json(content)) is None:
            return error_in(content, self.source, as_listing=is_listing, as_item=is_item)
        if content.form == "json":
            return why
        stored = self.previous.fallback_page(urls)
        return why if stored is not None and turned_from_json(content, Content(stored)) else None

    def _read(self, content: Content, waiting: Waiting) -> "_Read":
        """The links and the canonical URL of a page. Malformed markup may cost the links of a page, never the page
        itself.
        """
        try:
            canonical = self.policy.stated_address(content)
            noindex, nofollow = rules_for(content, self.source).noindex, self.policy.asks_nofollow(content)
            links = self.policy.links(content, in_chain=waiting.chain is not None)
            if content.is_document:
                return _Read(links, waiting.chain, canonical, True, noindex, nofollow)
            unfollowed = self.policy.unfollowed(content) if self._leads_on(waiting) else set()
            left_out = self.policy.documents_left_out(content)
            texts = [*self.policy.link_texts(content)] if self.source.documents else []
            if waiting.chain is None and not any(link.role == "next" for link in links):
                return _Read(
                    links,
                    None,
                    canonical,
                    True,
                    noindex,
                    nofollow,
                    unfollowed=unfollowed,
                    left_out=left_out,
                    link_texts=texts,
                )
            chain = waiting.chain or Chain()
            adds = chain.adds(marks_of(content, self.policy))
        except Exception as error:
            return _Read([], waiting.chain, problem=f"its links could not be read: {error!r}")
        goes_on = adds or (chain.may_go_on and not self.source.pagination.is_guessed)
        links = links if goes_on else [link for link in links if link.role != "next"]
        return _Read(
            links, chain, canonical, adds, noindex, nofollow, unfollowed=unfollowed, left_out=left_out, link_texts=texts
        )

    def _leads_on(self, waiting: Waiting) -> bool:
        """Whether the URL is a start URL whose links the declared depth lets through."""
        return waiting.depth < self.source.limits.depth and self.policy.is_start(waiting.url)

    def _store(self, page: Page, stored: Entry | None, redirects: list[str], card: list[str]) -> None:
        if stored is None:
            self._guarded(lambda: self._journal.add(page, redirects=redirects, card=card))
        elif not self.previous.is_own(stored):
            link_text = stored.link_text if self._only else ""  # `name_documents` says it anew
            again = replace(
                stored, canonical=page.canonical, noindex=page.noindex, link_text=link_text, card=card or stored.card
            )
            self._guarded(lambda: self._journal.repeat(again))

    def _guarded(self, write: Callable[[], None]) -> None:
        """Runs a write to the journal; a StorageError ends the crawl."""
        try:
            write()
        except StorageError as error:
            self.fatal = error
            raise CloseSpider("storage") from error

    def _page(self, response: Response, waiting: Waiting) -> Page:
        url = self.policy.canonical(response.url)
        return Page(
            url=url,
            body=response.body,
            status=response.status,
            content_type=content_type_of(response, self.source.documents) or "",
            fetched_at=utc_now(),
            requested_url=waiting.url,
            file_name=file_name(response) if document_of(response) is not None else "",
            link_text=self.previous.link_text(url) if self._only else "",
            etag=header(response, "ETag"),
            last_modified=header(response, "Last-Modified"),
            robots=robots_header(response),
            rendered=response.meta.get("rendered", ""),
            canonical=self.policy.linked_address(
                b", ".join(response.headers.getlist("Link")).decode("latin-1"), response.url
            ),
        )

    def _count_doubtful(self, waiting: Waiting) -> None:
        """Counts as failed what was taken for numbers beyond the last page of a pagination, since that goes on."""
        if waiting.chain is not None:
            for failure in waiting.chain.doubtful:
                self._count(failure)
            waiting.chain.doubtful.clear()

    def _fail(
        self,
        waiting: Waiting,
        reason: str,
        detail: str,
        *,
        status: int | None,
        request: scrapy.Request | None,
        may_be_past_the_end: bool = False,
    ) -> None:
        """Counts a failed page, queues the links of its fallback page, and tries the next number of a guessed
        pagination.

        `may_be_past_the_end`: its body is what a server may show for a number beyond the last page, also for one that
        was a page before.
        """
        failure = FailedPage(url=waiting.url, reason=reason, status=status, detail=detail)
        landed = self._landed(waiting, request)
        self.stats.landed.update(dict.fromkeys(landed, waiting.url))
        self._not_arrived |= dict.fromkeys(map(self._key, (waiting.url, *landed)), failure)
        is_past_the_end = may_be_past_the_end and waiting.chain is not None and waiting.chain.has_arrived
        is_doubtful = is_past_the_end or (status in _MAYBE_NO_SUCH_NUMBER and not self.previous.holds(waiting.url))
        if is_doubtful and self._is_guess(waiting) and waiting.chain is not None:
            waiting.chain.doubtful.append(failure)
            if is_past_the_end:
                self._past_the_end.append(waiting.url)
        else:
            self._count(failure)
        has_fallback = reason not in _FINAL and not self._only and self._fallback_pages.lead_on(waiting, landed)
        self._has_unseen = self._has_unseen or (reason not in _FINAL and not has_fallback)
        if self._is_guess(waiting) and waiting.chain is not None and not has_fallback and waiting.chain.may_pass_over():
            following = numbered_next(waiting.url, self.source.pagination)
            self._frontier.add_links([Link(following, "next")] if following else [], waiting, waiting.chain)

    def _landed(self, waiting: Waiting, request: scrapy.Request | None) -> list[str]:
        """Canonical URLs that redirects led to before the request failed."""
        landed = []
        for url in [*request.meta.get("redirect_urls", [])[1:], request.url] if request is not None else ():
            with suppress(ValueError):
                landed.append(self.policy.canonical(url))
        return [url for url in landed if url != waiting.url]

    def _key(self, url: str) -> str:
        return self.policy.key(self.policy.canonical(url))

    def _count(self, failure: FailedPage) -> None:
        self._counts["gone" if failure.reason == "gone" else "refused" if failure.reason in REFUSED else "failed"] += 1
        self.stats.failures.append(
            failure.model_copy(update={"detail": self.source.secret_parameters.masked(failure.detail)})
        )
