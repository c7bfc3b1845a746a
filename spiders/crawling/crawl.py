"""Runs the crawl of a declared site in a child process and judges it by the stats file that it leaves behind."""

import json
import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue

from pydantic import ValidationError

from almanac.core.durable import remove, write_file
from almanac.core.lifetime import how_it_ended, tell_job
from almanac.core.progress import OnProgress, ignore
from almanac.schemas.crawl_outcome import CrawlOutcome, FailedPage, LimitReached
from almanac.schemas.declaration.credentials import REVEALED
from almanac.schemas.declaration.source import SiteSource
from almanac.schemas.errors import (
    CredentialRefused,
    DeclarationError,
    NoRecords,
    OperationalError,
    StorageError,
    Unreachable,
    UsageError,
)
from almanac.spiders.crawling.browser_state import browser_state
from almanac.spiders.crawling.chromium import DOES_NOT_START, require_browser, why_it_does_not_start
from almanac.spiders.crawling.crawl_job import NO_BROWSER, NOT_LOGGED_IN, STORAGE_FAILED, Job
from almanac.spiders.crawling.crawl_start import crawl_process
from almanac.spiders.crawling.fetching_fingerprint import fetching_of
from almanac.spiders.crawling.page_carryover import carry_over_pages
from almanac.spiders.crawling.previous_crawls import PreviousCrawls
from almanac.spiders.crawling.stats import CrawlStats, read_stats
from almanac.spiders.reading.linked_types import type_of_headers
from almanac.spiders.selecting.linked_documents import READABLE, remedy
from almanac.spiders.selecting.links import UrlPolicy
from almanac.spiders.selecting.urls import canonical_url, is_on_domains
from almanac.spiders.selecting.withheld import WITHHELD
from almanac.spiders.store.journal import storage_errors
from almanac.spiders.store.raw import RawStore

# Time beyond `limits.seconds` that a crawl has for responses under way.
GRACE_S = 90
# as faulthandler tells what happened, where, and other threads or modules
_CRASH, _CRASHED, _NEXT = "Fatal Python error", "Current thread ", "\n\n"
_STOP_S = 5
_LINES = 2000  # of stderr that are kept: a crash tells each thread's
_HEARTBEAT_S = 1.0
_NONE = PreviousCrawls()
_TRANSIENT = frozenset({"unreachable", "timeout", "server_error", "not_json"})
# What to look at where no page arrived. test-url would fetch the same page, and say the same.
_NEXT_STEPS = {
    "gone": "is the address right? curl -I {url}",
    "refused_by_robots": (
        "read the site's robots.txt; declare politeness: {{robots: false}} if you may fetch it all the same"
    ),
    "too_large": "raise limits: {{bytes_per_page: …}}",
    "off_site": (
        "it leads to another host: curl -I {url}; if that is the one you want, declare it as start URL, or in "
        "allowed_domains"
    ),
    "not_json": "the rules read JSON: look at what comes, curl {url}",
    "denied": "follow.deny of the source matches it, or what it leads to",
}
_BY_HAND = "does a browser show it? curl -I {url}"


def crawl_site(
    source: SiteSource, raw: RawStore, run_id: str, *, previous: PreviousCrawls = _NONE, on_page: OnProgress = ignore
) -> CrawlOutcome:
    """As `fetch_site`, and also raises the errors of `require_pages`."""
    outcome = fetch_site(source, raw, run_id, previous=previous, on_page=on_page)
    require_pages(source, outcome)
    return outcome


def fetch_site(
    source: SiteSource,
    raw: RawStore,
    run_id: str,
    *,
    previous: PreviousCrawls = _NONE,
    only: Sequence[str] = (),
    forgotten: frozenset[str] = frozenset(),
    spares_starts: bool = True,
    on_page: OnProgress = ignore,
) -> CrawlOutcome:
    """Begins a crawl, waits for its end, and concludes it. Raises the errors of `begin_crawl` and of
    `RunningCrawl.conclude`.
    """
    with begin_crawl(
        source, raw, run_id, previous=previous, only=only, forgotten=forgotten, spares_starts=spares_starts
    ) as crawl:
        return crawl.conclude(on_page)


