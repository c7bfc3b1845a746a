"""Previous crawls of a source: which of their pages can be taken over, and whose validators are used for conditional
requests.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from typing import Literal

from pydantic import BaseModel

from almanac.core.clock import age_of
from almanac.schemas.items import Page
from almanac.spiders.store.journal import CrawlIndex, Entry
from almanac.spiders.store.raw import RawStore

STILL_FRESH = timedelta(hours=24)


# how the run that a crawl belongs to ended; a crawl without stats was itself cut off
Ending = Literal["cut off", "failed", "concluded"]


class PreviousCrawls(BaseModel):
    """Run ids of the previous crawls that a new one uses.

    Attributes:
        interrupted: crawls that were cut off, newest first; their pages are taken over without a request.
        failed: the newest crawl of a failed run, if newer than `concluded`; its pages are requested conditionally.
        concluded: the newest crawl of a run that came to its end; its pages are requested conditionally and may be
            carried over.
        afresh: request every page in full: no page is taken over and no validator sent.
    """

    interrupted: list[str] = []
    failed: str | None = None
    concluded: str | None = None
    afresh: bool = False

    @property
    def newest_first(self) -> list[str]:
        """All run ids, newest first: an interrupted crawl is newer than the failed one, and this newer than the
        concluded one.
        """
        return list(dict.fromkeys([*self.interrupted, *filter(None, (self.failed, self.concluded))]))


def find_previous_crawls(raw: RawStore, run_id: str, ending_of: Callable[[str], Ending]) -> PreviousCrawls:
    """The previous crawls of `run_id`, in the order of their journals. `ending_of` returns how the run of a crawl
    ended.

    Interrupted crawls count only if newer than the last failed or concluded one and less than a day old. Pages of
    complete crawls in failed runs are not taken over: the fault may have been another source's, for days.
    """

    def ending(crawl: str) -> Ending:
        run_ending = ending_of(crawl)
        return "cut off" if run_ending == "failed" and raw.stats(crawl) is None else run_ending

    crawls = raw.crawls()
    previous = PreviousCrawls()
    for crawl in reversed(crawls[: crawls.index(run_id)] if run_id in crawls else crawls):
        match ending(crawl):
            case "concluded":
                previous.concluded = crawl
                break
            case "failed":
                previous.failed = previous.failed or crawl
            case "cut off" if previous.failed is None and is_fresh(raw.index(crawl).checked_at):
                previous.interrupted.append(crawl)
    return previous


def is_fresh(checked_at: str) -> bool:
    """Whether an ISO 8601 time is less than 24 hours ago; False for an empty one, of a crawl without a page, and for
    one in the future.
    """
    age = age_of(checked_at)
    return age is not None and age < STILL_FRESH


class PreviousPages:
    """Stored pages that a running crawl need not fetch again. Pages sent to another requester are not used, except for
    `holds`.
    """

    def __init__(self, raw: RawStore, run_id: str, previous: PreviousCrawls, requester: str) -> None:
        self._raw = raw
        self._own = raw.index(run_id)  # of a killed attempt at this same crawl
        ours = {crawl: index for crawl in previous.newest_first if (index := raw.index(crawl)).requester == requester}
        self._interrupted = (
            [] if previous.afresh else [index for crawl, index in ours.items() if crawl in previous.interrupted]
        )
        self._known = list(ours.values())
        self._is_afresh = previous.afresh
        concluded = previous.concluded or ""
        self._base = ours.get(concluded) or raw.index(concluded)

    def arrived(self, url: str) -> tuple[Entry, Page] | None:
        """The page for a URL that an interrupted crawl has stored; None if there is none."""
        stored = self._whole(self._own, url)
        for index in self._interrupted:
            # The crawl is fresh, but pages that it took over itself may be older.
            if (
                stored is None
                and (older := self._whole(index, url)) is not None
                and is_fresh(older[0].checked_at or older[0].fetched_at)
            ):
                stored = older
        return stored

    def is_own(self, entry: Entry) -> bool:
        """Whether this crawl's own journal already has the entry."""
        return self._own.find(entry.url) == entry

    def known(self, url: str) -> Entry | None:
        """The last entry for exactly this URL with a validator and a stored body; None if there is none."""
        for index in [] if self._is_afresh else self._known:
            entry = index.find(url)
            if entry is None or entry.url != url or (entry.kept and index is not self._base):
                continue
            if (entry.etag or entry.last_modified) and self._raw.has_body(entry.sha256):
                return entry
        return None

    def holds(self, url: str) -> bool:
        """Whether the last concluded crawl had the URL, whichever requester it was sent to."""
        return self._base.leading_on(url) is not None

    def urls(self) -> Iterator[str]:
        """The URLs of the pages that the last concluded crawl had, whichever requester they were sent to."""
        return (entry.url for entry in self._base.in_order() if not entry.links_only)

    def link_text(self, url: str) -> str:
        """What links called the document at a URL in the last concluded crawl."""
        entry = self._base.find(url)
        return "" if entry is None else entry.link_text

    def fallback_page(self, urls: Iterable[str]) -> Page | None:
        """The page last stored for the first of the URLs that has one; None if none has."""
        for url in urls:
            for index in self._known:
                entry = index.leading_on(url)
                if entry is not None and (body := self._raw.body(entry.sha256)) is not None:
                    return entry.page(body)
        return None

    def body(self, entry: Entry) -> bytes | None:
        """The stored body; None if it is missing or damaged."""
        return self._raw.body(entry.sha256)

    def _whole(self, index: CrawlIndex, url: str) -> tuple[Entry, Page] | None:
        entry = index.find(url)
        if entry is None or entry.kept:
            return None
        body = self._raw.body(entry.sha256)
        return None if body is None else (entry, entry.page(body))
