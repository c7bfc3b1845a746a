"""What earlier crawls of a source are good for: pages of those that were cut off, validators of the last one that counts."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from pydantic import BaseModel

from schemas.items import Page
from spiders.raw import CrawlIndex, Entry, RawStore

STILL_FRESH = timedelta(hours=24)


class Earlier(BaseModel):
    """Crawls by their run ids. Pages of the `interrupted` ones, newest first, are taken over; `concluded` is the newest of a run
    that came to its end, and what it stored is asked for with its validators."""

    interrupted: list[str] = []
    concluded: str | None = None


def earlier_crawls(raw: RawStore, run_id: str, is_concluded: Callable[[str], bool]) -> Earlier:
    """The crawls before `run_id`. A crawl whose last page is older than a day is not taken over: the site has moved on."""
    before = [one for one in raw.crawls() if one < run_id]
    concluded = next((one for one in reversed(before) if is_concluded(one)), None)
    cut_off = [one for one in reversed(before) if concluded is None or one > concluded]
    return Earlier(interrupted=[one for one in cut_off if _is_fresh(raw.index(one).checked_at)], concluded=concluded)


def _is_fresh(checked_at: str) -> bool:
    try:
        return datetime.now(UTC) - datetime.fromisoformat(checked_at) < STILL_FRESH
    except ValueError:  # a crawl without a page
        return False


class EarlierPages:
    """Pages that need not be fetched again, for a running crawl."""

    def __init__(self, raw: RawStore, run_id: str, earlier: Earlier) -> None:
        self._raw = raw
        self._own = raw.index(run_id)  # of a killed attempt at this same crawl
        self._interrupted = [raw.index(one) for one in earlier.interrupted]
        self._concluded = raw.index(earlier.concluded) if earlier.concluded else None

    def arrived(self, url: str) -> tuple[Entry, Page] | None:
        """The page that a crawl which was cut off had stored for a URL."""
        for index in [self._own, *self._interrupted]:
            found = self._whole(index, url)
            if found is not None:
                return found
        return None

    def is_own(self, entry: Entry) -> bool:
        """Whether the entry stands in this crawl's own journal already."""
        return self._own.find(entry.url) == entry

    def concluded(self, url: str) -> Entry | None:
        """What is known of exactly this URL, where it has a validator and its body is there."""
        entry = self._concluded.find(url) if self._concluded else None
        is_known = entry is not None and entry.url == url and (entry.etag or entry.last_modified) and self._raw.has_body(entry.sha256)
        return entry if is_known else None

    def body(self, entry: Entry) -> bytes | None:
        """The stored body; None where it is gone or damaged."""
        return self._raw.body(entry.sha256)

    def _whole(self, index: CrawlIndex, url: str) -> tuple[Entry, Page] | None:
        entry = index.find(url)
        body = self._raw.body(entry.sha256) if entry else None
        return (entry, entry.page(body)) if entry is not None and body is not None else None
