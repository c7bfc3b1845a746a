"""Throttles requests per host: Crawl-delay, pauses for overloaded hosts, retries with backoff, and the end of the
crawl's time.
"""

import asyncio
import math
import random
from collections.abc import Iterator
from datetime import datetime
from time import monotonic
from typing import Any

from scrapy import signals
from scrapy.core.downloader import Slot
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.retry import RetryMiddleware
from scrapy.exceptions import ResponseDataLossError
from scrapy.http import Request, Response
from scrapy.utils.asyncio import CallLaterResult, call_later
from scrapy.utils.httpobj import urlparse_cached
from twisted.python.failure import Failure

from almanac.core.retry_after import read_retry_after
from almanac.spiders.crawling.refusal import Refusal
from almanac.spiders.crawling.whole_bodies import CUT_SHORT

CRAWL_DELAY_MAX_S = 30.0  # longest Crawl-delay that is respected
RETRY_AFTER_MAX_S = 60.0  # longest Retry-After that is respected
BACKOFF_S = 0.5  # before the second attempt, doubled for each further one; the pause is a random half to all of it
_AFTER_SCRAPY_S = 0.1
_OVERLOADED = frozenset({429, 503})  # statuses about the host, not the page


class HostThrottle:
    """Downloader middleware that decides when requests to a host may leave, by means of Scrapy's slots, one per host
    name.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._limit_s = crawler.settings.getfloat("CLOSESPIDER_TIMEOUT")
        self._deadline = math.inf
        self._alarm: CallLaterResult | None = None
        self._rests_until: dict[str, float] = {}
        self._own_pace: set[str] = set()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> "HostThrottle":
        pace = cls(crawler)
        crawler.signals.connect(pace.spider_opened, signal=signals.spider_opened)
        crawler.signals.connect(pace.spider_closed, signal=signals.spider_closed)
        return pace

    def spider_opened(self) -> None:
        if self._limit_s:
            # A moment after Scrapy's own timeout, so that Scrapy finds the crawl unfinished and reports the timeout.
            limit_s = self._limit_s + _AFTER_SCRAPY_S
            self._deadline = monotonic() + limit_s
            self._alarm = call_later(limit_s, self._give_up_waiting)

    def spider_closed(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()

    def process_request(self, request: Request) -> None:
        if self.remaining_s <= 0:
            raise Refusal(None, "the crawl's time is up")
        # A server that hangs, or sends a byte now and then, gets no more of the crawl's time than is left.
        request.meta["download_timeout"] = min(
            self._crawler.settings.getfloat("DOWNLOAD_TIMEOUT"), round(self.remaining_s, 1)
        )
        if urlparse_cached(request).hostname in self._own_pace:
            request.meta["autothrottle_dont_adjust_delay"] = True

    @property
    def remaining_s(self) -> float:
        """Seconds left of `limits.seconds`."""
        return self._deadline - monotonic()

    def slow_down(self, host: str, delay_s: float) -> None:
        """Spaces requests to the host at least `delay_s` seconds apart (30 at most) from now on, on any port and on
        loopback too.
        """
        known = self._downloader.per_slot_settings.get(host, {}).get(
            "delay", self._crawler.settings.getfloat("DOWNLOAD_DELAY")
        )
        pace: dict[str, Any] = {"delay": max(known, min(delay_s, CRAWL_DELAY_MAX_S)), "jitter": 0.0}
        self._own_pace.add(host)
        self._downloader.per_slot_settings[host] = pace  # for slots created later
        slot = self._downloader.slots.get(host)
        if slot is not None:
            slot.delay, slot.jitter = pace["delay"], pace["jitter"]

    def rest(self, request: Request, seconds: float) -> None:
        """Holds back all requests to the request's host for that many seconds, queued ones included; other hosts
        continue.
        """
        host = request.meta.get("download_slot", "")
        slot = self._downloader.slots.get(host)
        until = monotonic() + seconds
        if slot is None or until <= self._rests_until.get(host, 0.0):
            return
        self._rests_until[host] = until
        if slot.latercall is not None:
            slot.latercall.cancel()
        # A slot with a pending call sends nothing until then; Scrapy's own delay works the same way.
        slot.latercall = call_later(seconds, self._downloader._latercall, slot)

    def _give_up_waiting(self) -> None:
        """Fails all queued requests, since Scrapy would end only after each had taken its turn."""
        for slot in self._downloader.slots.values():
            for deferred in _drained(slot):
                deferred.errback(Failure(Refusal(None, "the crawl's time is up")))  # type: ignore[no-untyped-call]

    @property
    def _downloader(self) -> Any:
        assert self._crawler.engine is not None
        return self._crawler.engine.downloader


def _drained(slot: Slot) -> Iterator[Any]:
    while slot.queue:
        yield slot.queue.popleft()[1]


class PatientRetry(RetryMiddleware):
    """Downloader middleware that retries transient failures after a pause: the server's Retry-After, else an
    exponential backoff.

    An overloaded host (429, 503) pauses as a whole; other pauses delay one request only. Permanent failures (4xx,
    refusals, certificates) and retries beyond the crawl's time are final.
    """

    crawler: Crawler

    # Scrapy awaits it
    async def process_response(self, request: Request, response: Response) -> Request | Response:  # type: ignore[override]
        if CUT_SHORT in response.flags:
            lost = ResponseDataLossError("its compressed body is cut short")
            again = await self.process_exception(request, lost)
            if again is None:
                raise lost
            return again
        if response.status not in self.retry_http_codes or request.meta.get("dont_retry"):
            return response
        overloaded = response.status in _OVERLOADED
        pause_s = (overloaded and retry_after_s(response)) or _backoff_s(request)
        if overloaded:
            self._pace.rest(request, pause_s)
        if pause_s >= self._pace.remaining_s:
            return response
        again = self._retry(request, f"answered {response.status}")
        if again is not None and not overloaded:
            await asyncio.sleep(pause_s)
        return again or response

    async def process_exception(self, request: Request, exception: Exception) -> Request | Response | None:  # type: ignore[override]
        problem = certificate_problem(exception)
        if problem is not None:
            whose = (
                f"the certificate of {request.url}, to which it redirects,"
                if request.meta.get("redirect_urls")
                else "its certificate"
            )
            raise Refusal("unreachable", f"{whose} is not trusted: {problem}") from exception
        pause_s = _backoff_s(request)
        if pause_s >= self._pace.remaining_s:
            return None
        again = super().process_exception(request, exception)
        if isinstance(again, Request):
            await asyncio.sleep(pause_s)
        return again

    @property
    def _pace(self) -> HostThrottle:
        return throttle_of(self.crawler)


def throttle_of(crawler: Crawler) -> HostThrottle:
    """The crawl's HostThrottle."""
    pace = crawler.get_downloader_middleware(HostThrottle)
    assert pace is not None
    return pace


def _backoff_s(request: Request) -> float:
    full_s = BACKOFF_S * 2 ** int(request.meta.get("retry_times", 0))
    return random.uniform(full_s / 2, full_s)  # jitter, so that retries do not coincide


def retry_after_s(response: Response, now: datetime | None = None) -> float:
    """Seconds of the Retry-After header, RETRY_AFTER_MAX_S at most; 0 if it is missing or invalid."""
    value = (response.headers.get("Retry-After") or b"").decode("latin-1").strip()
    return min(read_retry_after(value, now) or 0.0, RETRY_AFTER_MAX_S)


def certificate_problem(error: BaseException) -> str | None:
    """What is wrong with the server's certificate; None if the request failed for another reason."""
    for reason in getattr(error.__cause__, "reasons", ()):
        text = str(reason.value)
        if "certificate" in text.lower() or "VerificationError" in type(reason.value).__name__:
            return " ".join(text.split())[:200]
    return None
