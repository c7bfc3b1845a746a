"""Counts what became of the pages of a crawl."""

from almanac.schemas.crawl_outcome import FailedPage, PageCounts
from almanac.schemas.declaration.source import SiteSource
from almanac.spiders.crawling.stats import REFUSED, CrawlStats


class Tally:
    """The counts of a crawl under way.

    Attributes:
        stats: what is known so far of the crawl's outcome, without its counts of pages.
    """

    def __init__(self, source: SiteSource) -> None:
        self.stats = CrawlStats(source=source.name)
        self._masked = source.secret_parameters.masked
        self._counts = dict.fromkeys(PageCounts.model_fields, 0)
        self._withheld = 0

    @property
    def done(self) -> int:
        """Number of pages that arrived, those that yield no item included."""
        return self._counts["fetched"] + self._counts["unchanged"] + self._withheld

    @property
    def pages(self) -> PageCounts:
        return PageCounts(**self._counts)

    def arrive(self, size: int, *, is_unchanged: bool) -> None:
        """Counts a page of `size` bytes that may yield items."""
        self._counts["unchanged" if is_unchanged else "fetched"] += 1
        self.stats.bytes += size

    def withhold(self, failure: FailedPage, size: int) -> None:
        """Counts a page of `size` bytes that arrived, and yields no item."""
        self._withheld += 1
        self.stats.bytes += size
        self.fail(failure)

    def fail(self, failure: FailedPage) -> None:
        """Counts a page that did not arrive, or yields no item."""
        self._counts["gone" if failure.reason == "gone" else "refused" if failure.reason in REFUSED else "failed"] += 1
        self.stats.failures.append(failure.model_copy(update={"detail": self._masked(failure.detail)}))