def begin_crawl(
    source: SiteSource,
    raw: RawStore,
    run_id: str,
    *,
    previous: PreviousCrawls = _NONE,
    only: Sequence[str] = (),
    forgotten: frozenset[str] = frozenset(),
    spares_starts: bool = True,
    seconds: int | None = None,
) -> "RunningCrawl":
    """Starts the process that fetches a site into `raw`. A killed crawl of the same `run_id` is resumed.

    Args:
        previous: crawls whose pages need not be fetched again, and the concluded one whose pages are carried over
            unless known to be gone.
        only: fetch just these URLs and follow no link.
        forgotten: URLs that were taken down and are never requested.
        spares_starts: as in `Job`.
        seconds: what is left of `limits.seconds`, where an earlier try has used some of it; default: all of it.

    Raises DeclarationError if a start URL is at a private address, UsageError if an URL of `only` cannot be fetched on
    its own, or pages are to be drawn and no browser is there, CredentialRefused if the file of `render.storage_state`
    cannot be read, and StorageError if nothing can be stored.
    """
    if source.private_start:
        raise DeclarationError(
            source.private_start, where=f"source {source.name}", hint="declare politeness: {allow_private: true}"
        )
    require_browser(source)
    browser_state(source)
    named_urls = _canonical_urls(source, raw, previous, only)
    if named_urls:  # a page requested by name is fetched anew, never taken from an interrupted crawl
        previous = previous.model_copy(update={"interrupted": []})
    with storage_errors(raw.root):
        if raw.stats_path(run_id).exists():
            remove(raw.stats_path(run_id))
    raw.drop_kept(run_id)
    fetching = fetching_of(source)
    if seconds is not None:
        source = source.model_copy(update={"limits": source.limits.model_copy(update={"seconds": max(1, seconds)})})
    job = Job(
        source=source.model_dump(by_alias=True, mode="json", exclude_defaults=True, context=REVEALED),
        language=source.language,
        secret_parameters=source.secret_parameters.revealed(),
        raw=raw.root.resolve(),
        below=raw.below and raw.below.resolve(),
        run_id=run_id,
        previous=previous,
        fetching=fetching,
        only=named_urls,
        forgotten=sorted(forgotten),
        spares_starts=spares_starts,
    )
    return RunningCrawl(source, raw, job)


class RunningCrawl:
    """A crawl in a process of its own, which is stopped when the block ends, even by an exception. What it says
    meanwhile waits to be read.
    """

    def __init__(self, source: SiteSource, raw: RawStore, job: Job) -> None:
        self._source, self._raw, self._job = source, raw, job
        self._process = crawl_process()
        self._lines: SimpleQueue[str | None] = SimpleQueue()
        self._errors: deque[str] = deque(maxlen=_LINES)
        self._readers = [
            threading.Thread(target=read, daemon=True) for read in (self._read_progress, self._read_errors)
        ]
        self._overtime = threading.Timer(
            source.limits.seconds + GRACE_S, os.killpg, (self._process.pid, signal.SIGKILL)
        )
        self._overtime.daemon = True
        try:
            tell_job(self._process, job.model_dump_json())
            for thread in (*self._readers, self._overtime):
                thread.start()
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> "RunningCrawl":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def conclude(self, on_page: OnProgress = ignore) -> CrawlOutcome:
        """Waits for the end of the crawl, and carries pages over from the last concluded one.

        Args:
            on_page: called with the numbers of pages done and seen while pages arrive, and every second where none
                does.

        Raises StorageError if pages cannot be stored, and OperationalError if the crawl itself fails.
        """
        self._follow(on_page)
        source, raw, job = self._source, self._raw, self._job
        stats = _read_outcome(
            raw,
            job.run_id,
            source,
            self._process.returncode,
            source.secret_parameters.masked("".join(self._errors).strip()),
        )
        stats.crawl = job.run_id
        concluded = job.previous.concluded
        before = None if concluded is None else read_stats(raw, concluded)
        stats.limits_reached = _limits_reached(source, stats, before)
        if concluded is not None and _says_something(source, stats):
            carry_over_pages(source, raw, job.run_id, concluded, before, stats, frozenset(job.forgotten))
        with storage_errors(raw.root):
            write_file(raw.stats_path(job.run_id), stats.model_dump_json(indent=1))
        return stats.outcome()

    def stop(self) -> None:
        self._overtime.cancel()
        for kind in (signal.SIGTERM, signal.SIGKILL):
            if not self.is_running:
                break
            with suppress(ProcessLookupError):  # it has just ended by itself
                os.killpg(self._process.pid, kind)
            try:
                self._process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                continue
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def _follow(self, on_page: OnProgress) -> None:
        done = seen = 0
        while True:
            try:
                line = self._lines.get(timeout=_HEARTBEAT_S)
            except Empty:
                on_page(done, seen)
                continue
            if line is None:
                break
            try:
                progress = json.loads(line)
                done, seen = int(progress["done"]), int(progress["done"]) + int(progress["queued"])
            except (ValueError, KeyError, TypeError):
                continue
            on_page(done, seen)
        self._readers[1].join(_STOP_S)

    def _read_progress(self) -> None:
        assert self._process.stdout is not None
        with suppress(ValueError):  # closed while reading: the crawl was stopped
            for line in self._process.stdout:
                self._lines.put(line)
        self._process.wait()
        self._overtime.cancel()
        self._lines.put(None)

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        with suppress(ValueError):
            self._errors.extend(self._process.stderr)


