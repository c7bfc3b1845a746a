"""Pages of earlier crawls in place of those that do not come: what they led to is asked for all the same.

A listing that answers 500 must not cost the pages behind it. Nothing of this is stored again or counts as fetched.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from almanac.schemas.items import Page
from almanac.spiders.crawling.chain import Chain
from almanac.spiders.crawling.frontier import Frontier, Waiting
from almanac.spiders.crawling.previous_crawls import PreviousPages
from almanac.spiders.reading.content import Content
from almanac.spiders.selecting.links import Link, UrlPolicy

_PROBES = 3


@dataclass(frozen=True, slots=True)
class _Held:
    waiting: Waiting
    page: Page
    links: list[Link]


class FallbackPages:
    """Queues the links of stored pages, once a page of the site has arrived: of a dead host, not everything that it ever had is asked for.

    `stood_in` are the URLs of the pages whose links were queued.
    """

    def __init__(self, policy: UrlPolicy, previous: PreviousPages, frontier: Frontier) -> None:
        self._policy = policy
        self._earlier = previous
        self._frontier = frontier
        self._held: list[_Held] = []
        self._is_alive = False
        self._has_probed = False
        self.stood_in: list[str] = []

    def lead_on(self, waiting: Waiting, further: Iterable[str]) -> bool:
        """Queues what the stored page led to, and tells whether there is one. `further` are addresses that a redirect led on to."""
        page = self._earlier.fallback_page([waiting.url, *further])
        if page is None:
            return False
        try:
            links = self._policy.links(Content(page), in_chain=waiting.chain is not None)
        except Exception:  # malformed markup
            return False
        held = _Held(waiting, page, links)
        if self._is_alive:
            self._queue(held)
        else:
            self._held.append(held)
        return True

    def site_is_alive(self) -> None:
        """Says that a page has arrived; what was held back is queued."""
        self._is_alive = True
        for held in self._held:
            self._queue(held)
        self._held.clear()

    def probe(self) -> None:
        """Queues a few pages behind those that were held back, where there is nothing else to ask for: is it the site, or only its front page?"""
        if self._has_probed or not self._held:
            return
        self._has_probed = True
        for held, link in [*self._known_links()][:_PROBES]:
            self._frontier.add_links([link], held.waiting, held.waiting.chain or Chain(), held.page)

    def _known_links(self) -> Iterator[tuple[_Held, Link]]:
        seen = {held.waiting.url for held in self._held}
        for held in self._held:
            for link in held.links:
                if link.url not in seen and self._earlier.holds(link.url):
                    seen.add(link.url)
                    yield held, link

    def _queue(self, held: _Held) -> None:
        # Whatever the stored page adds, the pagination goes on: the pages after this one may have changed since.
        self.stood_in.append(held.waiting.url)
        self._frontier.add_links(held.links, held.waiting, held.waiting.chain or Chain(), held.page)
