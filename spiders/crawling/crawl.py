"""Crawls a declared site in a process of its own, and judges what became of it by the file that it leaves behind."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from pydantic import ValidationError

from schemas.credentials import REVEALED
from schemas.errors import CredentialRefused, DeclarationError, NoRecords, OperationalError, StorageError, Unreachable
from schemas.reports import CrawlOutcome, FailedPage
from schemas.settings import project_root
from schemas.sources import SiteSource
from spiders.crawling.earlier import Earlier
from spiders.crawling.job import STORAGE_FAILED, Job
from spiders.raw import RawStore
from spiders.urls import canonical_url

# After its time is up, a crawl still waits for the answers that are under way.
GRACE_S = 90
_STOP_S = 5
_NONE = Earlier()
_TRANSIENT = frozenset({"unreachable", "timeout", "server_error"})


def _silent(_done: int, _seen: int) -> None:
    return None


def crawl_site(source: SiteSource, raw: RawStore, run_id: str, *, earlier: Earlier = _NONE, on_page: Callable[[int, int], None] = _silent) -> CrawlOutcome:
    """As `fetch_site`, and raises what `require_pages` raises."""
    outcome = fetch_site(source, raw, run_id, earlier=earlier, on_page=on_page)
    require_pages(source, outcome)
    return outcome


def fetch_site(source: SiteSource, raw: RawStore, run_id: str, *, earlier: Earlier = _NONE, on_page: Callable[[int, int], None] = _silent) -> CrawlOutcome:
    """Fetches a site into `raw`; a crawl of the same id that was killed goes on where it was.

    `earlier` names the crawls whose pages need not be fetched again. `on_page(done, seen)` is called as pages arrive. Raises
    DeclarationError where it would begin at a private address, OperationalError where the crawl itself failed.
    """
    if source.private_start:
        raise DeclarationError(source.private_start, where=f"source {source.name}", hint="private addresses are fetched from only where that is declared")
    raw.stats_path(run_id).unlink(missing_ok=True)
    job = Job(
        source=source.model_dump(by_alias=True, mode="json", exclude_defaults=True, context=REVEALED), raw=raw.root.resolve(), run_id=run_id, earlier=earlier
    )
    with _job_file(job) as path, _running(path) as process:
        errors = _follow(process, on_page, source.limits.seconds + GRACE_S)
    outcome = _outcome(raw, run_id, source, process.returncode, errors)
    if earlier.concluded is not None and outcome.finish == "finished":
        outcome.pages.vanished = len(raw.index(earlier.concluded).urls - _met(raw, run_id, outcome))
    return outcome


def _met(raw: RawStore, run_id: str, outcome: CrawlOutcome) -> set[str]:
    """The pages that a crawl came upon, whatever became of them."""
    index = raw.index(run_id)
    return {*index.urls, *index.requested, *(failure.url for failure in outcome.failures)}


@contextmanager
def _job_file(job: Job) -> Iterator[Path]:
    """A file that only its owner can read, for it holds secrets. The crawl removes it once it is read; here is seen to it where it never began."""
    descriptor, name = tempfile.mkstemp(suffix=".crawl.json")
    path = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(job.model_dump_json())
        yield path
    finally:
        path.unlink(missing_ok=True)


@contextmanager
def _running(job_file: Path) -> Iterator[subprocess.Popen[str]]:
    """The crawl's process, in a session of its own; gone when the block ends, however it ends."""
    process = subprocess.Popen(
        [sys.executable, "-m", "spiders.crawling.crawl_process", str(job_file)],
        cwd=project_root(),
        stdin=subprocess.PIPE,  # never written to: it closes when this process dies, and the crawl ends with it
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        yield process
    finally:
        _stop(process)


def _stop(process: subprocess.Popen[str]) -> None:
    for kind in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            break
        os.killpg(process.pid, kind)
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            continue
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()


def _follow(process: subprocess.Popen[str], on_page: Callable[[int, int], None], limit_s: float) -> str:
    """Forwards progress until the process ends; returns the last of what it wrote to stderr."""
    assert process.stdout is not None and process.stderr is not None
    tail: deque[str] = deque(maxlen=20)
    reader = threading.Thread(target=_collect, args=(process.stderr, tail), daemon=True)
    reader.start()
    overtime = threading.Timer(limit_s, os.killpg, (process.pid, signal.SIGKILL))
    overtime.daemon = True
    overtime.start()
    try:
        for line in process.stdout:
            try:
                progress = json.loads(line)
                done, queued = int(progress["done"]), int(progress["queued"])
            except (ValueError, KeyError, TypeError):
                continue
            on_page(done, done + queued)
        process.wait()
    finally:
        overtime.cancel()
    reader.join(_STOP_S)
    return "".join(tail).strip()


def _collect(stream: IO[str], tail: deque[str]) -> None:
    try:
        tail.extend(stream)
    except ValueError:  # closed while reading, because the crawl was stopped
        return


def _outcome(raw: RawStore, run_id: str, source: SiteSource, code: int, errors: str) -> CrawlOutcome:
    path = raw.stats_path(run_id)
    where = f"source {source.name}"
    if code == STORAGE_FAILED:
        raise StorageError(f"pages could not be stored: {errors[-600:]}", where=where, hint="free some space, or choose another place with --data DIR")
    try:
        return CrawlOutcome.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, ValidationError) as error:
        finding = f"the crawl ended (exit {code}) without saying how: {errors[-1500:] or 'it wrote nothing to stderr'}"
        raise OperationalError(finding, where=where, hint="run it again") from error


def require_pages(source: SiteSource, outcome: CrawlOutcome) -> None:
    """Raises what a crawl without a single page means: Unreachable where the host does not answer, CredentialRefused where it wants
    others, NoRecords where start URLs and sitemaps give nothing."""
    if outcome.pages.present:
        return
    starts = {canonical_url(url, source.ignore_parameters) for url in source.start_urls}
    failures = [failure for failure in outcome.failures if source.sitemaps or failure.url in starts]
    where, first = f"source {source.name}", (source.start_urls or source.sitemaps)[0]
    if not failures and outcome.finish == "finished" and source.sitemaps:
        hint = f"curl {first}: are its URLs on {', '.join(source.domains)}, and do follow.allow and follow.deny let them pass?"
        raise NoRecords("the sitemaps name no page that may be fetched", where=where, hint=hint)
    findings = "; ".join(_finding(failure) for failure in failures[:5]) or f"no page arrived within {source.limits.seconds} s"
    if not failures or any(failure.reason in _TRANSIENT for failure in failures):
        raise Unreachable(f"nothing could be fetched: {findings}", where=where, hint=f"is the site up? curl -I {first}")
    if any(failure.status in _wants_credentials(source) for failure in failures):
        hint = "look at politeness: auth, headers and cookies of this source; ${VARIABLES} in them are read from the environment"
        raise CredentialRefused(f"the site wants other credentials: {findings}", where=where, hint=hint)
    what = "start URL or sitemap" if source.sitemaps else "start URL"
    raise NoRecords(f"no {what} gives a page: {findings}", where=where, hint=f"almanac test-url KB {first}" if source.start_urls else f"curl -I {first}")


def _wants_credentials(source: SiteSource) -> set[int]:
    """The statuses that speak of credentials. Without any, 403 is how sites turn away a crawl, whoever asks."""
    manners = source.politeness
    return {401, 407, 403} if manners.auth or manners.headers or manners.cookies else {401, 407}


def _finding(failure: FailedPage) -> str:
    status = f" (status {failure.status})" if failure.status else ""
    return f"{failure.url}: {failure.reason}{status}" + (f", {failure.detail}" if failure.detail else "")
