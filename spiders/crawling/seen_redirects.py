"""Pages whose redirects lead to a page that is fetched by itself: they count as that page, unless nothing comes of
it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import scrapy

from almanac.schemas.crawl_outcome import FailedPage
from almanac.schemas.declaration.source import SiteSource
from almanac.spiders.crawling.frontier import Waiting
from almanac.spiders.crawling.middlewares import wanted_cookies
from almanac.spiders.crawling.refusal import Refusal


@dataclass(frozen=True, slots=True)
class Led:
    """A page that was left to another one: how it was asked for, and where its last redirect leads."""

    waiting: Waiting
    request: scrapy.Request
    target: str


class SeenRedirects:
    """Two pages that redirect to each other each wait for the other; only when all pages are answered is it known that
    neither comes.
    """

    def __init__(self, source: SiteSource) -> None:
        self._source = source
        self._next: dict[str, str] = {}  # key of each address on the way → key of where it leads
        self._unsettled: list[tuple[str, Led]] = []

    def note(self, led: Led, way: list[str], target: str) -> None:
        """Notes a page by the keys of the addresses on its way, its own first, and of the page that it leads to."""
        self._next |= dict.fromkeys(way, target)
        self._unsettled.append((way[0], led))

    def settle(self, failed: Mapping[str, FailedPage]) -> Iterator[tuple[Led, Refusal]]:
        """Yields the pages, noted since the last call, that nothing comes of, with the reason: a circle, or that of the
        `failed` page, by key, they lead to.
        """
        unsettled, self._unsettled = self._unsettled, []
        for key, led in unsettled:
            met = {key}
            while (key := self._next.get(key, "")) and key not in met:
                met.add(key)
                end = key
            if key:
                yield (
                    led,
                    Refusal(
                        "error",
                        f"redirects in a circle, by way of {led.target}{wanted_cookies(led.request, self._source)}",
                    ),
                )
            elif (failure := failed.get(end)) is not None:
                yield (
                    led,
                    Refusal(
                        failure.reason,
                        f"redirects to {failure.url}: {failure.detail or failure.reason}",
                        failure.status,
                    ),
                )
