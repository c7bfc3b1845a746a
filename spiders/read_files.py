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

_TYPES = {"jsonl": "application/jsonl", "markdown": "text/markdown", "text": "text/plain"}
_FORMAT_OF_SUFFIX = {".jsonl": "jsonl", ".ndjson": "jsonl", ".md": "markdown", ".markdown": "markdown", ".txt": "text", ".text": "text"}


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
        raise NoRecords(f"{len(files)} files match {pattern}, none of a known format: {outcome.failures[0].reason}", where=where, hint="declare `format:`")
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
    kind = source.format if source.format != "auto" else _FORMAT_OF_SUFFIX.get(path.suffix.lower())
    if kind is None:
        outcome.pages.refused += 1
        outcome.failures.append(FailedPage(url=url, reason=f"unsupported format {path.suffix or 'without suffix'}"))
        return None
    try:
        body = path.read_bytes()
    except OSError as error:
        outcome.pages.failed += 1
        outcome.failures.append(FailedPage(url=url, reason="error", detail=error.strerror or str(error)))
        return None
    return Page(url=url, body=body, content_type=_TYPES[kind], fetched_at=datetime.now(UTC).isoformat(timespec="seconds"), requested_url=url)
