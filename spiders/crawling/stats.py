"""The stats file of a finished crawl. Apart from the crawl's process, so that reading it does not load Scrapy."""

from pydantic import Field, ValidationError

from almanac.schemas.crawl_outcome import CrawlOutcome
from almanac.spiders.selecting.withheld import WITHHELD
from almanac.spiders.store.raw import RawStore

# Reasons by which the site or the declaration withholds a page; such a page is not carried over.
REFUSED = (
    frozenset({"refused_by_robots", "too_large", "not_text", "off_site", "denied", "private_address", "forgotten"})
    | WITHHELD
)


class CrawlStats(CrawlOutcome):
    """The outcome of a crawl with what page carry-over needs.

    Attributes:
        fallbacks_used: failed or refused URLs whose fallback page was used for its links.
        landed: redirect target that yielded no page → the URL that was requested.
        ended: guessed page numbers beyond the end of a pagination.
        sitemaps: sitemaps read by this crawl, also in part, or by the last one where they merely failed now.
        shown_for_unknown: host → hash of what it shows for a made-up URL; without the hosts that answer with no page.
        sitemaps_failed: sitemaps that were not read, or not to their end.
    """

    fallbacks_used: list[str] = Field(default_factory=list)
    landed: dict[str, str] = Field(default_factory=dict)
    ended: list[str] = Field(default_factory=list)
    sitemaps: list[str] = Field(default_factory=list)
    shown_for_unknown: dict[str, str] = Field(default_factory=dict)
    sitemaps_failed: list[str] = Field(default_factory=list)

    def outcome(self) -> CrawlOutcome:
        """The part of the stats that reports contain."""
        return CrawlOutcome.model_validate(self.model_dump(include=set(CrawlOutcome.model_fields)))


def read_stats(raw: RawStore, run_id: str) -> CrawlStats | None:
    """The stats of a crawl; None if it was cut off or they cannot be read."""
    written = raw.stats(run_id)
    try:
        return None if written is None else CrawlStats.model_validate_json(written)
    except ValidationError:
        return None
