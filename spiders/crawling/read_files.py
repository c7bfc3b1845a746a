"""Reads declared files into the raw store as pages: finds them, detects their format, and carries over those that cannot be read."""

import glob
import os
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import structlog

from almanac.core.clock import utc_now
from almanac.core.progress import OnProgress, ignore
from almanac.schemas.declaration.source import FilesSource
from almanac.schemas.errors import NoRecords, StorageError, UsageError
from almanac.schemas.items import Page
from almanac.schemas.reports import CrawlOutcome, FailedPage
from almanac.spiders.crawling.fetching_fingerprint import fetching_of
from almanac.spiders.crawling.previous_crawls import PreviousCrawls
from almanac.spiders.reading.formats import SNIFFED, content_type, document_by_content, format_of, has_known_name, may_be_document, refusal_of, refused_name
from almanac.spiders.store.journal import CrawlIndex, Entry, Head
from almanac.spiders.store.raw import Journal, RawStore

log = structlog.get_logger("almanac.files")
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
    """Stores the files that match `source.glob`, relative to the folder `base`.

    A file's URL is its path below the fixed part of the glob (`../notes/**/*.md` → `travel/visa.md`), so that ids do not depend on the location of
    the checkout. A file that cannot be read is carried over from the last concluded crawl.

    Args:
        previous: `concluded` names the crawl that files are compared with and carried over from.
        only: read just the files of these URLs and carry over all others.
        forgotten: URLs that were taken down and are not read.
        on_page: called as `on_page(done, total)` after each file.

    Raises NoRecords if no file matches or none that matches can be read as declared, StorageError if none can be opened, UsageError if `only` names no
    file of now or then.
    """
    files = find_files(base, source.glob)
    pattern = os.path.normpath(base / source.glob)
    before = raw.index(previous.concluded or "")
    if previous.concluded and (before.damaged or not before.exists):
        finding = "the last crawl's journal is damaged or gone: files that it no longer lists are not carried over"
        log.warning(finding, source=source.name, crawl=previous.concluded)
    if only:
        _require_known(source, files, before, only)
        files = {url: path for url, path in files.items() if url in only}
    elif not files:
        hint = "the glob is relative to the declaration's folder; `**` goes into folders"
        raise NoRecords(f"no file matches {pattern}", where=f"source {source.name}", hint=hint)
    outcome = CrawlOutcome(source=source.name, crawl=run_id, finish="partial" if only else "finished")
    raw.drop_kept(run_id)
    with raw.journal(run_id, Head(fetching=fetching_of(source))) as journal:
        for number, (url, path) in enumerate(files.items(), start=1):
            page = None if _is_refused(source, url, path, forgotten, outcome) else _read(source, url, path, outcome)
            if page is not None:
                _store(page, before, journal, outcome)
            on_page(number, len(files))
        _require_files(source, pattern, len(files), outcome)
        _carry_over_files(base, source, before, files.keys(), only, journal, outcome)
    return outcome


def read_file(source: FilesSource, url: str, path: Path) -> Page | FailedPage:
    """One file as `read_files` reads it: a page, or why it is none. Stores nothing."""
    outcome = CrawlOutcome(source=source.name, crawl="", finish="partial")
    page = None if _is_refused(source, url, path, (), outcome) else _read(source, url, path, outcome)
    return outcome.failures[0] if page is None else page


def _require_known(source: FilesSource, files: dict[str, Path], before: CrawlIndex, only: Collection[str]) -> None:
    """Raises UsageError if no crawl was concluded, or for a URL that is no file now and was none then."""
    where = f"source {source.name}"
    if not before.exists:
        raise UsageError("no run is complete yet, and --url adds files to one", where=where, hint="almanac run KB, without --url, first")
    for url in only:
        if url not in files and url not in before.urls:
            hint = f"a file's URL is its path below the fixed part of {source.glob}: {next(iter(files), 'none is there')}"
            raise UsageError(f"no file is called {url}", where=where, hint=hint)


def _store(page: Page, before: CrawlIndex, journal: Journal, outcome: CrawlOutcome) -> None:
    """Stores a file; one with the same bytes as last time is noted as unchanged and keeps its time."""
    known = before.find(page.url)
    if known is not None and known.sha256 == page.sha256:
        journal.store.keep_body(page.sha256, page.body)
        journal.repeat(replace(known, content_type=page.content_type, checked_at=page.fetched_at, unchanged=True, kept="", misses=0))
        outcome.pages.unchanged += 1
    else:
        journal.add(page)
        outcome.pages.fetched += 1
    outcome.bytes += len(page.body)


def _require_files(source: FilesSource, pattern: str, files: int, outcome: CrawlOutcome) -> None:
    """Raises StorageError or NoRecords if not a single file could be read."""
    if outcome.pages.present or not outcome.failures:
        return
    if outcome.pages.failed:
        failed = next(failure for failure in outcome.failures if failure.reason == "error")
        raise StorageError(f"none of {files} files can be read: {failed.detail}", where=pattern, hint="mend their permissions")
    if outcome.finish != "partial":
        first = outcome.failures[0]
        hint = "raise `limits: {bytes_per_file: …}`" if first.reason == "too_large" else "declare `format:`"
        finding = f"{files} files match {pattern}, none that can be read: {first.url}: {first.reason}"
        raise NoRecords(finding, where=f"source {source.name}", hint=hint)


