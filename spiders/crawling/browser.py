"""The browser of a crawl: scrapy-playwright with the machine's Chromium, behind a proxy of ours, for one crawl and with
no state.

It draws few pages at a time and is started anew before it has grown: after a number of pages, or where its processes
take much memory. A browser that dies costs the pages that it was drawing a second attempt, not the crawl. It dies with
the crawl, however that ends.
"""

import asyncio
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from playwright.async_api import Error as PlaywrightError
from scrapy.crawler import Crawler
from scrapy.http import Request, TextResponse
from scrapy_playwright.handler import ScrapyPlaywrightDownloadHandler
from scrapy_playwright.page import PageMethod

from almanac.core.lifetime import process_start
from almanac.spiders.crawling.browser_proxy import BrowserProxy
from almanac.spiders.crawling.chromium import SWITCHES, find_chromium, has_sandbox, processes_below, resident_bytes
from almanac.spiders.crawling.drawing import NOT_DRAWN, Drawing
from almanac.spiders.crawling.refusal import Refusal

RESTART_AFTER = 200  # pages
RESTART_ABOVE, MOST_MEMORY = 768 << 20, 2 << 30  # bytes: started anew before the next page; ended at once
_ATTEMPTS = 2
_START_S, _END_S = 60.0, 10.0
_LOOK_S = 0.5
_FOLDER = "almanac-browser-"
_PAGE_CRASHED = ("Page crashed", "Target crashed")
_LOST = "Connection closed"
_CRASHED = (*_PAGE_CRASHED, _LOST, "closed")
# Chromium dies with what started it, and that with the crawl: a browser that hangs would not notice that nobody listens
# any more.
_LAUNCHER = """#!{python} -IS
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
os.execv({chromium!r}, [{chromium!r}, *sys.argv[1:]])
"""


class DoesNotStartError(Exception):
    """Chromium does not start, with what it says."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A page as drawn; `engine` is the browser's name and version."""

    html: str
    engine: str


