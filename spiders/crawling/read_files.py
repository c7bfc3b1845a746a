"""Declared files, read into the raw store as pages: what they are called, and what they hold."""

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
from almanac.spiders.reading.formats import content_type, format_of, has_known_name
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
    """Stores the files that `source.glob` names, relative to the folder `base`.

    A file's URL is its path below the fixed part of the glob (`../notes/**/*.md` → `travel/visa.md`), so that ids do not
    depend on where the checkout lies. With `only`, the files of these URLs are read and all others taken as they were; `forgotten` ones are
    not read. A file that cannot be read keeps its place of the last crawl in `earlier`. Raises NoRecords where nothing matches or nothing
    that matches can be read as declared, UsageError where `only` names no file that there is or was.
    """
    files = find_files(base, source.glob)
    pattern = os.path.normpath(base / source.glob)
    before = raw.index(previous.concluded or "")
    if previous.concluded and (before.damaged or not before.exists):
        log.warning("the last crawl's journal is damaged: files it no longer tells of keep no place", source=source.name, crawl=previous.concluded)
    if only:
        files = {url: path for url, path in files.items() if url in _wanted(source, files, before, only)}
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
        _keep_places(base, source, before, files.keys(), only, journal, outcome)
    return outcome


def _wanted(source: FilesSource, files: dict[str, Path], before: CrawlIndex, only: Collection[str]) -> Collection[str]:
    where = f"source {source.name}"
    if not before.exists:
        raise UsageError("no run came to its end yet, which one file could be added to", where=where, hint="almanac run KB, without --url, first")
    for url in only:
        if url not in files and url not in before.urls:
            hint = f"a file's URL is its path below the fixed part of {source.glob}: {next(iter(files), 'none is there')}"
            raise UsageError(f"no file is called {url}", where=where, hint=hint)
    return only


def _store(page: Page, before: CrawlIndex, journal: Journal, outcome: CrawlOutcome) -> None:
    """Notes a file as unchanged where its bytes are those of the last time: then it is as old as it was."""
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
    """Raises what it means that nothing could be read."""
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


def _keep_places(
    base: Path, source: FilesSource, before: CrawlIndex, read: Collection[str], only: Collection[str], journal: Journal, outcome: CrawlOutcome
) -> None:
    """What could not be read, or was not to be, is as it was; what is no longer there loses its place."""
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
    """Why a file may be there although it was not found: a folder on the way to it cannot be looked into."""
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
    """Files that match a glob relative to `base`, by their path below its fixed part, sorted."""
    literal = base / pattern
    if literal.is_file():
        return {literal.name: literal}
    root, moving = _fixed_part(base, pattern)
    names = glob.glob(moving, root_dir=root, recursive=True)  # noqa: PTH207  # pathlib's does not follow links
    # A name that is not UTF-8 is shown with replacement characters; the file is read all the same.
    found = ((os.fsencode(Path(name).as_posix()).decode("utf-8", "replace"), root / name) for name in names)
    return dict(sorted((name, path) for name, path in found if _may_be_file(path)))


def _may_be_file(path: Path) -> bool:
    """Whether a path is a file, or cannot be told from one before it is opened."""
    try:
        return path.is_file()
    except OSError:  # its folder may be listed and not entered
        return True


def _fixed_part(base: Path, pattern: str) -> tuple[Path, str]:
    """The folder that a glob starts in, and what is left of the glob."""
    parts = Path(pattern).parts
    fixed = next((number for number, part in enumerate(parts) if glob.has_magic(part)), len(parts) - 1)
    # Only what was declared is a pattern: a checkout may well lie in a folder called `[work]`.
    return Path(os.path.normpath(base.joinpath(*parts[:fixed]))), str(Path(*parts[fixed:]))


def _is_refused(source: FilesSource, url: str, path: Path, forgotten: Collection[str], outcome: CrawlOutcome) -> bool:
    """Whether a file is not to be opened at all."""
    if url in forgotten:
        _refuse(outcome, url, "forgotten", "it was taken down")
        return True
    if source.format == "auto" and not has_known_name(url):
        _refuse(outcome, url, f"unsupported format {path.suffix or 'without suffix'}")
        return True
    return False


def _read(source: FilesSource, url: str, path: Path, outcome: CrawlOutcome) -> Page | None:
    """The file as a page, or None; then the outcome says why."""
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
    read_at = utc_now()
    return Page(url=url, body=body, content_type=content_type(url, kind), fetched_at=read_at, requested_url=url)


def _refuse(outcome: CrawlOutcome, url: str, reason: str, detail: str = "") -> None:
    outcome.pages.refused += 1
    outcome.failures.append(FailedPage(url=url, reason=reason, detail=detail))
