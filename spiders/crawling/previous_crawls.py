"""What earlier crawls of a source are good for: pages of those that were cut off, validators of the last ones that were not."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Literal

from pydantic import BaseModel

from almanac.schemas.items import Page
from almanac.spiders.store.journal import CrawlIndex, Entry
from almanac.spiders.store.raw import RawStore

STILL_FRESH = timedelta(hours=24)


Ending = Literal["cut off", "failed", "concluded"]  # of the run that a crawl belongs to; a crawl without its stats was cut off itself


class PreviousCrawls(BaseModel):
    """Crawls by their run ids. Pages of the `interrupted` ones, newest first, are taken over. What the newest of a run that `failed`
    and that of one that came to its end, `concluded`, have stored is asked for with its validators, unless `afresh` is set: then every
    page is sent again, and none is taken over. The pages of `concluded` are those that may keep their place."""

    interrupted: list[str] = []
    failed: str | None = None
    concluded: str | None = None
    afresh: bool = False

    @property
    def newest_first(self) -> list[str]:
        return sorted({*self.interrupted, *filter(None, (self.failed, self.concluded))}, reverse=True)


def find_previous_crawls(raw: RawStore, run_id: str, ending_of: Callable[[str], Ending]) -> PreviousCrawls:
    """The crawls before `run_id`. Pages older than a day are not taken over: the site has moved on. Nor are those of a crawl that came to
    its end in a run that failed and said so: what was wrong may have been another source, for days."""

    def ending(one: str) -> Ending:
        told = ending_of(one)
        return "cut off" if told == "failed" and raw.stats(one) is None else told

    before = [(one, ending(one)) for one in reversed(raw.crawls()) if one < run_id]
    newest = {ending: one for one, ending in reversed(before)}
    failed, concluded = newest.get("failed", ""), newest.get("concluded", "")
    cut_off = [one for one, _ in before if one > max(failed, concluded) and is_fresh(raw.index(one).checked_at)]
    return PreviousCrawls(interrupted=cut_off, failed=failed if failed > concluded else None, concluded=concluded or None)


def is_fresh(checked_at: str) -> bool:
    """Whether a time is less than a day ago."""
    try:
        return datetime.now(UTC) - datetime.fromisoformat(checked_at) < STILL_FRESH
    except ValueError:  # a crawl without a page
        return False


class PreviousPages:
    """Pages that need not be fetched again, for a running crawl. What was sent to somebody else, as another requester, is none of its business."""

    def __init__(self, raw: RawStore, run_id: str, previous: PreviousCrawls, requester: str) -> None:
        self._raw = raw
        self._own = raw.index(run_id)  # of a killed attempt at this same crawl
        ours = {one: index for one in previous.newest_first if (index := raw.index(one)).requester == requester}
        self._interrupted = [] if previous.afresh else [index for one, index in ours.items() if one in previous.interrupted]
        self._known = list(ours.values())
        self._is_afresh = previous.afresh
        concluded = previous.concluded or ""
        self._base = ours.get(concluded) or raw.index(concluded)

    def arrived(self, url: str) -> tuple[Entry, Page] | None:
        """The page that a crawl which was cut off had stored for a URL."""
        found = self._whole(self._own, url)
        for index in self._interrupted:
            # A crawl may have taken over pages itself: it is young, and they need not be.
            if found is None and (older := self._whole(index, url)) is not None and is_fresh(older[0].checked_at or older[0].fetched_at):
                found = older
        return found

    def is_own(self, entry: Entry) -> bool:
        """Whether the entry stands in this crawl's own journal already."""
        return self._own.find(entry.url) == entry

    def known(self, url: str) -> Entry | None:
        """What was last known of exactly this URL, where it has a validator and its body is there."""
        for index in [] if self._is_afresh else self._known:
            entry = index.find(url)
            if entry is None or entry.url != url or (entry.kept and index is not self._base):
                continue
            if (entry.etag or entry.last_modified) and self._raw.has_body(entry.sha256):
                return entry
        return None

    def holds(self, url: str) -> bool:
        """Whether there was such a page before, whoever asked for it."""
        return self._base.leading_on(url) is not None

    def fallback_page(self, urls: Iterable[str]) -> Page | None:
        """The page that was last stored for the first of the URLs that has one: what it led to is there, although it fails now."""
        for url in urls:
            for index in self._known:
                entry = index.leading_on(url)
                if entry is not None and (body := self._raw.body(entry.sha256)) is not None:
                    return entry.page(body)
        return None

    def body(self, entry: Entry) -> bytes | None:
        """The stored body; None where it is gone or damaged."""
        return self._raw.body(entry.sha256)

    def _whole(self, index: CrawlIndex, url: str) -> tuple[Entry, Page] | None:
        entry = index.find(url)
        if entry is None or entry.kept:
            return None
        body = self._raw.body(entry.sha256)
        return None if body is None else (entry, entry.page(body))
