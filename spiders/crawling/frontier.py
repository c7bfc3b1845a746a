"""The queue of a crawl: sitemaps, pages that the declaration leads to, and plain links after them; each page once."""

from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain

from almanac.schemas.items import Page
from almanac.spiders.crawling.chain import Chain
from almanac.spiders.crawling.sitemaps import MAX_NESTING, MAX_SITEMAPS
from almanac.spiders.selecting.links import Link, UrlPolicy
from almanac.spiders.selecting.urls import canonical_url

_SMALL_DEPTH = 5
_MIN_ROOM = 10_000


@dataclass(slots=True)
class Waiting:
    """A URL in the queue.

    Attributes:
        depth: links from a start URL; for a sitemap, the number of sitemap indexes around it.
        chain: the pagination that leads to it; None if none does.
        card: the listing page of its card, as in `Entry`.
    """

    url: str
    depth: int = 0
    chain: Chain | None = None
    card: list[str] = field(default_factory=list)


class Frontier:
    """The URLs of a crawl in the order in which they are requested, breadth first.

    Plain links wait until all pages of lower depth are answered in two cases. With a listing, pagination must reach its
    pages before plain links do, or their cards would not be read. With a depth limit of 5 or less, each page must get
    the depth of its shortest path, whatever the order of responses. Otherwise no link waits for a slow page.
    """

    def __init__(self, policy: UrlPolicy) -> None:
        self._policy = policy
        self._limits = policy.source.limits
        self._sitemaps: deque[Waiting] = deque()
        self._before_links: deque[Waiting] = deque()
        self._levels: dict[int, dict[str, Waiting]] = {}  # plain links by depth; no level is empty
        self._seen: set[str] = set()
        self._named: set[str] = set()
        self._beyond: set[str] = set()
        self._in_step = policy.source.listing is not None or self._limits.depth <= _SMALL_DEPTH
        self._taken: Counter[int] = Counter()  # pages taken and not answered yet, by depth
        self._under_way: dict[int, Waiting] = {}  # the same pages, by their identity
        # Each page of a shop may have a thousand links of its own, far more than the page limit lets through.
        self._room = max(_MIN_ROOM, 20 * self._limits.pages)
        self._left_out: dict[str, str] = {}
        self._not_fetched: dict[str, str] = {}
        self.unqueued = 0

    def __len__(self) -> int:
        """Number of pages in the queue, without sitemaps."""
        return len(self._before_links) + sum(map(len, self._levels.values()))

    @property
    def is_empty(self) -> bool:
        """Whether neither a page nor a sitemap is in the queue."""
        return not (self._sitemaps or self._before_links or self._levels)

    @property
    def is_done(self) -> bool:
        """Whether the queue is empty, and each page has been answered."""
        return self.is_empty and not self._under_way

    @property
    def beyond_depth(self) -> set[str]:
        """Keys of the pages that were found only beyond the declared depth."""
        return self._beyond - self._seen

    def not_answered(self, before: Iterable[str]) -> list[str]:
        """URLs of pages and sitemaps in the queue or under way, and those of an earlier crawl's pages, given as
        canonical URLs, that this one did not find.
        """
        queued = chain(
            self._sitemaps,
            self._before_links,
            self._under_way.values(),
            *(level.values() for level in self._levels.values()),
        )
        return [
            *(waiting.url for waiting in queued),
            *(url for url in before if self._policy.key(url) not in self._seen),
        ]

    def leave_out(self, documents: Mapping[str, str], *, by_answer: bool = False) -> None:
        """Notes documents, given as key → type, that are not fetched; `asked`: only their answers told the type."""
        if by_answer:
            self._not_fetched |= documents
        elif len(self._left_out) < self._room:
            self._left_out |= documents

    @property
    def left_out(self) -> dict[str, str]:
        """Key → type of the documents that were left out, without those that another link led to after all."""
        return {key: kind for key, kind in self._left_out.items() if key not in self._seen} | self._not_fetched

    def not_queued(self, keys: Collection[str]) -> int:
        """Number of pages, given by their keys, that were never queued."""
        return len(set(keys) - self._seen)

    def take_sitemap(self) -> Waiting | None:
        """The next sitemap; None if there is none, or the known pages already fill the page limit."""
        return self._sitemaps.popleft() if self._sitemaps and len(self) < self._limits.pages else None

    def take(self) -> Waiting | None:
        """The next page; None if there is none, or none before the pages of lower depth are answered."""
        waiting = self._before_links.popleft() if self._before_links else self._take_link()
        if waiting is not None:
            self._taken[waiting.depth] += 1
            self._under_way[id(waiting)] = waiting
        return waiting

    def _take_link(self) -> Waiting | None:
        level = min(self._levels, default=0)
        if not self._levels or (self._in_step and any(depth < level for depth in self._taken)):
            return None
        return self._without(next(iter(self._levels[level])), level)

    def _without(self, key: str, level: int) -> Waiting:
        """Removes a link from its level and returns it."""
        links = self._levels[level]
        waiting = links.pop(key)
        if not links:
            del self._levels[level]
        return waiting

    def done(self, waiting: Waiting) -> None:
        """Records that a page has been answered and its links are queued."""
        self._under_way.pop(id(waiting), None)
        self._taken[waiting.depth] -= 1
        if not self._taken[waiting.depth]:
            del self._taken[waiting.depth]

    def claim(self, url: str, way: Iterable[str]) -> bool:
        """Whether a redirect's target is new, and marks it as seen. A hop to another spelling of an URL on the way
        counts as new.
        """
        key = self._policy.key_of(url)
        if key in map(self._policy.key_of, way):
            return True
        is_new = key not in self._seen
        self._seen.add(key)
        return is_new

    def add(self, waiting: Waiting, *, is_link: bool = False) -> None:
        """Queues a page that was not found before; plain links go behind the others, until the queue is full.

        A queued plain link moves forward when it is found again in another role or at a lower depth.
        """
        key = self._policy.key(waiting.url)
        if key not in self._seen:
            if is_link and len(self) >= self._room:
                self.unqueued += 1
                return
            self._seen.add(key)
            if is_link:
                self._levels.setdefault(waiting.depth, {})[key] = waiting
            else:
                self._before_links.append(waiting)
            return
        level = next((level for level, links in self._levels.items() if key in links), None)
        if level is not None and (not is_link or waiting.depth < level):
            self._without(key, level)
            self._seen.remove(key)
            self.add(waiting, is_link=is_link)

    def add_links(self, links: Iterable[Link], page: Waiting, chain: Chain | None, content: Page | None = None) -> None:
        """Queues the links of a page; pages of one pagination have the same depth. `content` is the page itself,
        recorded as the origin of its cards.
        """
        card = (
            [content.url, content.sha256, content.content_type]
            if content is not None and self._policy.source.listing is not None
            else []
        )
        for link in links:
            if link.role == "next":
                self.add(Waiting(link.url, page.depth, chain))
            elif page.depth < self._limits.depth:
                self.add(
                    Waiting(link.url, page.depth + 1, card=card if link.role == "detail" else []),
                    is_link=link.role == "link",
                )
            elif len(self._beyond) < self._room:
                self._beyond.add(self._policy.key(link.url))

    def add_sitemap(self, url: str, depth: int = 0) -> bool:
        """Queues a sitemap once. Returns False if there are too many or it is nested too deep; raises ValueError if it
        is not a URL.
        """
        canonical = canonical_url(self._policy.source.secret_parameters.without(url))
        if canonical in self._named:
            return True
        if depth > MAX_NESTING or len(self._named) >= MAX_SITEMAPS:
            return False
        self._named.add(canonical)
        self._sitemaps.append(Waiting(canonical, depth))
        return True
