"""Reads declared files into the raw store as pages: detects their format, and carries over those that cannot be
read.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from almanac.core.clock import utc_now
from almanac.core.logs import get_logger
from almanac.core.progress import OnProgress, ignore
from almanac.schemas.crawl_outcome import CrawlOutcome, FailedPage
from almanac.schemas.declaration.source import FilesSource
from almanac.schemas.errors import NoRecords, StorageError, UsageError
from almanac.schemas.items import Page
from almanac.spiders.crawling.fetching_fingerprint import fetching_of
from almanac.spiders.crawling.file_places import FilePlace, ReadableFile, place_of
from almanac.spiders.crawling.find_files import NotRead
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
    """Stores the files that match `source.glob`, relative to the folder `base` or in the place that it names, each
    once.

    A file's URL is its path below the fixed part of the glob (`../notes/**/*.md` → `travel/visa.md`), so that ids do
    not depend on the location of the checkout. A file that cannot be read is carried over from the last concluded
    crawl. One whose ETag is that of an earlier crawl is not fetched again, unless `previous` says `afresh`: its stored
    body is read.

    Args:
        previous: `concluded` names the crawl that files are compared with and carried over from.
        only: read just the files of these URLs and carry over all others.
        forgotten: URLs that were taken down and are not read.
        on_page: called as `on_page(done, 0)` after each file: they are read while they are listed.

    Raises NoRecords if no file matches or none that matches can be read as declared, StorageError if none can be
    opened, UsageError if `only` names no file of now or then, and what the place raises that cannot be listed.
    """
    before = raw.index(previous.concluded or "")
    if previous.concluded and (before.damaged or not before.exists):
        finding = "the last crawl's journal is damaged or gone: files that it no longer lists are not carried over"
        log.warning(finding, source=source.name, crawl=previous.concluded)
    finish = "partial" if only else "finished"
    outcome = CrawlOutcome(source=source.name, crawl=run_id, finish=finish, counted="files")
    cut_off = [raw.index(crawl) for crawl in previous.interrupted]
    # also what a failed run has fetched, and an earlier attempt at this crawl
    failed = [raw.index(crawl) for crawl in (previous.failed, run_id) if crawl is not None]
    stored = _Stored(raw, [] if previous.afresh else [before, *cut_off, *failed])
    reading = _Reading(source, before, cut_off, forgotten, outcome)

    def is_wanted(file: ReadableFile) -> bool:
        return (not only or file.url in only) and reading.is_wanted(file) and not stored.has(file)

    raw.drop_kept(run_id)
    with place_of(source, base) as place, raw.journal(run_id, Head(fetching=fetching_of(source))) as journal:
        files: Iterable[ReadableFile | NotRead] = place.find(before.urls, is_wanted)
        if only:
            files = _pick_named_files(source, files, before, only)
        for file in files:
            reading.take(file if isinstance(file, NotRead) else stored.instead_of(file), journal)
            on_page(reading.files, 0)
        outcome.failures.sort(key=lambda failure: failure.url)  # files are listed in the order of the disk
        reading.require_files(place)
        reading.carry_over(only, journal)
    return outcome


def read_file(source: FilesSource, file: ReadableFile) -> Page | FailedPage:
    """One file as `read_files` reads it: a page, or why it is none. Stores nothing."""
    outcome = CrawlOutcome(source=source.name, crawl="", finish="partial")
    page = None if _is_refused(source, file, (), outcome) else _read(source, file, outcome)
    return outcome.failures[0] if page is None else page


def _pick_named_files(
    source: FilesSource, files: Iterable[ReadableFile | NotRead], before: CrawlIndex, only: Collection[str]
) -> list[ReadableFile | NotRead]:
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
    example, named_files = "none is there", []
    for file in files:
        example = file.url or example
        if file.url in only or (isinstance(file, NotRead) and file.is_folder):
            named_files.append(file)
    for url in set(only) - {file.url for file in named_files} - before.urls:
        raise UsageError(
            f"no file is called {url}",
            where=where,
            hint=f"a file's URL is its path below the fixed part of {source.glob}: {example}",
        )
    return named_files


@dataclass(frozen=True, slots=True)
class _StoredFile:
    """A file whose content an earlier crawl has stored."""

    url: str
    etag: str
    body: bytes

    @property
    def size(self) -> int:
        return len(self.body)

    def read(self, size: int) -> bytes:
        return self.body[:size]


@dataclass(frozen=True, slots=True)
class _Stored:
    """What the crawls with these indexes have stored, by URL and ETag."""

    raw: RawStore
    indexes: Sequence[CrawlIndex]

    def has(self, file: ReadableFile) -> bool:
        return any(self.raw.has_body(digest) for digest in self._digests(file))

    def instead_of(self, file: ReadableFile) -> ReadableFile:
        """The file with its stored body; as it is where none is stored, or none that is intact."""
        bodies = (self.raw.body(digest) for digest in self._digests(file))
        body = next((body for body in bodies if body is not None), None)
        return file if body is None else _StoredFile(file.url, file.etag, body)

    def _digests(self, file: ReadableFile) -> Iterable[str]:
        entries = (index.find(file.url) for index in self.indexes if file.etag)
        return (entry.sha256 for entry in entries if entry is not None and entry.etag == file.etag)


class _Reading:
    """The reading of one source's files. `files` counts those that were found, read or not."""

    def __init__(
        self,
        source: FilesSource,
        before: CrawlIndex,
        cut_off: Sequence[CrawlIndex],
        forgotten: Collection[str],
        outcome: CrawlOutcome,
    ) -> None:
        self._source = source
        self._before, self._cut_off = before, cut_off
        self._forgotten = forgotten
        self._outcome = outcome
        self._shut: dict[str, str] = {}  # folders that cannot be listed, and why
        self._missing = before.urls  # those of the last crawl that were not found yet
        self.files = 0

    def is_wanted(self, file: ReadableFile) -> bool:
        """Whether a file is going to be read, as far as its name and size tell."""
        is_refused = self._source.format == "auto" and refused_name(file.url) is not None
        return not is_refused and file.url not in self._forgotten and not _is_too_large(self._source, file)

    def take(self, file: ReadableFile | NotRead, journal: Journal) -> None:
        """Stores a file, or records why it is not read."""
        if isinstance(file, NotRead) and file.is_folder:
            self._shut[file.url] = file.detail
            return
        self.files += 1
        self._missing.discard(file.url)
        if isinstance(file, NotRead):
            _leave_out(self._outcome, file)
        elif not _is_refused(self._source, file, self._forgotten, self._outcome):
            page = _read(self._source, file, self._outcome)
            if page is not None:
                _store(page, self._before, self._cut_off, journal, self._outcome)

    def require_files(self, place: FilePlace) -> None:
        """Raises StorageError or NoRecords if not a single file could be read."""
        outcome, where, pattern = self._outcome, f"source {self._source.name}", place.shown
        if outcome.pages.present or (outcome.finish == "partial" and not outcome.pages.failed):
            return
        if not self.files and not self._shut:
            hint = f"the glob is relative to {place.start}; `**` goes into folders"
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


