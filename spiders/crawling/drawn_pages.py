"""Downloader middleware that has the pages of a source with `render` drawn by a browser.

A page is fetched by Scrapy as any other: by the same robots.txt, pace, limits, redirects, credentials and retries. What
arrives is given to the browser, which then asks for what the page needs.
"""

import asyncio
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.http import Request, Response

from almanac.schemas.declaration.render import Render
from almanac.schemas.declaration.source import SiteSource
from almanac.schemas.items import Page
from almanac.spiders.crawling.browser import Browser, DoesNotStartError
from almanac.spiders.crawling.browser_state import browser_state
from almanac.spiders.crawling.chromium import DOES_NOT_START
from almanac.spiders.crawling.drawing import NOT_DRAWN, Drawing, MovedError, cookies_for
from almanac.spiders.crawling.logging_in import LoggingIn
from almanac.spiders.crawling.middlewares import DeclaredRedirects, StrictRobots, may_see_credentials
from almanac.spiders.crawling.problems import ARRIVED, document_of, header
from almanac.spiders.crawling.refusal import Refusal
from almanac.spiders.crawling.throttle import throttle_of
from almanac.spiders.reading.content import Content

_PAGES = 2  # drawn at a time
_MARGIN_S = 10.0  # for a browser that starts, and for steps that take no time of their own
_GRACE_S = 30.0  # beyond limits.seconds, for pages that are being drawn
_REST_S = 5.0  # of a host that is too busy to answer a request of a page
_VALIDATORS = ("ETag", "Last-Modified")


