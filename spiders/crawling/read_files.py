"""Reads declared files into the raw store as pages: detects their format, and carries over those that cannot be
read.
"""

import os
import stat
from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path, PurePosixPath

from almanac.core.clock import utc_now
from almanac.core.logs import get_logger
from almanac.core.progress import OnProgress, ignore
from almanac.schemas.crawl_outcome import CrawlOutcome, FailedPage
from almanac.schemas.declaration.source import FilesSource
from almanac.schemas.errors import NoRecords, StorageError, UsageError
from almanac.schemas.items import Page
from almanac.spiders.crawling.fetching_fingerprint import fetching_of
from almanac.spiders.crawling.find_files import FoundFile, NotRead, find_files
from almanac.spiders.crawling.previous_crawls import PreviousCrawls
from almanac.spiders.reading.formats import (
    SNIFFED,
    content_type,
    document_by_content,
    format_of,
    has_known_name,
    may_be_document,
    refusal_of,
    refused_name,
)
from almanac.spiders.store.journal import CrawlIndex, Entry, Head
from almanac.spiders.store.raw import Journal, RawStore

log = get_logger("almanac.files")
_NONE = PreviousCrawls()


def read_files(
    source: FilesSource,
    base: Path,
    raw: RawStore,
    run_id: str,
    *,
    previous: PreviousCrawls = _NONE,
    only: Collection[str] = (),
    forgotten: Collection[str] = (),
    on_page: OnProgress = ignore,
) -> CrawlOutcome:
    """Stores the files that match `source.glob`, relative to the folder `base`, each once.

    A file's URL is its path below the fixed part of the glob (`../notes/**/*.md` → `travel/visa.md`), so that ids do
    not depend on the location of the checkout. A file that cannot be read is carried over from the last concluded
    crawl.

    Args:
        previous: `concluded` names the crawl that files are compared with and carried over from.
        only: read just the files of these URLs and carry over all others.
        forgotten: URLs that were taken down and are not read.
        on_page: called as `on_page(done, 0)` after each file: they are read while they are listed.

    Raises NoRecords if no file matches or none that matches can be read as declared, StorageError if none can be
    opened, UsageError if `only` names no file of now or then.
    """
    before = raw.index(previous.concluded or "")
    if previous.concluded and (before.damaged or not before.exists):
        finding = "the last crawl's journal is damaged or gone: files that it no longer lists are not carried over"
        log.warning(finding, source=source.name, crawl=previous.concluded)
    found: Iterable[FoundFile | NotRead] = find_files(
        base, source.glob, follow_links=source.follow_links, known=before.urls
    )
    if only:
        found = _asked_for(source, found, before, only)
    outcome = CrawlOutcome(source=source.name, crawl=run_id, finish="partial" if only else "finished")
    reading = _Reading(source, before, forgotten, outcome)
    raw.drop_kept(run_id)
    with raw.journal(run_id, Head(fetching=fetching_of(source))) as journal:
        for one in found:
            reading.take(one, journal)
            on_page(reading.files, 0)
        outcome.failures.sort(key=lambda failure: failure.url)  # files are listed in the order of the disk
        reading.require_files(os.path.normpath(base / source.glob))
        reading.carry_over(only, journal)
    return outcome


def read_file(source: FilesSource, url: str, path: Path) -> Page | FailedPage:
    """One file as `read_files` reads it: a page, or why it is none. Stores nothing."""
    outcome = CrawlOutcome(source=source.name, crawl="", finish="partial")
    file = FoundFile(url, os.path.realpath(path))
    page = None if _is_refused(source, file, (), outcome) else _read(source, file, outcome)
    return outcome.failures[0] if page is None else page