def _store(
    page: Page, before: CrawlIndex, cut_off: Sequence[CrawlIndex], journal: Journal, outcome: CrawlOutcome
) -> None:
    """Stores a file; one with the same bytes as last time is noted as unchanged and keeps its time. One that a crawl
    has read that was cut off keeps that time, too: its rows may be in the staged collection.
    """
    known = before.find(page.url)
    if known is not None and known.sha256 == page.sha256:
        journal.store.keep_body(page.sha256, page.body)
        journal.repeat(
            replace(
                known,
                content_type=page.content_type,
                etag=page.etag,
                checked_at=page.fetched_at,
                unchanged=True,
                kept="",
                misses=0,
            )
        )
        outcome.pages.unchanged += 1
    else:
        seen = (entry for index in cut_off if (entry := index.find(page.url)) and entry.sha256 == page.sha256)
        first = next(seen, None)
        journal.add(page if first is None else replace(page, fetched_at=first.fetched_at))
        outcome.pages.fetched += 1
    outcome.bytes += len(page.body)


def _keep(journal: Journal, entry: Entry, outcome: CrawlOutcome) -> None:
    journal.keep(entry, ())
    outcome.kept += 1


def _is_refused(source: FilesSource, file: ReadableFile, forgotten: Collection[str], outcome: CrawlOutcome) -> bool:
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


def _may_be_document(file: ReadableFile) -> bool:
    """Whether a file without a name that says anything may be a document by its first bytes. One that cannot be opened
    is left to whoever reads it.
    """
    try:
        return may_be_document(file.read(SNIFFED))
    except OSError:
        return True


def _is_too_large(source: FilesSource, file: ReadableFile) -> bool:
    return file.size is not None and file.size > source.limits.bytes_per_file


def _read(source: FilesSource, file: ReadableFile, outcome: CrawlOutcome) -> Page | None:
    """The file as a page; None if it cannot be read or is too large, which the outcome records."""
    limit, url = source.limits.bytes_per_file, file.url
    try:
        body = b"" if _is_too_large(source, file) else file.read(limit + 1)
    except FileNotFoundError:
        _leave_out(outcome, NotRead(url, "gone", "it was removed before it was read"))
        return None
    except OSError as error:
        _leave_out(outcome, NotRead(url, "error", error.strerror or str(error)))
        return None
    if len(body) > limit or _is_too_large(source, file):
        _refuse(outcome, url, "too_large", f"more than {limit} bytes: limits.bytes_per_file")
        return None
    if source.format == "auto" or source.format == "faq":
        kind = format_of(url, body, default="markdown" if source.format == "faq" else "text")
    else:
        kind = source.format
    if source.format == "auto" and not has_known_name(url) and document_by_content(body) is None:
        _refuse(outcome, url, _unsupported(url), refusal_of(body) or "")
        return None
    media, read_at = content_type(url, kind), utc_now()
    return Page(url=url, body=body, content_type=media, fetched_at=read_at, requested_url=url, etag=file.etag or None)


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
