"""Queues the URLs that sitemaps list, and records sitemaps that could not be read."""

from collections.abc import Callable

from scrapy.http import Response

from almanac.schemas.crawl_outcome import FailedPage
from almanac.spiders.crawling.frontier import Frontier, Waiting
from almanac.spiders.crawling.problems import ARRIVED, header
from almanac.spiders.crawling.sitemaps import MAX_NESTING, MAX_SITEMAPS, read_sitemap
from almanac.spiders.crawling.tally import Tally
from almanac.spiders.reading.link_lists import MAX_URLS, LinkList
from almanac.spiders.selecting.links import UrlPolicy


class SitemapQueue:
    """Queues the pages and sitemaps that a sitemap lists. `refusal_of` returns why a URL may not be fetched."""

    def __init__(
        self,
        policy: UrlPolicy,
        frontier: Frontier,
        tally: Tally,
        refusal_of: Callable[[str], str | None],
    ) -> None:
        self._policy = policy
        self._frontier = frontier
        self._tally = tally
        self._refusal_of = refusal_of

    def take(self, response: Response, sitemap: Waiting) -> None:
        """Queues the URLs that a response lists; a response that is no sitemap is recorded as a failure."""
        try:
            if response.status not in ARRIVED:
                raise ValueError(f"answered {response.status}")
            links = read_sitemap(response.body, response.url, header(response, "Content-Type") or "")
            self._queue(links, sitemap)
        except ValueError as error:
            reason = "server_error" if response.status >= 500 else "error"
            self.fail(sitemap.url, reason, str(error), status=response.status)
        else:
            self._tally.stats.sitemaps.append(sitemap.url)
            if links.is_cut:  # the pages that it names no more have not vanished
                self.fail(
                    sitemap.url,
                    "error",
                    "it is cut short, and what it names up to there is asked for",
                    status=response.status,
                )

    def fail(self, url: str, reason: str, detail: str, *, status: int | None = None) -> None:
        """Records a sitemap that was not read, or not to its end."""
        self._tally.stats.sitemaps_failed.append(url)
        self._tell(url, reason, detail, status)

    def _queue(self, links: LinkList, sitemap: Waiting) -> None:
        for url in self._policy.sitemap_pages(links.pages):
            self._frontier.add(Waiting(url))
        self._frontier.leave_out(self._policy.sitemap_left_out(links.pages))
        for url in links.sitemaps:
            refusal = self._refusal_of(url)
            if refusal is not None:
                self.fail(url, refusal, f"named by {sitemap.url}")
            elif not self._frontier.add_sitemap(url, sitemap.depth + 1):
                self.fail(
                    url,
                    "error",
                    f"named by {sitemap.url}: more than {MAX_SITEMAPS} sitemaps, or indexes nested deeper than "
                    f"{MAX_NESTING}",
                )
        if links.left:
            self._tell(sitemap.url, "too_large", f"it names more than {MAX_URLS} URLs; {links.left} were left", None)

    def _tell(self, url: str, reason: str, detail: str, status: int | None) -> None:
        # `gone` is for pages; the pages of a missing sitemap are only out of reach.
        self._tally.fail(
            FailedPage(
                url=url,
                reason="error" if reason == "gone" else reason,
                status=status,
                detail=f"sitemap: {detail}" if detail else "sitemap",
            )
        )
