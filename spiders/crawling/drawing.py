"""How one page is drawn: the document that the crawl has fetched is given to the browser, and the steps of `render` are
carried out on it.

The browser asks for no document of its own accord: where a script leads the page elsewhere, that is a redirect, which
the crawl follows by its own rules.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from time import monotonic
from typing import Any
from urllib.parse import urldefrag, urlsplit

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Locator, Page, Request, Route
from playwright.async_api import TimeoutError as PlaywrightTimeoutError
from scrapy.http import Response

from almanac.schemas.declaration.render import Click, Render
from almanac.spiders.crawling.refusal import Refusal

NOT_DRAWN = "not_drawn"  # the reason of a page that could not be drawn
_QUIET_S = 0.5  # without a request under way: long enough for scripts that wait a moment after scrolling
_CALM_S = 0.1  # the same after wait_for, which says itself that the page is there
_LOOK_S = 0.02
_MOST_REQUESTS = 1000  # of one page
# The document is given whole and decoded, and as a page: it would be saved to a file where it is called an attachment.
_NOT_PASSED_ON = frozenset(
    {b"content-encoding", b"content-length", b"content-disposition", b"transfer-encoding", b"connection", b"keep-alive"}
)
_ENDLESS = frozenset({"eventsource", "websocket"})  # requests that are not waited for
# Scripts that look for these find none. The switches of the browser and its proxy hold where this is evaded.
_WITHOUT = """
for (const name of ['RTCPeerConnection', 'webkitRTCPeerConnection', 'WebTransport']) { try { delete window[name] } catch {} }
window.open = () => null
"""  # noqa: E501
_SIZE = "() => [document.documentElement.scrollHeight, document.getElementsByTagName('*').length]"
_LENGTH = "document.documentElement.outerHTML.length"


class MovedError(Exception):
    """A script leads the page to another URL, `target`."""

    def __init__(self, target: str) -> None:
        super().__init__(target)
        self.target = target


class Drawing:
    """One attempt to draw a page.

    Args:
        document: the page as it was fetched.
        most: characters that the drawn page may have.
        may_ask: raises an exception for URLs that the page may not ask for.
        overloaded: is called with the URL of a request that was answered with 429 or 503.
        is_strict: whether a page on which `wait_for` does not appear has failed.
    """

    def __init__(
        self,
        document: Response,
        render: Render,
        most: int,
        may_ask: Callable[[str], Awaitable[None]],
        overloaded: Callable[[str], None],
        *,
        is_strict: bool,
    ) -> None:
        self._document = document
        self._render = render
        self._most = most
        self._may_ask = may_ask
        self._overloaded = overloaded
        self._is_strict = is_strict
        self._is_given = False
        self._moved = asyncio.Event()
        self._moves_to = ""
        self._is_settled = False
        self._under_way: set[Request] = set()
        self._requested = 0
        self._changed_at = monotonic()
        self.refused: dict[str, str] = {}  # URL → why the page could not ask for it

    async def prepare(self, page: Page, _request: Any) -> None:
        """Sets the page up before it is loaded."""
        self._page = page
        await page.context.route("**", self._refuse)
        page.context.on("page", _close)
        await page.add_init_script(_WITHOUT)
        page.on("request", self._started)
        page.on("requestfinished", self._ended)
        page.on("requestfailed", self._ended)
        page.on("response", lambda response: self._overloaded(response.url) if response.status in (429, 503) else None)
        await page.route("**", self._answer)

    async def carry_out(self, page: Page) -> None:
        """Carries out the steps of `render` on the loaded page. Raises Refusal where it cannot be drawn, and MovedError
        where it leads elsewhere.
        """
        if not self._is_given:
            raise Refusal(NOT_DRAWN, "the browser asked for the page itself")
        loaded, moved = asyncio.ensure_future(self._load(page)), asyncio.ensure_future(self._moved.wait())
        try:
            await asyncio.wait([loaded, moved], return_when=asyncio.FIRST_COMPLETED)
            if self._moved.is_set():
                raise MovedError(self._moves_to)
            await loaded
        finally:
            for task in (loaded, moved):
                task.cancel()
            await asyncio.gather(loaded, moved, return_exceptions=True)
        self._is_settled = True
        for click in self._render.click:
            await self._click(page, click)
        await self._scroll(page)
        if (length := await _length(page)) > self._most:
            raise Refusal("too_large", f"drawn, it has {length:,} characters; limits.bytes_per_page is {self._most:,}")

    async def _load(self, page: Page) -> None:
        ends = monotonic() + self._render.timeout_s
        if self._render.wait_for is None:
            with suppress(PlaywrightTimeoutError):
                await page.wait_for_load_state("load", timeout=1000 * self._render.timeout_s)
            await self._quiet(ends - monotonic(), _QUIET_S)
            return
        try:
            await _visible(page, self._render.wait_for).wait_for(timeout=1000 * self._render.timeout_s)
        except PlaywrightTimeoutError:
            if self._is_strict:
                raise Refusal(
                    NOT_DRAWN,
                    f"no element is visible for {self._render.wait_for} within {self._render.timeout_s:g} "
                    f"s{self._losses()}",
                ) from None
        await self._quiet(ends - monotonic(), _CALM_S)

    async def _click(self, page: Page, click: Click) -> None:
        for _ in range(click.times):
            element = _visible(page, click.on)
            if not await element.count() or not await element.is_enabled():
                return
            before = await page.evaluate(_SIZE)
            try:
                await element.click(timeout=1000 * self._render.timeout_s, no_wait_after=True)
            except PlaywrightTimeoutError:
                if not await element.count():  # it went by itself
                    return
                raise Refusal(
                    NOT_DRAWN, f"{click.on} is visible and cannot be clicked within {self._render.timeout_s:g} s"
                ) from None
            await self._quiet(self._render.timeout_s, _QUIET_S)
            if not _grew(before, await page.evaluate(_SIZE)):
                return

    async def _scroll(self, page: Page) -> None:
        for _ in range(self._render.scroll):
            before = await page.evaluate(_SIZE)
            await page.evaluate("() => window.scrollTo(0, document.documentElement.scrollHeight)")
            await self._quiet(self._render.timeout_s, _QUIET_S)
            if not _grew(before, await page.evaluate(_SIZE)):
                return

    async def _quiet(self, most_s: float, quiet_s: float) -> None:
        """Waits until no request has been under way for `quiet_s` seconds, `most_s` at most."""
        began = monotonic()
        while (now := monotonic()) - began < most_s:
            if not self._under_way and now - max(began, self._changed_at) >= quiet_s:
                return
            await asyncio.sleep(_LOOK_S)

    async def _answer(self, route: Route, request: Request) -> None:
        """Decides about each request of the page."""
        try:
            if self._is_document(request):
                await self._answer_document(route, request)
            elif (why := await self._why_not(request)) is not None:
                if len(self.refused) < _MOST_REQUESTS:
                    self.refused[request.url] = why
                await route.abort("blockedbyclient")
            else:
                await route.continue_()
        except PlaywrightError:
            pass  # the page is closed

    async def _answer_document(self, route: Route, request: Request) -> None:
        if not self._is_given:
            self._is_given = True
            await route.fulfill(status=200, headers=_headers(self._document), body=self._document.body)
            return
        if not self._is_settled and urldefrag(request.url)[0] != urldefrag(self._page.url)[0]:
            self._moves_to = request.url
            self._moved.set()
        await route.abort("aborted")  # the page stays as it is

    async def _why_not(self, request: Request) -> str | None:
        self._requested += 1
        if request.resource_type in self._render.block:
            return "blocked"
        if urlsplit(request.url).scheme not in ("http", "https"):
            return "not http"
        if self._requested > _MOST_REQUESTS:
            return f"more than {_MOST_REQUESTS} requests"
        try:
            await self._may_ask(request.url)
        except Exception as error:
            return str(error) or type(error).__name__
        return None

    def _is_document(self, request: Request) -> bool:
        try:
            return request.is_navigation_request() and request.frame == self._page.main_frame
        except PlaywrightError:  # its frame is not there yet: a window of its own
            return False

    async def _refuse(self, route: Route) -> None:
        """Of windows that the page opened."""
        with suppress(PlaywrightError):
            await route.abort("aborted")

    def _started(self, request: Request) -> None:
        if request.resource_type not in _ENDLESS:
            self._under_way.add(request)
            self._changed_at = monotonic()

    def _ended(self, request: Request) -> None:
        self._under_way.discard(request)
        self._changed_at = monotonic()

    def _losses(self) -> str:
        """What the page asked for in vain, as the end of a sentence."""
        lost = [f"{url} ({why})" for url, why in self.refused.items() if why != "blocked"]
        return (
            f"; it could not ask for {', '.join(lost[:3])}" + (f" and {len(lost) - 3} more" if len(lost) > 3 else "")
            if lost
            else ""
        )


def _visible(page: Page, selector: str) -> Locator:
    return page.locator(selector).filter(visible=True).first


def _grew(before: list[float], after: list[float]) -> bool:
    return any(now > then for then, now in zip(before, after, strict=True))


def _headers(document: Response) -> dict[str, str]:
    """The document's headers as the browser takes them; several of one name are joined by line feeds where they are
    cookies.
    """
    named: dict[str, str] = {}
    for name, values in document.headers.items():
        if name.lower() not in _NOT_PASSED_ON:
            joined = b"\n" if name.lower() == b"set-cookie" else b", "
            named[name.decode("latin-1")] = joined.join(values).decode("latin-1")
    return named


async def _length(page: Page) -> int:
    """Characters of the drawn page, counted where its scripts cannot tell otherwise."""
    session = await page.context.new_cdp_session(page)
    frame = (await session.send("Page.getFrameTree"))["frameTree"]["frame"]["id"]
    world = (await session.send("Page.createIsolatedWorld", {"frameId": frame}))["executionContextId"]
    evaluation = await session.send("Runtime.evaluate", {"expression": _LENGTH, "contextId": world})
    return int(evaluation["result"]["value"])


async def _close(page: Page) -> None:
    with suppress(PlaywrightError):
        await page.close()


def cookies_for(url: str, cookies: dict[str, str]) -> list[dict[str, Any]]:
    """Cookies for the host of a URL and no other, over https alone where the URL is https."""
    parts = urlsplit(url)
    return [
        {
            "name": name,
            "value": value,
            "domain": parts.hostname,
            "path": "/",
            "secure": parts.scheme == "https",
            "httpOnly": True,
            "expires": -1,
            "sameSite": "Lax",
        }
        for name, value in cookies.items()
    ]
