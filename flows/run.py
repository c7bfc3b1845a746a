"""One run: where it stands, what it found, and the files that say so afterwards."""

import json
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import structlog

from schemas.declaration import Declaration
from schemas.durable import sync_folder, write_file
from schemas.items import Item, Reject
from schemas.reports import CrawlOutcome, PageCounts, RunReport
from schemas.settings import DataDir
from spiders.crawling.earlier import Ending

log = structlog.get_logger("almanac.run")


def utc_now() -> str:
    """This moment, ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class Run:
    """The state that a refresh's steps share. Not a dataclass: Prefect would walk through every item at every step."""

    def __init__(self, declaration: Declaration, data: DataDir) -> None:
        now = datetime.now(UTC)
        self.declaration = declaration
        self.data = data
        self.run_id = f"{now:%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"
        self.live_items: int | None = None  # of the version to compare with
        self.items: list[Item] = []
        self.rejects: list[Reject] = []
        self.report = RunReport(kb=declaration.name, run_id=self.run_id, outcome="failed", exit_code=1, started_at=now.isoformat(timespec="seconds"))

    @property
    def kb(self) -> str:
        return self.declaration.name

    @property
    def index_dir(self) -> Path:
        return self.data.index(self.kb)

    @property
    def processed(self) -> Path:
        return self.data.processed(self.kb)

    @property
    def staging(self) -> Path:
        """Tables lie here until they are complete."""
        return self.processed / ".staging" / self.run_id

    def ending_of(self, run_id: str) -> Ending:
        """How an earlier run ended: with a verdict, with an error that it told, or cut off by a kill or Ctrl-C."""
        report = read_report(self.data.runs(self.kb) / f"{run_id}.json")
        if report is None or (report.error or {}).get("kind") == "interrupted":
            return "cut off"
        return "failed" if report.outcome == "failed" else "concluded"

    def keep_outcome(self, outcome: CrawlOutcome) -> None:
        """Takes in what became of a source, also where that ends the run; a second attempt takes the place of the first."""
        report = self.report
        report.sources = [*(one for one in report.sources if one.source != outcome.source), outcome]
        report.pages = sum((one.pages for one in report.sources), PageCounts())

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Times a stage and logs its end."""
        start = time.perf_counter()
        yield
        seconds = round(self.report.seconds.get(name, 0.0) + time.perf_counter() - start, 3)
        self.report.seconds[name] = seconds
        log.info(name, kb=self.kb, seconds=seconds)

    def keep_tables(self, *names: str) -> None:
        """Puts the finished tables where `data/processed/<kb>` promises them, each in one step."""
        for name in names:
            (self.staging / name).replace(self.processed / name)
        sync_folder(self.processed)

    def finish(self) -> dict[str, Any]:
        """Writes rejects.jsonl and `runs/<run_id>.json`, removes what was only staged, and returns the report."""
        self.report.finished_at = utc_now()
        # Written even when there are none, so that the file always speaks of the latest run.
        path = self.processed / "rejects.jsonl"
        lines = (json.dumps(r.as_json(), ensure_ascii=False, default=str) for r in self.rejects)
        write_file(path, "".join(f"{line}\n" for line in lines).encode("utf-8", "replace"))
        self.report.rejects_file = str(path) if self.rejects else None
        write_file(self.data.runs(self.kb) / f"{self.run_id}.json", self.report.model_dump_json(by_alias=True, indent=1))
        shutil.rmtree(self.staging.parent, ignore_errors=True)
        return self.report.model_dump(by_alias=True)


def last_run(data: DataDir, kb: str) -> RunReport | None:
    """The newest run's report; run ids sort by time."""
    reports = sorted(data.runs(kb).glob("[0-9]*T*-??????.json"))
    return RunReport.model_validate_json(reports[-1].read_text(encoding="utf-8")) if reports else None


def read_report(path: Path) -> RunReport | None:
    """The report of a run; None where it left none, or none that can be read."""
    try:
        return RunReport.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
