"""Fallback pages: stored copies used for their links when a page fails, so that a listing that answers 500 does not
cost the pages behind it.

Fallback pages are not stored again and do not count as fetched.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from almanac.schemas.items import Page
from almanac.spiders.crawling.chain import Chain
from almanac.spiders.crawling.frontier import Frontier, Waiting
from almanac.spiders.crawling.previous_crawls import PreviousPages
from almanac.spiders.reading.content import Content
from almanac.spiders.selecting.linked_documents import LinkTexts
from almanac.spiders.selecting.links import Link, UrlPolicy

_PROBES = 3


@dataclass(frozen=True, slots=True)
class _Held:
    """A failed page with its stored copy and that copy's links, waiting for a sign that the site is up."""

    waiting: Waiting
    page: Page
    links: list[Link]


class FallbackPages:
    """Queues the links of fallback pages, but only once a page of the site has arrived, so that a dead host is not
    asked for all its known pages.

    `fallbacks_used` lists the failed URLs whose fallback page was used.
    """

    def __init__(self, policy: UrlPolicy, previous: PreviousPages, frontier: Frontier, link_texts: LinkTexts) -> None:
        self._policy = policy
        self._previous = previous
        self._frontier = frontier
        self._link_texts = link_texts
        self._held: list[_Held] = []
        self._is_alive = False
        self._has_probed = False
        self.fallbacks_used: list[str] = []

    def lead_on(self, waiting: Waiting, further: Iterable[str]) -> bool:
        """Queues the links of the stored copy, at once or once the site is known to be up, and notes their texts.
        Returns whether there is a copy.

        `further` are the URLs that a redirect led to before the failure.
        """
        page = self._previous.fallback_page([waiting.url, *further])
        if page is None:
            return False
        try:
            content = Content(page)
            links = self._policy.links(content, in_chain=waiting.chain is not None)
            texts = [*self._policy.link_texts(content)] if self._policy.source.documents else []
        except Exception:  # malformed markup
            return False
        self._link_texts.note(texts)
        held = _Held(waiting, page, links)
        if self._is_alive:
            self._queue(held)
        else:
            self._held.append(held)
        return True

    def site_is_alive(self) -> None:
        """Records that a page of the site has arrived and queues the links held back so far."""
        self._is_alive = True
        for held in self._held:
            self._queue(held)
        self._held.clear()

    def probe(self) -> None:
        """Queues up to three known pages behind the failed ones when the queue is empty, to find out whether the site
        is down or only its front page.

        A copy all of whose links have been queued has nothing to add, and counts as used: no page is hidden behind it.
        """
        self._let_go()
        if self._has_probed or not self._held:
            return
        self._has_probed = True
        for held, link in [*self._known_links()][:_PROBES]:
            self._frontier.add_links([link], held.waiting, held.waiting.chain or Chain(), held.page)

    def _let_go(self) -> None:
        held, self._held = self._held, []
        for failed_page in held:
            if self._frontier.not_queued({self._policy.key(link.url) for link in failed_page.links}):
                self._held.append(failed_page)
            else:
                self.fallbacks_used.append(failed_page.waiting.url)

    def _known_links(self) -> Iterator[tuple[_Held, Link]]:
        seen = {held.waiting.url for held in self._held}
        for held in self._held:
            for link in held.links:
                if link.url not in seen and self._previous.holds(link.url):
                    seen.add(link.url)
                    yield held, link

    def _queue(self, held: _Held) -> None:
        # The pagination continues whatever the stored page adds, since later pages may have changed.
        self.fallbacks_used.append(held.waiting.url)
        self._frontier.add_links(held.links, held.waiting, held.waiting.chain or Chain(), held.page)
