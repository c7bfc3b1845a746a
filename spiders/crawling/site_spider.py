"""The Scrapy spider of all site sources: crawls a declared site and stores its pages; it maps nothing.

Scrapy asks for a page when the scheduler gives it out (`scheduler.py`), middlewares and extensions decide what may be
fetched and how, and the spider stores what arrives and puts what that leads to into the frontier.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

import scrapy
from scrapy import signals
from scrapy.exceptions import CloseSpider, DontCloseSpider, StopDownload
from scrapy.http import Response
from twisted.python.failure import Failure

from almanac.core.url_folders import by_folder
from almanac.schemas.crawl_outcome import BY_ELEMENT, FOLDERS_REPORTED, LIMITS, FailedPage, LimitReached
from almanac.schemas.declaration.source import SiteSource
from almanac.schemas.errors import OperationalError, StorageError
from almanac.schemas.items import Page
from almanac.spiders.crawling.failed_pages import FailedPages
from almanac.spiders.crawling.fallback_pages import FallbackPages
from almanac.spiders.crawling.frontier import Frontier, Waiting
from almanac.spiders.crawling.leads import Leads, read_leads, why_unreadable
from almanac.spiders.crawling.previous_crawls import PreviousPages
from almanac.spiders.crawling.problems import ARRIVED, document_of, page_of, problem_of, reason_of
from almanac.spiders.crawling.refusal import Refusal
from almanac.spiders.crawling.scheduler import Budget
from almanac.spiders.crawling.sitemap_queue import SitemapQueue
from almanac.spiders.crawling.stats import CrawlStats
from almanac.spiders.crawling.tally import Tally
from almanac.spiders.crawling.unknown_urls import UnknownUrls
from almanac.spiders.reading.content import Content
from almanac.spiders.selecting.json_bodies import begins_as_json, problem_of_json
from almanac.spiders.selecting.linked_documents import LinkTexts, not_fetched_by_type
from almanac.spiders.selecting.links import UrlPolicy
from almanac.spiders.selecting.withheld import gone_by, withheld
from almanac.spiders.store.journal import Entry
from almanac.spiders.store.raw import Journal


class SiteSpider(scrapy.Spider):
    """Crawls one source. Pages that `previous` has from interrupted crawls are read from disk and journalled as if they
    had just arrived.
    """

    name = "site"
    custom_settings = {  # noqa: RUF012  # declared by Scrapy
        "SCHEDULER": "almanac.spiders.crawling.scheduler.BudgetedScheduler",
        "EXTENSIONS": {"almanac.spiders.crawling.early_stops.EarlyStops": 0},
    }

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
        self.frontier = Frontier(self.policy)
        self.fatal: OperationalError | None = None
        self._tally = Tally(source)
        self.budget = Budget(source.limits, self._tally)
        self._journal = journal
        self._progress = progress
        self._link_texts = LinkTexts()
        self._fallback_pages = FallbackPages(self.policy, previous, self.frontier, self._link_texts)
        self._failed = FailedPages(
            self.policy, previous, self.frontier, self._fallback_pages, self._tally, leads_on=not only
        )
        self._sitemaps = SitemapQueue(self.policy, self.frontier, self._tally, self.refusal_of)
        self._unknown = UnknownUrls(self.policy, shown_for_unknown, spares_starts=spares_starts)
        self._only, self._spares_starts = only, spares_starts
        self._forgotten = set(map(self.policy.key_of, forgotten))
        self._unfollowed: set[str] = set()

    @classmethod
    def from_crawler(cls, crawler: Any, *args: Any, **kwargs: Any) -> "SiteSpider":
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.idle, signal=signals.spider_idle)
        return spider

    async def start(self) -> AsyncIterator[Any]:
        """Fills the frontier with sitemaps and start URLs, or with `only` (Scrapy's entry point)."""
        for url in () if self._only else self.source.sitemaps:
            self.frontier.add_sitemap(url)
        for url in self._only or self.source.start_urls:
            self.frontier.add(Waiting(self.policy.canonical(url)))
        return
        yield  # what Scrapy awaits is a generator; the scheduler gives out the requests

    def claim(self, url: str, way: list[str]) -> bool:
        """Whether a redirect's target is new. If the page was found before, the redirecting URL is journalled as its
        alias.
        """
        if self.frontier.claim(url, way):
            return True
        for hop in way:
            self._link_texts.leads(self.policy.key_of(hop), self.policy.key_of(url))
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
        if self.is_forgotten(canonical):
            return "forgotten"
        return "denied" if self.policy.is_denied(canonical) else None

    def is_forgotten(self, url: str) -> bool:
        """Whether the page was taken down by its URL."""
        return bool(self._forgotten) and self.policy.key_of(url) in self._forgotten

    def arrive(self, response: Response, waiting: Waiting) -> Iterator[scrapy.Request]:
        """Handles the response to a page request, whatever its status: stores or counts it and queues its links.

        The page may have to wait until its host has answered a made-up URL, or until it is decided what it is.
        """
        asking, waits = None, False
        if self._problem_of(response) is None:
            try:
                asking = self._unknown.ask_before(response, waiting)
                waits = asking is None and self._unknown.waits(response, waiting)
            except Exception:  # what it shows cannot be told: it is handled for itself
                self.logger.exception("%s is not compared with what its host shows for a made-up URL", waiting.url)
        if asking is not None:
            for request in asking:
                yield request.replace(callback=self.arrive_made_up, errback=self.fail)
        elif waits:
            self._decide(at_once=False)
        else:
            self._handle(response, waiting)

    def arrive_made_up(self, response: Response | None, made_up: str) -> Iterator[scrapy.Request]:
        """Handles what a host answers to a made-up URL, or that it does not, and then the pages that waited for it."""
        for page, waiting in self._unknown.take(made_up, response):
            yield from self.arrive(page, waiting)  # its place may have to be asked, too

    def arrive_sitemap(self, response: Response, sitemap: Waiting) -> None:
        """Handles the response to a sitemap request: queues its pages and sitemaps; it is not stored."""
        self._sitemaps.take(response, sitemap)
        self.budget.in_flight -= 1

    def fail(self, failure: Failure) -> Iterator[scrapy.Request]:
        """Handles a failed request."""
        request: scrapy.Request = failure.request  # type: ignore[attr-defined]  # Scrapy puts it there
        arguments = request.cb_kwargs
        if "made_up" in arguments:
            yield from self.arrive_made_up(None, arguments["made_up"])
        elif "sitemap" in arguments:
            reason, detail, status = reason_of(failure.value, "the limit of sitemaps")
            if reason is not None:
                self._sitemaps.fail(arguments["sitemap"].url, reason, detail, status=status)
            self.budget.in_flight -= 1
        else:
            self._fail(failure.value, arguments["waiting"], request)

    def _fail(self, error: BaseException | None, waiting: Waiting, request: scrapy.Request) -> None:
        reason, detail, status = reason_of(error, gone=self.source.gone_statuses)
        self.budget.in_flight -= 1
        if isinstance(error, StopDownload):
            self._leave_out(error.response, waiting)
        if reason is not None:
            self._failed.fail(waiting, reason, detail, status=status, request=request)
        elif isinstance(error, Refusal) and error.seen:
            self._failed.leave_to(error.seen, waiting, request)
        else:  # no time was left for it: it stays under way
            return
        self.frontier.done(waiting)

    def end_with(self, error: OperationalError) -> None:
        """Ends the crawl: no further page would come."""
        if self.fatal is None:
            self.fatal = error
            assert self.crawler.engine is not None
            self._closing = asyncio.ensure_future(self.crawler.engine.close_spider_async(reason=error.kind))

    def idle(self) -> None:
        """Goes on with what waited until nothing else is under way (Scrapy's signal)."""
        self._conclude()
        assert self.crawler.engine is not None and self.crawler.engine.scheduler is not None
        if self.crawler.engine.scheduler.has_pending_requests():
            raise DontCloseSpider

    def closed(self, reason: str) -> None:  # noqa: ARG002  # Scrapy calls it by name
        """Handles what still waits when the crawl is ended, for its time is up (Scrapy's exit)."""
        if self.fatal is None:
            with suppress(CloseSpider):
                self._conclude()
                self._name_documents()

    def _conclude(self) -> None:
        self._decide(at_once=True)
        if self.frontier.is_empty:
            self._failed.settle_redirects()
            self._fallback_pages.probe()

    def _decide(self, *, at_once: bool) -> None:
        """Handles the pages that wait until it is decided what they are: when enough of them do, or `at_once`."""
        for response, waiting in self._unknown.decided(at_once=at_once):
            self._handle(response, waiting)

    def _handle(self, response: Response, waiting: Waiting) -> None:
        """Stores or counts a page; one with a defect that nobody foresaw has failed, and the crawl goes on."""
        self.budget.in_flight -= 1
        try:
            self._judge(response, waiting)
        except (CloseSpider, MemoryError):
            raise
        except Exception as error:
            self.logger.exception("%s has failed for a defect; please report it", waiting.url)
            detail = f"a defect of Almanac, please report it: {type(error).__name__}: {error}"
            self._failed.fail(waiting, "error", detail, status=response.status, request=response.request)
        self.frontier.done(waiting)

    def _judge(self, response: Response, waiting: Waiting) -> None:
        problem = self._problem_of(response) or self._unknown.problem_of(response, waiting)
        is_gone = response.status in ARRIVED and problem is not None and problem[0] == "gone"
        if problem is None:
            self._take(response, waiting)
        elif self._failed.is_beyond_the_end(waiting, response.status, is_gone=is_gone):
            self._tally.stats.ended.append(waiting.url)
        else:
            self._leave_out(response, waiting)
            self._failed.fail(waiting, *problem, status=response.status, request=response.request)

    def _problem_of(self, response: Response) -> tuple[str, str] | None:
        return problem_of(response, self.source.documents, self.source.gone_statuses)

    def _leave_out(self, response: Response | None, waiting: Waiting) -> None:
        """Counts a document of a type that is not fetched, where only the answer told the type."""
        kind = document_of(response) if response is not None and response.status in ARRIVED else None
        if kind is not None and kind not in self.source.documents:
            self.frontier.leave_out({self.policy.key_of(waiting.url): kind}, by_answer=True)

    def _take(self, response: Response, waiting: Waiting) -> None:
        """Stores a page, counts it, and queues its links. A guessed page that adds nothing ends its pagination and is
        not stored.
        """
        stored: Entry | None = response.meta.get("stored")
        page = stored.page(response.body) if stored else self._page_of(response, waiting)
        content, is_guess = Content(page), self._failed.is_guess(waiting)
        fail = partial(self._failed.fail, waiting, status=page.status, request=response.request)
        unreadable = why_unreadable(content, waiting, self.policy, self.previous, is_guess=is_guess)
        if unreadable is not None:
            is_cut = begins_as_json(content) and problem_of_json(content) is not None
            if is_cut:
                self._failed.count_doubtful(waiting)
            fail("not_json", unreadable, may_be_past_the_end=not is_cut)
            return
        may_yield = self.policy.yields_items(content.url, in_chain=waiting.chain is not None)
        if may_yield and not self._leads_to_items(waiting) and (sign := gone_by(content, self.source)) is not None:
            fail("gone", f"{BY_ELEMENT}{sign}")
            return
        if self.policy.is_start(waiting.url):
            self._unknown.note_start(content)
        leads = read_leads(content, waiting, self.policy)
        if not response.meta.get("from_disk"):
            self._fallback_pages.site_is_alive()
        if is_guess and not leads.adds:
            self._tally.stats.ended.append(waiting.url)
            return
        if leads.canonical is not None and self.is_forgotten(leads.canonical):
            fail("forgotten", f"it calls {leads.canonical} its right address")
            return
        self._failed.count_doubtful(waiting)
        content.page = page = replace(page, canonical=leads.canonical, noindex=leads.noindex)
        redirects = stored.redirects if stored else list(response.meta.get("redirect_urls", []))
        self._store(page, stored, redirects, waiting.card)
        self._count(content, leads, may_yield=may_yield, is_unchanged=stored is not None and stored.unchanged)
        if content.is_document:
            for way in (waiting.url, *redirects, page.url):
                self._link_texts.arrived(self.policy.key_of(way), page.url)
        if not self._only:
            self.frontier.add_links(leads.links, waiting, leads.chain, page)
            self.frontier.leave_out(leads.left_out)
            self._link_texts.note(leads.link_texts)
            self._unfollowed |= leads.unfollowed
        self._progress(self._tally.done, len(self.frontier) + self.budget.in_flight)

    def _leads_to_items(self, waiting: Waiting) -> bool:
        """Whether a page that may yield items is first of all one that leads to others: without `match`, a start page
        and those of a pagination.
        """
        is_start = self._spares_starts and self.policy.is_start(waiting.url)
        return self.source.match is None and (waiting.chain is not None or is_start)

    def _page_of(self, response: Response, waiting: Waiting) -> Page:
        page = page_of(response, waiting.url, self.policy)
        return replace(page, link_text=self.previous.link_text(page.url)) if self._only else page

    def _count(self, content: Content, leads: Leads, *, may_yield: bool, is_unchanged: bool) -> None:
        page = content.page
        if leads.problem:
            self._tally.stats.failures.append(
                FailedPage(url=page.url, reason="error", status=page.status, detail=leads.problem)
            )
        why = withheld(content, self.source) if may_yield else None
        if why is not None:
            failure = FailedPage(url=page.url, reason=why[0], status=page.status, detail=why[1])
            self._tally.withhold(failure, len(page.body))
        else:
            self._tally.arrive(len(page.body), is_unchanged=is_unchanged)
        self._tally.stats.nofollow += leads.nofollow

    def _store(self, page: Page, stored: Entry | None, redirects: list[str], card: list[str]) -> None:
        if stored is None:
            self._guarded(lambda: self._journal.add(page, redirects=redirects, card=card))
        elif not self.previous.is_own(stored):
            link_text = stored.link_text if self._only else ""  # `_name_documents` says it anew
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

    def _name_documents(self) -> None:
        """Writes into the journal what links call the documents that arrived. Where pages were not seen, links may
        still be there.
        """
        if self._only:  # no link was seen
            return
        has_unseen = self._failed.has_unseen or not self.frontier.is_empty or self.budget.is_late
        for url, text in self._link_texts.names().items():
            called = text or (self.previous.link_text(url) if has_unseen else "")
            self._guarded(partial(self._journal.name, url, called))

    def finished(self, reason: str) -> CrawlStats:
        """The stats of the finished crawl; `reason` is Scrapy's finish reason."""
        is_cut = not self.frontier.is_done
        finish = "partial" if self._only else "finished"
        if reason == "closespider_timeout" or (is_cut and self.budget.is_late):
            finish = "seconds"
        elif is_cut:
            finish = "bytes" if self.budget.is_heavy else "pages"
        beyond_depth, stats = self.frontier.beyond_depth, self._tally.stats
        facts = {
            "pages": self._tally.pages,
            "limits_reached": [*self._cut_by(finish), *self._cut_by("depth", beyond_depth)],
            "ended": [*stats.ended, *(self._failed.ended() if finish == "finished" else ())],
            "beyond_depth": len(beyond_depth),
            "unfollowed": self.frontier.not_queued(self._unfollowed - self._forgotten),
            "unqueued": self.frontier.unqueued,
            "not_fetched": not_fetched_by_type(self.source, self.frontier.left_out),
            "unknown_urls": self._unknown.reports,
            "shown_for_unknown": self._unknown.shown,
            "fallbacks_used": self._fallback_pages.fallbacks_used,
        }
        return stats.model_copy(update={"finish": finish, **facts})

    def _cut_by(self, limit: str, urls: Collection[str] | None = None) -> list[LimitReached]:
        """What the crawl did not fetch for a limit: `urls`, by default what it did not come to; nothing if it was not
        cut.
        """
        if limit not in LIMITS:
            return []
        if urls is None:
            known = (self.policy.canonical(url) for url in self.previous.urls())
            urls = self.frontier.not_answered(url for url in known if self.refusal_of(url) is None)
        facts = {"known_urls_not_fetched": len(urls), "folders": by_folder(urls, FOLDERS_REPORTED)}
        return [LimitReached(source=self.source.name, limit=limit, **facts)] if urls else []