def _canonical_urls(source: SiteSource, raw: RawStore, previous: PreviousCrawls, only: Sequence[str]) -> list[str]:
    """The canonical URLs of `only`. Raises UsageError if one is outside the URL policy, or no concluded crawl exists
    that they can be added to.
    """
    if not only:
        return []
    where, policy, urls = f"source {source.name}", UrlPolicy(source), []
    for url in only:
        try:
            urls.append(policy.canonical(url))
        except ValueError as error:
            raise UsageError(
                f"{url!r} is no http(s) URL", where=where, hint="give it as a browser shows it: --url https://…"
            ) from error
        if not is_on_domains(urls[-1], source.domains):
            raise UsageError(
                f"{url} is on none of the source's hosts: {', '.join(source.domains)}",
                where=where,
                hint="another source may have it",
            )
        if policy.is_denied(urls[-1]):
            raise UsageError(
                f"{url} matches follow.deny", where=where, hint="almanac validate KB shows what is declared"
            )
    if previous.concluded is None or not raw.index(previous.concluded).exists:
        raise UsageError(
            "no crawl is complete yet, and --url adds pages to one",
            where=where,
            hint="almanac run KB, without --url, first",
        )
    return urls


def _limits_reached(source: SiteSource, stats: CrawlStats, before: CrawlStats | None) -> list[LimitReached]:
    """The limits that keep the source from being complete: those of the last crawl where only named pages were asked
    for, and no depth that is declared.
    """
    reached = before.limits_reached if stats.finish == "partial" and before is not None else stats.limits_reached
    return [limit for limit in reached if limit.limit != "depth" or "depth" not in source.limits.model_fields_set]


def _says_something(source: SiteSource, stats: CrawlStats) -> bool:
    """Whether the crawl's outcome lets the run continue; if it does not, no page needs to be carried over."""
    try:
        require_pages(source, stats)
    except (OperationalError, NoRecords):
        return False
    return True


def _read_outcome(raw: RawStore, run_id: str, source: SiteSource, code: int, errors: str) -> CrawlStats:
    """The stats that the crawl wrote at its end. Raises StorageError, CredentialRefused, Unreachable or
    OperationalError if there are none.
    """
    path = raw.stats_path(run_id)
    where = f"source {source.name}"
    if code == STORAGE_FAILED:
        raise StorageError(
            f"pages could not be stored: {errors[-600:]}",
            where=where,
            hint="free some space, or choose another place with --data DIR",
        )
    if code == NO_BROWSER:
        finding, hint = why_it_does_not_start(errors.rpartition(f"{DOES_NOT_START}: ")[2])
        raise OperationalError(finding, where=f"{where}: render", hint=hint)
    if code == NOT_LOGGED_IN:
        failure = json.loads(errors.rpartition("\n")[2])["error"]
        kind = Unreachable if failure["kind"] == "unreachable" else CredentialRefused
        raise kind(failure["message"], where=failure["where"], hint=failure["hint"])
    try:
        return CrawlStats.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, ValidationError) as error:
        finding = (
            f"the crawl's process ended with {how_it_ended(code)} and left no stats; its stderr: "
            f"{_telling(errors) or 'nothing'}"
        )
        raise OperationalError(finding, where=where, hint="run it again") from error


