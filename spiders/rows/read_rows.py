"""Reads the rows of a source into its table, and hands the table on as pages of the crawl."""

import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

from almanac.core.clock import utc_now
from almanac.core.durable import remove
from almanac.core.logs import get_logger
from almanac.core.progress import OnProgress, ignore
from almanac.core.row_table import ROWS, UNREAD, RowTable
from almanac.core.templates import fill, render
from almanac.schemas.crawl_outcome import CrawlOutcome, FailedPage
from almanac.schemas.declaration.row_sources import CommandSource, PushedSource
from almanac.schemas.declaration.source import RowSource
from almanac.schemas.errors import NoRecords, OperationalError
from almanac.schemas.items import Page
from almanac.spiders.crawling.fetching_fingerprint import fetching_of
from almanac.spiders.crawling.previous_crawls import PreviousCrawls
from almanac.spiders.reading.formats import content_type
from almanac.spiders.rows.row_program import FAILURES, RowProgram
from almanac.spiders.store.journal import CrawlIndex, Head
from almanac.spiders.store.raw import Journal, RawStore

log = get_logger("almanac.rows")
_NONE = PreviousCrawls()
_REPORTED = 1000  # of the URLs of rows that are gone
_PROGRESS_EVERY = 1000  # rows between two words of progress


def read_rows(
    source: RowSource,
    folder: Path,
    raw: RawStore,
    run_id: str,
    *,
    previous: PreviousCrawls = _NONE,
    forgotten: Collection[str] = (),
    on_page: OnProgress = ignore,
) -> CrawlOutcome:
    """Reads what the source gives: all rows, or what has changed. Counts are of rows.

    Args:
        folder: The declaration's, in which a program runs.
        previous: `concluded` names the crawl whose pages are compared with; `afresh` reads all rows.
        forgotten: URLs that were taken down.
        on_page: Called as `on_page(rows, 0)` now and then.

    Raises NoRecords where there is no row at all, OperationalError and DeclarationError where what gives them fails;
    the rows are those of the reading before then.
    """
    outcome = CrawlOutcome(source=source.name, crawl=run_id, counted="rows")
    below = raw.below / ROWS if raw.below is not None else None
    with RowTable(raw.root / ROWS, below) as table:
        with table.changing() if isinstance(source, PushedSource) else table.reading():
            _Reading(source, table, outcome, on_page).read(folder, is_afresh=previous.afresh)
            for url in forgotten:
                table.drop(url.removeprefix(f"{source.name}#"))
            if not len(table) and not isinstance(source, PushedSource):
                hint = "does it give any by hand? almanac test-source KB SOURCE shows the first ones"
                raise NoRecords("there is no row", where=f"source {source.name}", hint=hint)
        if raw.journal_path(run_id).exists():  # of an attempt of this run that was cut off
            remove(raw.journal_path(run_id))
        before = raw.index(previous.concluded or "")
        with raw.journal(run_id, Head(fetching=fetching_of(source))) as journal:
            for page in pages_of_rows(source, table.pages()):
                _store(page, before, journal)
                outcome.bytes += len(page.body)
    return outcome


def first_rows(source: RowSource, folder: Path, raw: RawStore, count: int) -> Page:
    """The first rows that a source gives, as a page; stores nothing. Raises as `read_rows` does."""
    lines: list[bytes] = []
    if isinstance(source, PushedSource):
        with RowTable(raw.root / ROWS) as table:
            lines = [line for _, line in islice(table.rows(), count)]
        return _page_of(source, lines)
    with RowProgram(source, folder) as program:
        for line in _lines(program):
            if isinstance(line, bytes):
                lines.append(line)
            if len(lines) == count:
                break
        else:
            program.require_success()
    return _page_of(source, lines)


def _page_of(source: RowSource, lines: list[bytes]) -> Page:
    if not lines:
        raise NoRecords("there is no row", where=f"source {source.name}", hint="does it give any by hand?")
    (page,) = pages_of_rows(source, [("", b"\n".join(lines))])
    return page


def pages_of_rows(source: RowSource, pages: Iterable[tuple[str, bytes]]) -> Iterator[Page]:
    """Yields pages of JSON lines, given with the id of their first row, under URLs made of it."""
    for first, body in pages:
        url = f"{source.name}/{quote(first.replace(UNREAD, 'without id '), safe='')}"
        yield Page(url=url, body=body, content_type=content_type(url, "jsonl"), fetched_at=utc_now(), requested_url=url)


def row_id(source: RowSource, row: dict[str, Any]) -> str:
    """What a row is known by; empty where it lacks a column of its id."""
    return fill(source.id, row)


def _lines(program: RowProgram) -> Iterator[bytes | list[Any] | None]:
    """Yields lines, and the lists that our own process prints. Raises what that failed with."""
    for line in program.lines():
        if line is None or not (program.is_own and line.startswith(b"[")):
            yield line
            continue
        signal = json.loads(line)
        if signal[0] == "failed":
            raise FAILURES[signal[1]](signal[2], where=program.where, hint=signal[3] or None)
        yield signal