class Browser:
    """Draws pages, `most_pages` at a time."""

    def __init__(self, crawler: Crawler, most_pages: int, context: dict[str, Any]) -> None:
        """`context` has Playwright's options of a browser context, beyond those that close what a page must not do."""
        self._crawler = crawler
        self._context = context
        self._most_pages = most_pages
        self._places = asyncio.Semaphore(most_pages)
        self._turn = asyncio.Lock()
        self._starting = asyncio.Lock()
        self._handler: ScrapyPlaywrightDownloadHandler | None = None
        self._proxy = BrowserProxy()
        self._folder: Path | None = None
        self._watch: asyncio.Task[None] | None = None
        self._drawn = 0
        self._started = 0  # how often
        self._names = count(1)
        self._overgrown: set[int] = set()  # which of the browsers took too much memory

    async def draw(self, url: str, drawing_of: Any, limit_s: float, own: dict[str, Any]) -> Drawn:
        """Draws a page; `drawing_of()` gives the steps of an attempt.

        Raises Refusal where the page cannot be drawn, or waited when the crawl was stopped, DoesNotStartError where
        none can, and what its steps raise.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            async with self._place(alone=attempt > 1):  # after a death that another page may have caused
                if not self._crawler.crawling:
                    raise Refusal(None, "the crawl was stopped")
                handler, started = await self._running()
                try:
                    self._drawn += 1
                    return await self._attempt(handler, url, drawing_of(), limit_s, own)
                except TimeoutError:
                    await self._restart(started)  # what hangs is ended
                    raise Refusal(NOT_DRAWN, f"its scripts did not come to an end within {limit_s:.0f} s") from None
                except Exception as error:
                    message = str(error)
                    # a driver that is gone is told by no class of its own
                    if not isinstance(error, PlaywrightError) and _LOST not in message:
                        raise
                    if not any(word in message for word in _CRASHED):
                        raise Refusal(NOT_DRAWN, message.splitlines()[0][:300]) from error
                    if attempt == _ATTEMPTS:
                        why = f", which took more than {MOST_MEMORY >> 20} MiB," if started in self._overgrown else ""
                        raise Refusal(
                            NOT_DRAWN, f"the browser{why} ended {_ATTEMPTS} times while it drew the page"
                        ) from error
                    if not any(word in message for word in _PAGE_CRASHED):
                        await self._restart(started)
        raise AssertionError("unreachable")

    async def _attempt(
        self,
        handler: ScrapyPlaywrightDownloadHandler,
        url: str,
        drawing: Drawing,
        limit_s: float,
        own: dict[str, Any],
    ) -> Drawn:
        name = f"page-{next(self._names)}"
        closed = {"accept_downloads": False, "service_workers": "block", "permissions": [], "reduced_motion": "reduce"}
        meta: dict[str, Any] = {
            "playwright": True,
            "playwright_include_page": True,
            "playwright_context": name,
            "playwright_context_kwargs": {**self._context, **own, **closed},
            "playwright_page_init_callback": drawing.prepare,
            "playwright_page_goto_kwargs": {"wait_until": "commit", "timeout": 1000 * limit_s},
            "playwright_page_methods": [PageMethod(drawing.carry_out)],
        }
        try:
            response = await asyncio.wait_for(handler.download_request(Request(url, meta=meta)), limit_s)
            assert isinstance(response, TextResponse)
            return Drawn(response.text, f"Chromium {handler.browser.version}")
        finally:
            if (wrapper := handler.context_wrappers.get(name)) is not None:
                with suppress(PlaywrightError, TimeoutError):
                    await asyncio.wait_for(wrapper.context.close(), _END_S)

    @asynccontextmanager
    async def _place(self, *, alone: bool) -> AsyncIterator[None]:
        """One of the places of pages, or all; where the browser is due to be started anew, that happens while no page
        is drawn.
        """
        wanted, taken = self._most_pages if alone else 1, 0
        try:
            async with self._turn:
                is_due = self._is_due()
                while taken < (self._most_pages if is_due else wanted):
                    await self._places.acquire()
                    taken += 1
                if is_due:
                    await self._restart(self._started)
                for _ in range(taken - wanted):
                    self._places.release()
                    taken -= 1
            yield
        finally:
            for _ in range(taken):
                self._places.release()

    def _is_due(self) -> bool:
        return self._handler is not None and (
            self._drawn >= RESTART_AFTER or resident_bytes(processes_below(os.getpid())) > RESTART_ABOVE
        )

    async def _running(self) -> tuple[ScrapyPlaywrightDownloadHandler, int]:
        """The handler with its driver, and how often it was started."""
        async with self._starting:
            if self._handler is None:
                await self._start()
            assert self._handler is not None
            return self._handler, self._started

    async def _restart(self, started: int) -> None:
        """Ends the browser that was started as the `started`th, unless somebody has; the next page starts another."""
        async with self._starting:
            if self._started == started:
                await self._end()

    async def _start(self) -> None:
        if self._folder is None:
            await self._proxy.__aenter__()
            self._folder = _own_folder()
            # of this process alone; the driver makes the browser's profile there
            os.environ["TMPDIR"] = str(self._folder)
            self._watch = asyncio.ensure_future(self._watch_memory())
        handler = ScrapyPlaywrightDownloadHandler(self._crawler)
        handler.config.target_closed_max_retries = 0  # the attempts are counted here
        handler.config.launch_options = self._launch_options()
        self._handler, self._started, self._drawn = handler, self._started + 1, 0
        try:
            await asyncio.wait_for(handler._launch(), _START_S)
            await asyncio.wait_for(handler._maybe_launch_browser(), _START_S)
        except (PlaywrightError, OSError, TimeoutError) as error:
            await self._end()
            raise DoesNotStartError(str(error) or f"no answer within {_START_S:.0f} s") from error

    def _launch_options(self) -> dict[str, Any]:
        assert self._folder is not None
        folder = str(self._folder)
        return {
            "executable_path": str(self._folder / "launch"),
            "args": SWITCHES,
            "proxy": {"server": f"http://127.0.0.1:{self._proxy.port}", "bypass": "<-loopback>"},
            "chromium_sandbox": has_sandbox(),
            # no key of ours
            "env": {"HOME": folder, "TMPDIR": folder, "PATH": os.environ.get("PATH", ""), "LANG": "C.UTF-8"},
            "timeout": 1000 * _START_S,
        }

    async def close(self) -> None:
        """Ends the browser and everything that belongs to it."""
        async with self._starting:
            await self._end()
            if self._watch is not None:
                self._watch.cancel()
            if self._folder is not None:
                await self._proxy.__aexit__(None, None, None)
                shutil.rmtree(self._folder, ignore_errors=True)

    async def _end(self) -> None:
        if self._handler is None:
            return
        handler, self._handler = self._handler, None
        with suppress(Exception):  # a browser that died cannot be closed; what is left of it is ended here
            await asyncio.wait_for(handler.close(), _END_S)
        _kill(processes_below(os.getpid()))

    async def _watch_memory(self) -> None:
        """Ends a browser that takes too much; the pages that it draws have another attempt."""
        while True:
            processes = processes_below(os.getpid())
            if resident_bytes(processes) > MOST_MEMORY:
                self._overgrown.add(self._started)
                _kill(processes)
            await asyncio.sleep(_LOOK_S)


def _kill(processes: list[int]) -> None:
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def _own_folder() -> Path:
    """A new folder for profiles, with the launcher in it; those of crawls that were killed are removed."""
    for left in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*"):
        owner = left.name.removeprefix(_FOLDER).partition("-")[0]
        if owner.isdigit() and process_start(int(owner)) is None:
            shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{_FOLDER}{os.getpid()}-"))
    launcher = folder / "launch"
    launcher.write_text(_LAUNCHER.format(python=sys.executable, chromium=find_chromium()), encoding="utf-8")
    launcher.chmod(0o700)
    return folder