def _telling(errors: str) -> str:
    """The end of what a process said; of a crash, what it was and where in its own thread, without the others and the
    list of modules.
    """
    before, at, place = errors.partition(_CRASHED)
    if not at:
        return errors[-1500:]
    crash = before[before.find(_CRASH) :].partition("\n")[0] if _CRASH in before else ""
    return f"{crash}\n{at}{place.partition(_NEXT)[0]}"[:1500].strip()


def require_pages(source: SiteSource, outcome: CrawlOutcome) -> None:
    """Raises the error that a crawl without a single page stands for.

    Unreachable if the host does not answer, or an API not with JSON; CredentialRefused if it refuses the declared
    credentials; NoRecords if start URLs and sitemaps yield no page. For a crawl of named pages only, a page that is
    gone or refused is a sufficient result.
    """
    is_partial = outcome.finish == "partial"
    withheld = [failure for failure in outcome.failures if failure.reason in WITHHELD]
    if withheld and outcome.pages.failed:  # the site answers, and what failed is kept
        return
    if outcome.pages.present or (is_partial and outcome.pages.gone + outcome.pages.refused):
        return
    starts = {canonical_url(url, source.ignore_parameters) for url in source.start_urls}
    failures = [
        failure
        for failure in outcome.failures
        if source.sitemaps or is_partial or failure.url in starts or failure in withheld
    ]
    where, first = f"source {source.name}", (source.start_urls or source.sitemaps)[0]
    if not failures and outcome.finish == "finished" and source.sitemaps:
        hint = (
            f"curl {first}: are its URLs on {', '.join(source.domains)}, and do follow.allow and follow.deny let "
            "them pass?"
        )
        raise NoRecords("the sitemaps name no page that may be fetched", where=where, hint=hint)
    findings = (
        "; ".join(_finding(failure) for failure in failures[:5]) or f"no page arrived within {source.limits.seconds} s"
    )
    transient = [failure for failure in failures if failure.reason in _TRANSIENT]
    if transient or not failures:
        is_up = bool(transient) and all(failure.reason == "not_json" for failure in transient)
        hint = _next_step(transient[0]) if is_up else f"is the site up? curl -I {first}"
        raise Unreachable(f"nothing could be fetched: {findings}", where=where, hint=hint)
    if any(failure.status in _wants_credentials(source) for failure in failures):
        hint = (
            "look at politeness: auth, headers and cookies of this source, at login and render.storage_state, and at "
            "the queries of its URLs; ${VARIABLES} in them are read from the environment"
        )
        raise CredentialRefused(f"the site wants other credentials: {findings}", where=where, hint=hint)
    kind = next(
        (kind for failure in failures if (kind := type_of_headers(failure.detail, failure.url)) is not None), None
    )
    if kind is not None and failures[0].reason == "not_text":
        hint = (
            f"it is a {kind} file: declare {remedy(source, kind)} on the source"
            if kind in READABLE
            else remedy(source, kind)
        )
        raise NoRecords(f"no page arrived: {findings}", where=where, hint=hint)
    if is_partial:
        raise NoRecords(f"no page arrived: {findings}", where=where, hint=_next_step(failures[0]))
    if len(withheld) == len(failures):
        hint = (
            "declare politeness: {noindex: false} if you may index them"
            if withheld[0].reason == "noindex"
            else "declare each: for the entries of a feed"
        )
        raise NoRecords(f"no page that arrived may yield items: {findings}", where=where, hint=hint)
    raise NoRecords(
        f"no page arrived: {findings}",
        where=where,
        hint=_next_step(next(failure for failure in failures if failure not in withheld)),
    )


def _next_step(failure: FailedPage) -> str:
    if failure.detail.startswith("sitemap"):
        return f"curl -I {failure.url}"
    return _NEXT_STEPS.get(failure.reason, _BY_HAND).format(url=failure.url)


def _wants_credentials(source: SiteSource) -> set[int]:
    """Statuses that mean refused credentials. Without declared ones, 403 does not count: sites use it to turn away any
    crawl.
    """
    manners = source.politeness
    has_credentials = (
        manners.auth or manners.headers or manners.cookies or source.secret_parameters or source.keeps_cookies
    )
    return {401, 407, 403} if has_credentials else {401, 407}


def _finding(failure: FailedPage) -> str:
    status = f" (status {failure.status})" if failure.status else ""
    return f"{failure.url}: {failure.reason}{status}" + (f", {failure.detail}" if failure.detail else "")
