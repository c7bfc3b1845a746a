"""Declared files, read into the raw store as pages: what they are called, and what they hold."""

import glob
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from schemas.errors import NoRecords, StorageError
from schemas.items import Page
from schemas.reports import CrawlOutcome, FailedPage
from schemas.sources import FilesSource
from spiders.raw import RawStore
from spiders.reading.formats import content_type, format_of, has_known_name


def _silent(_done: int, _seen: int) -> None:
    return None


def read_files(source: FilesSource, base: Path, raw: RawStore, run_id: str, *, on_page: Callable[[int, int], None] = _silent) -> CrawlOutcome:
    """Stores the files that `source.glob` names, relative to the folder `base`.

    A file's URL is its path below the fixed part of the glob (`../notes/**/*.md` → `travel/visa.md`), so that ids do not
    depend on where the checkout lies. Raises NoRecords where nothing matches or nothing that matches can be read as declared.
    """
    files = find_files(base, source.glob)
    pattern = os.path.normpath(base / source.glob)
    where = f"source {source.name}"
    if not files:
        raise NoRecords(f"no file matches {pattern}", where=where, hint="the glob is relative to the declaration's folder; `**` goes into folders")
    outcome = CrawlOutcome(source=source.name)
    with raw.journal(run_id) as journal:
        for number, (url, path) in enumerate(files.items(), start=1):
            page = _read(source, url, path, outcome)
            if page is not None:
                journal.add(page)
                outcome.pages.fetched += 1
                outcome.bytes += len(page.body)
            on_page(number, len(files))
    if outcome.pages.failed and not outcome.pages.fetched:
        raise StorageError(f"none of {len(files)} files can be read: {outcome.failures[0].detail}", where=pattern, hint="mend their permissions")
    if not outcome.pages.fetched:
        first = outcome.failures[0]
        hint = "raise `limits: {bytes_per_file: …}`" if first.reason == "too_large" else "declare `format:`"
        raise NoRecords(f"{len(files)} files match {pattern}, none that can be read: {first.url}: {first.reason}", where=where, hint=hint)
    return outcome


def find_files(base: Path, pattern: str) -> dict[str, Path]:
    """Files that match a glob relative to `base`, by their path below its fixed part, sorted."""
    literal = base / pattern
    if literal.is_file():
        return {literal.name: literal}
    parts = Path(pattern).parts
    fixed = next((number for number, part in enumerate(parts) if glob.has_magic(part)), len(parts) - 1)
    # Only what was declared is a pattern: a checkout may well lie in a folder called `[work]`.
    root = Path(os.path.normpath(base.joinpath(*parts[:fixed])))
    names = glob.glob(str(Path(*parts[fixed:])), root_dir=root, recursive=True)  # noqa: PTH207  # pathlib's does not follow links
    # A name that is not UTF-8 is shown with replacement characters; the file is read all the same.
    found = ((os.fsencode(Path(name).as_posix()).decode("utf-8", "replace"), root / name) for name in names)
    return dict(sorted((name, path) for name, path in found if path.is_file()))


def _read(source: FilesSource, url: str, path: Path, outcome: CrawlOutcome) -> Page | None:
    """The file as a page, or None; then the outcome says why."""
    limit = source.limits.bytes_per_file
    if source.format == "auto" and not has_known_name(url):
        _refuse(outcome, url, f"unsupported format {path.suffix or 'without suffix'}")
        return None
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
    read_at = datetime.now(UTC).isoformat(timespec="seconds")
    return Page(url=url, body=body, content_type=content_type(url, kind), fetched_at=read_at, requested_url=url)


def _refuse(outcome: CrawlOutcome, url: str, reason: str, detail: str = "") -> None:
    outcome.pages.refused += 1
    outcome.failures.append(FailedPage(url=url, reason=reason, detail=detail))
