"""Scrapy's scheduler of a crawl: the frontier, of which no more is given out than the limits leave room for.

So the page limit is exact, and every URL is either stored, counted with a reason, or still in the frontier when a limit
ends the crawl. Two kinds of URL are none of these: redirects to a page that is stored by itself, and guessed page
numbers beyond the end of a pagination.
"""

import time
from collections import deque
from typing import Any

from scrapy import Request, Spider
from scrapy.core.scheduler import BaseScheduler

from almanac.schemas.declaration.crawling import Limits
from almanac.spiders.crawling.sitemaps import MAX_BYTES
from almanac.spiders.crawling.tally import Tally


class Budget:
    """What the declared limits leave of a crawl.

    Attributes:
        in_flight: pages and sitemaps that were given out and are not answered yet.
    """

    def __init__(self, limits: Limits, tally: Tally) -> None:
        self._limits, self._tally = limits, tally
        self._deadline = time.monotonic() + limits.seconds
        self.in_flight = 0

    @property
    def is_late(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() >= self._deadline

    @property
    def is_heavy(self) -> bool:
        """Whether as many bytes arrived as may."""
        return self._limits.bytes is not None and self._tally.stats.bytes >= self._limits.bytes

    @property
    def has_room(self) -> bool:
        """Whether the limits allow one more request, counting those in flight as pages."""
        return self._tally.done + self.in_flight < self._limits.pages and not self.is_heavy and not self.is_late


class BudgetedScheduler(BaseScheduler):
    """Gives out what middlewares and callbacks ask for at once, and then the spider's frontier, in its order."""

    def __init__(self) -> None:
        self._next: deque[Request] = deque()
        self._spider: Any = None

    def open(self, spider: Spider) -> None:
        self._spider = spider

    def enqueue_request(self, request: Request) -> bool:
        self._next.append(request)
        return True

    def next_request(self) -> Request | None:
        return self._next.popleft() if self.has_pending_requests() else None

    def has_pending_requests(self) -> bool:
        if not self._next and (request := self._take()) is not None:
            self._next.append(request)
        return bool(self._next)

    def _take(self) -> Request | None:
        """The next request of the frontier; None where the limits allow none, or none before others are answered."""
        spider = self._spider
        if not spider.budget.has_room:
            return None
        if (sitemap := spider.frontier.take_sitemap()) is not None:
            arguments, meta = {"sitemap": sitemap}, {"download_maxsize": MAX_BYTES}
            request = Request(sitemap.url, spider.arrive_sitemap, cb_kwargs=arguments, meta=meta, errback=spider.fail)
        elif (waiting := spider.frontier.take()) is not None:
            request = Request(waiting.url, spider.arrive, cb_kwargs={"waiting": waiting}, errback=spider.fail)
        else:
            return None
        spider.budget.in_flight += 1
        return request