def _asked_for(
    source: FilesSource, found: Iterable[FoundFile | NotRead], before: CrawlIndex, only: Collection[str]
) -> list[FoundFile | NotRead]:
    """What was found of `only`. Raises UsageError if no crawl was concluded, or for a URL that is no file now and was
    none then.
    """
    where = f"source {source.name}"
    if not before.exists:
        raise UsageError(
            "no run is complete yet, and --url adds files to one",
            where=where,
            hint="almanac run KB, without --url, first",
        )
    example, asked = "none is there", []
    for one in found:
        example = one.url or example
        if one.url in only or (isinstance(one, NotRead) and one.is_folder):
            asked.append(one)
    for url in set(only) - {one.url for one in asked} - before.urls:
        raise UsageError(
            f"no file is called {url}",
            where=where,
            hint=f"a file's URL is its path below the fixed part of {source.glob}: {example}",
        )
    return asked


class _Reading:
    """The reading of one source's files. `files` counts those that were found, read or not."""

    def __init__(
        self, source: FilesSource, before: CrawlIndex, forgotten: Collection[str], outcome: CrawlOutcome
    ) -> None:
        self._source = source
        self._before = before
        self._forgotten = forgotten
        self._outcome = outcome
        self._shut: dict[str, str] = {}  # folders that cannot be listed, and why
        self._missing = before.urls  # those of the last crawl that were not found yet
        self.files = 0

    def take(self, found: FoundFile | NotRead, journal: Journal) -> None:
        """Stores a file, or records why it is not read."""
        if isinstance(found, NotRead) and found.is_folder:
            self._shut[found.url] = found.detail
            return
        self.files += 1
        self._missing.discard(found.url)
        if isinstance(found, NotRead):
            _leave_out(self._outcome, found)
        elif not _is_refused(self._source, found, self._forgotten, self._outcome):
            page = _read(self._source, found, self._outcome)
            if page is not None:
                _store(page, self._before, journal, self._outcome)

    def require_files(self, pattern: str) -> None:
        """Raises StorageError or NoRecords if not a single file could be read."""
        outcome, where = self._outcome, f"source {self._source.name}"
        if outcome.pages.present or (outcome.finish == "partial" and not outcome.pages.failed):
            return
        if not self.files and not self._shut:
            hint = "the glob is relative to the declaration's folder; `**` goes into folders"
            raise NoRecords(f"no file matches {pattern}", where=where, hint=hint)
        failed = next(
            (failure.detail for failure in outcome.failures if failure.reason == "error"),
            next(iter(self._shut.values()), None),
        )
        if failed is not None:
            finding = (
                f"none of {self.files} files can be read"
                if self.files
                else "no file is found, and a folder cannot be looked into"
            )
            raise StorageError(f"{finding}: {failed}", where=pattern, hint="mend their permissions")
        first = outcome.failures[0]
        hint = (
            "raise `limits: {bytes_per_file: …}`"
            if first.reason == "too_large"
            else first.detail or "declare `format:`"
        )
        raise NoRecords(
            f"{self.files} files match {pattern}, none that can be read: {first.url}: {first.reason}",
            where=where,
            hint=hint,
        )

    def carry_over(self, only: Collection[str], journal: Journal) -> None:
        """Carries over files that could not be read or were not asked for; files that no longer exist count as
        vanished.
        """
        outcome, shut = self._outcome, dict(self._shut)
        failed = {failure.url for failure in outcome.failures if failure.reason == "error"}
        for entry in self._before.select(self._missing | failed):
            url = entry.url
            if url in failed:
                _keep(journal, replace(entry, kept="error", unchanged=False), outcome)
            elif only and url not in only:
                _keep(journal, replace(entry, kept="not_asked", unchanged=False), outcome)
            elif (folder := next((folder for folder in self._shut if url.startswith(folder)), None)) is not None:
                shut.pop(folder, None)
                _leave_out(outcome, NotRead(url, "error", self._shut[folder]))
                _keep(journal, replace(entry, kept="error", unchanged=False), outcome)
            else:
                outcome.vanished.append(url)
        for folder, detail in shut.items():
            _leave_out(outcome, NotRead(folder or "/", "error", detail))
        outcome.pages.vanished = len(outcome.vanished)


