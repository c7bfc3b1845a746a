"""Page carry-over: decides which pages of the last crawl stay although this crawl did not fetch them, and which are
dropped, and why.

Only a complete crawl can prove that a page has vanished. A page that merely failed is carried over.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

from almanac.core.logs import get_logger
from almanac.schemas.crawl_outcome import FailedPage
from almanac.schemas.declaration.source import SiteSource
from almanac.spiders.crawling.stats import REFUSED, CrawlStats
from almanac.spiders.reading.linked_types import type_of_headers
from almanac.spiders.selecting.links import UrlPolicy
from almanac.spiders.store.journal import CrawlIndex, Entry
from almanac.spiders.store.raw import Journal, RawStore

log = get_logger("almanac.page_carryover")
_MET = "met"
_ENDED = "ended"


def carry_over_pages(
    source: SiteSource,
    raw: RawStore,
    run_id: str,
    base_id: str,
    before: CrawlStats | None,
    stats: CrawlStats,
    forgotten: Iterable[str],
) -> None:
    """Carries pages over from crawl `base_id` into the journal of `run_id`, and records in `stats` those that vanished.

    Args:
        base_id: the last concluded crawl.
        before: outcome of that crawl; None if it is not known.
        stats: outcome of this crawl; `kept`, `vanished` and `sitemaps` are updated.
        forgotten: URLs that were taken down; they are neither carried over nor counted.
    """
    base = raw.index(base_id)
    if not base.exists or base.damaged:
        finding = "the last crawl's journal is damaged: pages that it no longer lists are not carried over"
        log.warning(finding, source=source.name, crawl=base_id, lines=base.damaged)
    now = raw.index(run_id)
    stats.sitemaps = sorted({*stats.sitemaps, *_expected_again(before, stats)})
    left = base.all_urls - now.urls
    if not left:
        return
    fates = _Fates(UrlPolicy(source), now, stats)
    is_complete = stats.finish == "finished" and not stats.unqueued and not _hides_pages(base, fates, before, stats)
    places = _CarryOver(
        source, base, now.requester == base.requester, fates, {fates.key(url) for url in forgotten}, stats, is_complete
    )
    with raw.journal(run_id) as journal:
        for entry in base.select(left):
            places.decide(entry, journal)
    stats.pages.vanished = len(stats.vanished)


class _Fates:
    """What became of each URL that the crawl came upon: met, ended, or the reason of its failure."""

    def __init__(self, policy: UrlPolicy, now: CrawlIndex, stats: CrawlStats) -> None:
        self.policy = policy
        self.failures = {
            self.key(failure.url): failure for failure in stats.failures if not failure.detail.startswith("sitemap")
        }
        self._by_key: dict[str, str] = dict.fromkeys(map(self.key, stats.ended), _ENDED)
        self._by_key |= {key: failure.reason for key, failure in self.failures.items()}
        for url, requested_url in stats.landed.items():
            if (fate := self._by_key.get(self.key(requested_url))) is not None:
                self._by_key.setdefault(self.key(url), fate)
        for entry in now.in_order():
            self._by_key |= dict.fromkeys(map(self.key, {entry.url, entry.requested_url, *entry.redirects}), _MET)
        # An alias has the fate of the page that it redirects to.
        for alias, url in now.further_urls.items():
            if (fate := self._by_key.get(self.key(url))) is not None:
                self._by_key[self.key(alias)] = fate

    def key(self, url: str) -> str:
        """The key that identifies a URL under the present declaration, which may ignore more parameters than the last
        crawl's.
        """
        with suppress(ValueError):
            return self.policy.key(self.policy.canonical(url))
        return url

    def fate_of_url(self, url: str) -> str | None:
        """The fate of a URL; None if the crawl did not come upon it."""
        return self._by_key.get(self.key(url))

    def fate_of_page(self, entry: Entry, aliases: list[str]) -> str | None:
        """The fate of a page: that of its own URL, else of the URLs that led to it; None if none was found. Transient
        failures take precedence.
        """
        own = self.fate_of_url(entry.url)
        if own is not None:
            return own
        ways = [self.fate_of_url(url) for url in (entry.requested_url, *entry.redirects)]
        reasons = [fate for fate in [*ways, *map(self.fate_of_url, aliases)] if fate not in (None, _MET, _ENDED)]
        transient = [reason for reason in reasons if reason != "gone" and reason not in REFUSED]
        # If the URLs that led to it lead to another page now, it has moved.
        return next(iter([*transient, *reasons, *(_MET for fate in ways if fate == _MET)]), None)


class _CarryOver:
    """Decides whether to carry over each page of the last crawl."""

    def __init__(
        self,
        source: SiteSource,
        base: CrawlIndex,
        is_ours: bool,
        fates: _Fates,
        forgotten: set[str],
        stats: CrawlStats,
        is_complete: bool,
    ) -> None:
        self._source = source
        self._base = base
        self._is_ours = is_ours
        self._fates = fates
        self._forgotten = forgotten
        self._stats = stats
        self._is_complete = is_complete

    def decide(self, entry: Entry, journal: Journal) -> None:
        """Carries one page over into `journal`, counts it as vanished, or drops it."""
        aliases = self._base.aliases(entry)
        fate = self._fates.fate_of_page(entry, aliases)
        if fate in (_MET, "gone") or self._fates.key(entry.url) in self._forgotten:
            return
        if (
            fate == _ENDED
            or self._is_off_limits(entry.url)
            or type_of_headers(entry.content_type) not in (None, *self._source.documents)
        ):
            self._drop(entry)
        elif fate in REFUSED:
            # Pages behind it may still be available, and would seem to have vanished without its links.
            if fate != "forgotten":
                journal.keep(self._mark_kept(entry, str(fate), links_only=True), aliases)
        elif fate is not None:
            self._keep(self._mark_kept(entry, fate), aliases, journal)
        elif not self._is_complete:
            self._keep(self._mark_kept(entry, "not_asked", entry.misses), aliases, journal)
        elif entry.misses + 1 < self._source.vanish_after and not entry.links_only:
            self._keep(self._mark_kept(entry, "missed", entry.misses + 1), aliases, journal)
        else:
            self._drop(entry)

    def _mark_kept(self, entry: Entry, why: str, misses: int = 0, *, links_only: bool = False) -> Entry:
        # Validators of a page sent to another requester must not be used by this one.
        ours = entry if self._is_ours else replace(entry, etag=None, last_modified=None)
        return replace(ours, kept=why, misses=misses, unchanged=False, links_only=links_only or entry.links_only)

    def _keep(self, entry: Entry, aliases: list[str], journal: Journal) -> None:
        journal.keep(entry, [alias for alias in aliases if self._fates.fate_of_url(alias) != _MET])
        self._stats.kept += not entry.links_only

    def _drop(self, entry: Entry) -> None:
        if not entry.links_only:
            self._stats.vanished.append(entry.url)

    def _is_off_limits(self, url: str) -> bool:
        """Whether the declaration excludes the page now, whatever the site answers."""
        return not self._fates.policy.is_on_site(url) or self._fates.policy.is_denied(url)


def _hides_pages(base: CrawlIndex, fates: _Fates, before: CrawlStats | None, stats: CrawlStats) -> bool:
    """Whether a page or sitemap that was not fetched may lead to pages that nothing else leads to."""
    followed = set(map(fates.key, stats.fallbacks_used))
    failed_before = {fates.key(failure.url) for failure in before.failures} if before else set()
    base_keys = {fates.key(url) for url in base.all_urls} if fates.failures else set()
    for key, failure in fates.failures.items():
        if failure.reason in ("gone", "forgotten") or key in followed:
            continue
        was_page = key in base_keys and fates.fate_of_url(key) != _MET
        if was_page or (failure.reason not in REFUSED and key not in failed_before):
            return True
    return any(_hides_entries(url, before, failed_before, fates) for url in stats.sitemaps_failed)


def _hides_entries(sitemap: str, before: CrawlStats | None, failed_before: set[str], fates: _Fates) -> bool:
    """Whether a failed sitemap may list pages that nothing else leads to: not if it failed in the last crawl too and
    was not read before that.
    """
    return before is None or sitemap in before.sitemaps or fates.key(sitemap) not in failed_before


def _expected_again(before: CrawlStats | None, stats: CrawlStats) -> set[str]:
    """Sitemaps read by an earlier crawl and not by this one, whose entries stay unknown until they are read again or
    are gone.
    """
    final = {failure.url for failure in stats.failures if _is_final(failure)}
    failed = set(stats.sitemaps_failed)
    read_before = set(before.sitemaps) if before else failed
    return (read_before & failed) - final if stats.finish == "finished" else read_before - final


def _is_final(failure: FailedPage) -> bool:
    return failure.status in (404, 410) or failure.reason in REFUSED
