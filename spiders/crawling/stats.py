"""What a crawl's process tells at its end. Apart from that process, so that whoever reads it need not load Scrapy."""

from pydantic import Field, ValidationError

from almanac.schemas.reports import CrawlOutcome
from almanac.spiders.store.raw import RawStore

# What a site or a declaration does not let a crawl have; such a page loses its place.
REFUSED = frozenset({"refused_by_robots", "too_large", "not_text", "off_site", "denied", "private_address", "forgotten"})


class CrawlStats(CrawlOutcome):
    """The outcome, and what tells which pages keep their place.

    `stood_in` are pages that failed or were refused, and whose stored links were followed; `landed` says of an address to which a redirect
    led, and which gave no page, what was asked for; `ended` are numbers of a pagination that has no such page. `sitemaps` were read, or were
    read by the crawl before and merely failed now; `sitemaps_failed` were not.
    """

    stood_in: list[str] = Field(default_factory=list)
    landed: dict[str, str] = Field(default_factory=dict)
    ended: list[str] = Field(default_factory=list)
    sitemaps: list[str] = Field(default_factory=list)
    sitemaps_failed: list[str] = Field(default_factory=list)

    def outcome(self) -> CrawlOutcome:
        """What concerns others of it."""
        return CrawlOutcome.model_validate(self.model_dump(include=set(CrawlOutcome.model_fields)))


def read_stats(raw: RawStore, run_id: str) -> CrawlStats | None:
    """How a crawl ended; None where it did not, or left nothing that can be read."""
    written = raw.stats(run_id)
    try:
        return None if written is None else CrawlStats.model_validate_json(written)
    except ValidationError:
        return None