def _carry_over_files(
    base: Path, source: FilesSource, before: CrawlIndex, read: Collection[str], only: Collection[str], journal: Journal, outcome: CrawlOutcome
) -> None:
    """Carries over files that could not be read or were not asked for; files that no longer exist count as vanished."""
    reasons = {failure.url: failure.reason for failure in outcome.failures}
    root, _ = _fixed_part(base, source.glob)
    for entry in before.select(before.urls):
        url = entry.url
        if url in read:
            if reasons.get(url) == "error":
                _keep(journal, replace(entry, kept="error", unchanged=False), outcome)
        elif only and url not in only:
            _keep(journal, replace(entry, kept="not_asked", unchanged=False), outcome)
        elif (obstacle := _obstacle(root, url)) is not None:
            outcome.pages.failed += 1
            outcome.failures.append(FailedPage(url=url, reason="error", detail=obstacle))
            _keep(journal, replace(entry, kept="error", unchanged=False), outcome)
        else:
            outcome.vanished.append(url)
    outcome.pages.vanished = len(outcome.vanished)


def _keep(journal: Journal, entry: Entry, outcome: CrawlOutcome) -> None:
    journal.keep(entry, ())
    outcome.kept += 1


def _obstacle(root: Path, url: str) -> str | None:
    """Why an unmatched file may still exist: a folder on its path cannot be read. None if it is gone."""
    path = root
    for part in ("", *Path(url).parts[:-1]):
        path /= part
        try:
            with os.scandir(path):
                continue
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            return f"{path}: {error.strerror or error}"
    return None


def find_files(base: Path, pattern: str) -> dict[str, Path]:
    """Files that match a glob relative to `base`: path below the glob's fixed part → path on disk, sorted."""
    literal = base / pattern
    if literal.is_file():
        return {literal.name: literal}
    root, moving = _fixed_part(base, pattern)
    names = glob.glob(moving, root_dir=root, recursive=True)  # noqa: PTH207  # pathlib's glob does not follow links
    # A name that is not UTF-8 gets replacement characters; the file is still read.
    found = ((os.fsencode(Path(name).as_posix()).decode("utf-8", "replace"), root / name) for name in names)
    return dict(sorted((name, path) for name, path in found if _may_be_file(path)))


def _may_be_file(path: Path) -> bool:
    """Whether a path is a file, or cannot be examined and so may be a file."""
    try:
        return path.is_file()
    except OSError:  # its folder can be listed but not entered
        return True


def _fixed_part(base: Path, pattern: str) -> tuple[Path, str]:
    """The folder in which a glob starts, and the rest of the glob."""
    parts = Path(pattern).parts
    fixed = next((number for number, part in enumerate(parts) if glob.has_magic(part)), len(parts) - 1)
    # Only the declared part is a pattern: the checkout may be in a folder called `[work]`.
    return Path(os.path.normpath(base.joinpath(*parts[:fixed]))), str(Path(*parts[fixed:]))


def _is_refused(source: FilesSource, url: str, path: Path, forgotten: Collection[str], outcome: CrawlOutcome) -> bool:
    """Whether a file is not for reading: taken down, or of a format that is not read. Recorded in the outcome."""
    if url in forgotten:
        _refuse(outcome, url, "forgotten", "it was taken down")
        return True
    if source.format == "auto" and not has_known_name(url):
        refused = refused_name(url)
        if refused is not None or not _may_be_document(path):
            _refuse(outcome, url, f"unsupported format {path.suffix or 'without suffix'}", "" if refused is None else f"it is {refused}")
            return True
    return False


def _may_be_document(path: Path) -> bool:
    """Whether a file without a name that says anything may be a document by its first bytes. One that cannot be opened is left to whoever reads it."""
    try:
        with path.open("rb") as file:
            return may_be_document(file.read(SNIFFED))
    except OSError:
        return True


def _read(source: FilesSource, url: str, path: Path, outcome: CrawlOutcome) -> Page | None:
    """The file as a page; None if it cannot be read or is too large, which the outcome records."""
    limit = source.limits.bytes_per_file
    try:
        with path.open("rb") as file:
            body = file.read(limit + 1)
    except OSError as error:
        outcome.pages.failed += 1
        outcome.failures.append(FailedPage(url=url, reason="error", detail=error.strerror or str(error)))
        return None
    if len(body) > limit:
        _refuse(outcome, url, "too_large", f"more than {limit} bytes: limits.bytes_per_file")
        return None
    if source.format == "auto" or source.format == "faq":
        kind = format_of(url, body, default="markdown" if source.format == "faq" else "text")
    else:
        kind = source.format
    if source.format == "auto" and not has_known_name(url) and document_by_content(body) is None:
        _refuse(outcome, url, f"unsupported format {path.suffix or 'without suffix'}", refusal_of(body) or "")
        return None
    read_at = utc_now()
    return Page(url=url, body=body, content_type=content_type(url, kind), fetched_at=read_at, requested_url=url)


def _refuse(outcome: CrawlOutcome, url: str, reason: str, detail: str = "") -> None:
    outcome.pages.refused += 1
    outcome.failures.append(FailedPage(url=url, reason=reason, detail=detail))