class DrawnPages:
    """Replaces the body of a page by what a browser makes of it; `meta["rendered"]` says how."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._browser: Browser | None = None
        self._is_given_up = False

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> "DrawnPages":
        drawn = cls(crawler)
        crawler.signals.connect(drawn.spider_closed, signal=signals.spider_closed)
        return drawn

    async def spider_closed(self) -> None:
        if self._browser is not None:
            await self._browser.close()

    async def process_response(self, request: Request, response: Response) -> Response | Request:
        if not _is_page(request, response):
            return response
        render, patience_s = self._render, throttle_of(self._crawler).remaining_s
        if patience_s <= 0:
            raise Refusal(None, "the crawl's time is up")
        try:
            drawn = await self._drawer.draw(
                response.url,
                lambda: self._drawing(request, response),
                min(_longest_s(render), patience_s + _GRACE_S),
                self._identity(request, response.url),
            )
        except MovedError as moved:
            if self._crawler.spider.policy.is_login(moved.target):  # type: ignore[union-attr]  # SiteSpider has it
                return response.replace(status=302, headers={"Location": moved.target})
            return self._redirected(request, moved.target)
        except Refusal as refusal:
            login = self._crawler.get_downloader_middleware(LoggingIn)
            if refusal.reason != NOT_DRAWN or login is None or not login.asks_to_log_in(response):
                raise
            return response  # LoggingIn sees to it
        except DoesNotStartError as error:
            self._give_up(str(error))
            raise Refusal(None) from error
        request.meta["rendered"] = _note(render, drawn.engine)
        headers = response.headers.copy()
        for name in _VALIDATORS:  # they are the document's: what scripts make of it may have changed all the same
            headers.pop(name, None)
        kind = (header(response, "Content-Type") or "text/html").partition(";")[0]
        headers["Content-Type"] = f"{kind}; charset=utf-8"
        return response.replace(body=drawn.html.encode("utf-8", "replace"), headers=headers)

    @property
    def _source(self) -> SiteSource:
        source: SiteSource = self._crawler.spider.source  # type: ignore[union-attr]  # SiteSpider has it
        return source

    @cached_property
    def _origins(self) -> list[dict[str, Any]]:
        return [origin.model_dump() for origin in browser_state(self._source).origins]

    @property
    def _render(self) -> Render:
        assert self._source.render is not None
        return self._source.render

    @property
    def _drawer(self) -> Browser:
        if self._browser is None:
            settings = self._crawler.settings
            # Where requests are to keep a distance, so are pages with all that they ask for.
            at_once = (
                1
                if settings.getfloat("DOWNLOAD_DELAY")
                else min(_PAGES, settings.getint("CONCURRENT_REQUESTS_PER_DOMAIN"))
            )
            locale = self._source.accept_language.partition(",")[0]
            spoken = {"locale": locale} if locale else {}
            self._browser = Browser(
                self._crawler, at_once, {"user_agent": self._source.politeness.user_agent, **spoken}
            )
        return self._browser

    def _drawing(self, request: Request, response: Response) -> Drawing:
        is_made_up = "made_up" in request.cb_kwargs  # such a page need not have what the others have
        return Drawing(
            response,
            self._render,
            self._source.limits.bytes_per_page,
            self._may_ask,
            self._rest,
            is_strict=not is_made_up,
        )

    async def _may_ask(self, url: str) -> None:
        """Raises IgnoreRequest where robots.txt of the URL's host forbids it."""
        robots = self._crawler.get_downloader_middleware(StrictRobots)
        if robots is not None:
            await robots.process_request(Request(url))

    def _rest(self, url: str) -> None:
        host = urlsplit(url).hostname or ""
        throttle_of(self._crawler).rest(Request(url, meta={"download_slot": host}), _REST_S)

    def _identity(self, request: Request, url: str) -> dict[str, Any]:
        """Options by which the browser shows the source's credentials, to the page's own host and to no
        other.
        """
        manners = self._source.politeness
        if not may_see_credentials(self._source, url):
            return {}
        parts, own = urlsplit(url), dict[str, Any]()
        if manners.auth is not None:
            pair = {
                "username": manners.auth.user.get_secret_value(),
                "password": manners.auth.password.get_secret_value(),
            }
            own["http_credentials"] = {**pair, "origin": f"{parts.scheme}://{parts.netloc}"}
        sent = (request.headers.get("Cookie") or b"").decode("utf-8").split("; ")
        pairs = (pair.partition("=") for pair in sent)
        cookies = cookies_for(url, {name: value for name, mark, value in pairs if mark})
        origins = [origin for origin in self._origins if origin["origin"] == f"{parts.scheme}://{parts.netloc}"]
        return {**own, "storage_state": {"cookies": cookies, "origins": origins}}

    def _give_up(self, finding: str) -> None:
        """Ends the crawl: without a browser, every page would fail."""
        if not self._is_given_up:
            self._is_given_up = True
            assert self._crawler.engine is not None
            self._closing = asyncio.ensure_future(
                self._crawler.engine.close_spider_async(reason=f"{DOES_NOT_START}: {finding[:1000]}")
            )

    def _redirected(self, request: Request, target: str) -> Request:
        """The request for the URL that a script leads to, by the rules for redirects."""
        redirects = self._crawler.get_downloader_middleware(DeclaredRedirects)
        assert redirects is not None
        return redirects._redirect(request.replace(url=target), request, 302)


def _is_page(request: Request, response: Response) -> bool:
    if (
        response.status not in ARRIVED
        or "stored" in request.meta
        or not {"waiting", "made_up"} & request.cb_kwargs.keys()
    ):
        return False
    if document_of(response) is not None:  # a document that is sent as a page
        return False
    return (
        Content(Page(response.url, response.body, content_type=header(response, "Content-Type") or "")).form == "html"
    )


def _longest_s(render: Render) -> float:
    steps = 1 + sum(2 * click.times for click in render.click) + render.scroll
    return steps * render.timeout_s + _MARGIN_S


def _note(render: Render, engine: str) -> str:
    steps = render.model_dump(include={"wait_for", "click", "scroll"}, exclude_defaults=True)
    return "; ".join([engine, *(f"{name}: {value}" for name, value in steps.items())])