@dataclass
class _Reading:
    """One reading of a source into its table."""

    source: RowSource
    table: RowTable
    outcome: CrawlOutcome
    on_page: OnProgress
    rows: int = 0
    fetched: int = 0
    columns: str = ""
    cursor: Any = None

    def read(self, folder: Path, *, is_afresh: bool) -> None:
        if isinstance(self.source, PushedSource):  # whoever pushes has put its rows there
            self.outcome.pages.fetched = len(self.table)
            return
        table, fetching = self.table, fetching_of(self.source)
        known = not is_afresh and table.fact("fetching") == fetching
        since = json.loads(table.fact("cursor", "null")) if known else None
        with RowProgram(self.source, folder, since) as program:
            is_like_before = self._take_all(program, since)
        if not is_like_before:  # rows that did not change lack a column, or have one too many
            log.info("the query's columns have changed: all rows are read", source=self.source.name)
            since = None
            with RowProgram(self.source, folder) as program:
                self._take_all(program, since)
        tells_all = self.source.is_complete and (since is None or self.source.gone is None)
        self._drop_missing() if tells_all else table.drop_unread()
        table.set_fact("fetching", fetching)
        table.set_fact("columns", self.columns)
        table.set_fact("cursor", json.dumps(since if self.cursor is None else self.cursor))
        self.outcome.pages.fetched, self.outcome.pages.unchanged = self.fetched, len(table) - self.fetched

    def _take_all(self, program: RowProgram, since: Any) -> bool:
        """Takes all rows that the process gives; returns False, without having taken any, where they have other columns
        than before.
        """
        for line in _lines(program):
            if isinstance(line, list):
                match line:
                    case ["columns", *_]:
                        self.columns = json.dumps(line[1])
                        if since is not None and self.columns != self.table.fact("columns"):
                            return False
                    case ["cursor", value]:
                        self.cursor = value
                    case ["there", ids]:
                        for row in ids:
                            self.table.see(row_id(self.source, row))
            else:
                self._take(line, replaces=since is not None or not self.source.is_complete)
        program.require_success()
        return True

    def _take(self, line: bytes | None, *, replaces: bool) -> None:
        self.rows += 1
        if self.rows > self.source.limits.rows:
            raise OperationalError(
                f"more than {self.source.limits.rows} rows",
                where=f"source {self.source.name}",
                hint="raise limits.rows",
            )
        if self.rows % _PROGRESS_EVERY == 0:
            self.on_page(self.rows, 0)
        if line is None:
            self._refuse("too_large", f"more than {self.source.limits.bytes_per_row} bytes: limits.bytes_per_row")
            return
        try:
            row = json.loads(line)
        except ValueError:  # mapping says what is wrong with it
            row = None
        if not isinstance(row, dict):
            if isinstance(row, str) and not isinstance(self.source, CommandSource):
                self._refuse("error", row)
            else:
                self.fetched += self.table.put(f"{UNREAD}{self.rows:012}", line) != "same"
        elif row.keys() == {"gone"}:
            self._drop(render(row["gone"]))
        elif self.source.gone is not None and row.get(self.source.gone):
            self._drop(row_id(self.source, row))
        else:
            key = row_id(self.source, row)
            if not key or (not replaces and self.table.has_seen(key)):
                key = f"{UNREAD}{self.rows:012}"
            self.fetched += self.table.put(key, line) != "same"

    def _drop(self, key: str) -> None:
        if self.table.drop(key):
            self.outcome.pages.gone += 1
            self._tell(f"{self.source.name}#{key}", "gone", "its source says so")

    def _drop_missing(self) -> None:
        for key in self.table.unseen():
            if not key.startswith(UNREAD):
                self.outcome.pages.vanished += 1
                if len(self.outcome.vanished) < _REPORTED:
                    self.outcome.vanished.append(f"{self.source.name}#{key}")
        self.table.drop_unseen()

    def _refuse(self, reason: str, detail: str) -> None:
        self.outcome.pages.refused += 1
        self._tell(f"{self.source.name}#row {self.rows}", reason, detail)

    def _tell(self, url: str, reason: str, detail: str) -> None:
        if len(self.outcome.failures) < _REPORTED:
            self.outcome.failures.append(FailedPage(url=url, reason=reason, detail=detail))


def _store(page: Page, before: CrawlIndex, journal: Journal) -> None:
    """Stores a page; one with the same bytes as last time is noted as unchanged and keeps its time."""
    known = before.find(page.url)
    if known is None or known.sha256 != page.sha256:
        journal.add(page)
        return
    journal.store.keep_body(page.sha256, page.body)
    journal.repeat(replace(known, checked_at=page.fetched_at, unchanged=True, kept="", misses=0))


def forget_rows(raw: RawStore, source: str, urls: Collection[str]) -> None:
    """Erases the rows of these URLs, and the pages of all crawls; the next run makes them of the rows that are left."""
    if not (raw.root / ROWS).is_file():
        return
    with RowTable(raw.root / ROWS) as table, table.reading():
        for key, body in table.rows():
            if f"{source}#{key}" in urls or _own_url(body) in urls:
                table.drop(key)
    raw.forget({url for crawl in raw.crawls() for url in raw.index(crawl).urls})


def _own_url(body: bytes) -> str | None:
    try:
        row = json.loads(body)
    except ValueError:
        return None
    url = row.get("url") if isinstance(row, dict) else None
    return url if isinstance(url, str) else None