def _store(page: Page, before: CrawlIndex, journal: Journal, outcome: CrawlOutcome) -> None:
    """Stores a file; one with the same bytes as last time is noted as unchanged and keeps its time."""
    known = before.find(page.url)
    if known is not None and known.sha256 == page.sha256:
        journal.store.keep_body(page.sha256, page.body)
        journal.repeat(
            replace(
                known, content_type=page.content_type, checked_at=page.fetched_at, unchanged=True, kept="", misses=0
            )
        )
        outcome.pages.unchanged += 1
    else:
        journal.add(page)
        outcome.pages.fetched += 1
    outcome.bytes += len(page.body)


def _keep(journal: Journal, entry: Entry, outcome: CrawlOutcome) -> None:
    journal.keep(entry, ())
    outcome.kept += 1


def _is_refused(source: FilesSource, file: FoundFile, forgotten: Collection[str], outcome: CrawlOutcome) -> bool:
    """Whether a file is not for reading: taken down, or of a format that is not read. Recorded in the outcome."""
    url = file.url
    if url in forgotten:
        _refuse(outcome, url, "forgotten", "it was taken down")
        return True
    if source.format == "auto" and not has_known_name(url):
        refused = refused_name(url)
        if refused is not None or not _may_be_document(file):
            _refuse(outcome, url, _unsupported(url), "" if refused is None else f"it is {refused}")
            return True
    return False


def _unsupported(url: str) -> str:
    return f"unsupported format {PurePosixPath(url).suffix or 'without suffix'}"


def _may_be_document(file: FoundFile) -> bool:
    """Whether a file without a name that says anything may be a document by its first bytes. One that cannot be opened
    is left to whoever reads it.
    """
    try:
        return may_be_document(_bytes_of(file.path, SNIFFED))
    except OSError:
        return True


def _read(source: FilesSource, file: FoundFile, outcome: CrawlOutcome) -> Page | None:
    """The file as a page; None if it cannot be read or is too large, which the outcome records."""
    limit, url = source.limits.bytes_per_file, file.url
    try:
        body = _bytes_of(file.path, limit + 1)
    except FileNotFoundError:
        _leave_out(outcome, NotRead(url, "gone", "it was removed before it was read"))
        return None
    except OSError as error:
        _leave_out(outcome, NotRead(url, "error", error.strerror or str(error)))
        return None
    if len(body) > limit:
        _refuse(outcome, url, "too_large", f"more than {limit} bytes: limits.bytes_per_file")
        return None
    if source.format == "auto" or source.format == "faq":
        kind = format_of(url, body, default="markdown" if source.format == "faq" else "text")
    else:
        kind = source.format
    if source.format == "auto" and not has_known_name(url) and document_by_content(body) is None:
        _refuse(outcome, url, _unsupported(url), refusal_of(body) or "")
        return None
    read_at = utc_now()
    return Page(url=url, body=body, content_type=content_type(url, kind), fetched_at=read_at, requested_url=url)


def _bytes_of(path: str, size: int) -> bytes:
    """At most `size` bytes of a regular file; OSError for anything else that has taken its place, which is not waited
    for.
    """
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError("it is no file any more")
        return file.read(size)


def _leave_out(outcome: CrawlOutcome, left: NotRead) -> None:
    if left.reason == "error":
        outcome.pages.failed += 1
    elif left.reason == "gone":
        outcome.pages.gone += 1
    else:
        outcome.pages.refused += 1
    outcome.failures.append(FailedPage(url=left.url, reason=left.reason, detail=left.detail))


def _refuse(outcome: CrawlOutcome, url: str, reason: str, detail: str = "") -> None:
    outcome.pages.refused += 1
    outcome.failures.append(FailedPage(url=url, reason=reason, detail=detail))
