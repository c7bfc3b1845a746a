"""One run: where it stands, what it found, and the files that say so afterwards."""

import json
import secrets
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import structlog

from almanac.core.durable import move, remove, write_file
from almanac.core.fingerprints import stages_of
from almanac.core.settings import DataDir
from almanac.core.tables import CHUNKS, DOCUMENTS, RECORDS
from almanac.index.embedding.embedder import Embedder, describe_embedder, load_embedder
from almanac.index.versions.store import current_version, read_manifest, require_files, version_dir
from almanac.query.evaluation.golden import Golden
from almanac.schemas.declaration import Declaration
from almanac.schemas.errors import DamagedVersion
from almanac.schemas.hashing import file_sha256
from almanac.schemas.items import Reject
from almanac.schemas.manifest import EmbedderInfo, Manifest
from almanac.schemas.reports import CrawlOutcome, PageCounts, Recall, RunReport
from almanac.schemas.scope import Scope
from almanac.spiders.crawling.previous_crawls import Earlier, Ending, earlier_crawls
from almanac.spiders.store.raw import RawStore
from almanac.transforms.compare import Comparison

log = structlog.get_logger("almanac.run")
_JUDGED = frozenset({"published", "published_with_rejects", "unchanged", "kept", "gate_refused", "no_records"})
_CONCLUDED = _JUDGED - {"gate_refused", "no_records"}
STATE = "state.json"  # of flows/pipeline/state.py
OnProgress = Callable[[int, int], None]
Show = Callable[[str], AbstractContextManager[OnProgress]]


def utc_now() -> str:
    """This moment, ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def silent(_step: str) -> AbstractContextManager[OnProgress]:
    """Shows nothing."""
    return nullcontext(lambda _done, _total: None)


class Run:
    """The state that a refresh's steps share. Not a dataclass: Prefect would walk through all of it at every step.

    With `scratch`, everything that it writes lands there, and what is in the data directory is only read.
    """

    def __init__(self, declaration: Declaration, data: DataDir, scope: Scope = Scope(), *, show: Show = silent, scratch: Path | None = None) -> None:  # noqa: B008  # frozen
        now = datetime.now(UTC)
        self.declaration = declaration
        self.data = data
        self.scope = scope
        self.show = show
        self.run_id = f"{now:%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"
        self.rejects: list[Reject] = []
        self.validation: list[dict[str, Any]] = []
        self.quarantined: Collection[int] = frozenset()  # numbers of the items that validation took out
        self.led_to: dict[tuple[str, str], str] = {}  # source and URL → where it redirects to
        self.comparison = Comparison()
        self.golden: list[Golden] = []
        self.recall: Recall | None = None
        self.live_recall: Recall | None = None
        self.digest = ""
        self.live_items: int | None = None  # of the version to compare with
        self.report = RunReport(kb=declaration.name, run_id=self.run_id, outcome="failed", exit_code=1, started_at=now.isoformat(timespec="seconds"))
        self._scratch = scratch

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
        return (self._scratch or self.processed / ".staging") / self.run_id

    @cached_property
    def embedder(self) -> EmbedderInfo:
        """Of the declared embedder; no model is loaded. Raises DeclarationError where there is none such."""
        return describe_embedder(self.declaration.embed)

    @cached_property
    def _model(self) -> Embedder:
        return load_embedder(self.declaration.embed, self.data)

    def model(self) -> Embedder:
        """The declared embedder, loaded once."""
        return self._model

    @cached_property
    def stages(self) -> dict[str, str]:
        """The fingerprints of this run's stages."""
        return stages_of(self.declaration, self.embedder.fingerprint)

    @cached_property
    def only_later_stages_changed(self) -> bool:
        """Whether, since the last run that came to a verdict, something else was declared, and not for fetching."""
        last = next((report.stages for report in newest_first(self.data, self.kb) if report.stages and report.outcome in _JUDGED), None)
        return last is not None and last != self.stages and last.get("page") == self.stages["page"]

    @property
    def tables(self) -> Path:
        """Where the run's tables are once they are complete."""
        return self.staging if self.is_plan else self.processed

    @property
    def is_plan(self) -> bool:
        return self._scratch is not None

    def raw(self, source: str) -> RawStore:
        stored = self.data.raw(self.kb, source)
        return RawStore(stored) if self._scratch is None else RawStore(self._scratch / "raw" / source, below=stored)

    def earlier(self, source: str) -> Earlier:
        """The crawls before this run's that are good for something."""
        return earlier_crawls(self.raw(source), self.run_id, self.ending_of)

    def ending_of(self, run_id: str) -> Ending:
        """How an earlier run ended: with a version that serves or confirms one, with a refusal or an error that it told, or cut off."""
        report = read_report(self.data.runs(self.kb) / f"{run_id}.json")
        if report is None or (report.error or {}).get("kind") == "interrupted":
            return "cut off"
        return "concluded" if report.outcome in _CONCLUDED or self._made_live(run_id) else "failed"

    def _made_live(self, run_id: str) -> bool:
        live = self.live()
        return live is not None and live.run_id == run_id

    def live(self) -> Manifest | None:
        """What the live version says of itself; None where there is none to compare with."""
        try:
            version = current_version(self.index_dir)
            return None if version is None else read_manifest(self.index_dir, version)
        except DamagedVersion as error:
            # A new version is the way out of a damaged one, so this run must not end here.
            log.warning("the live version cannot be read: compared with nothing", kb=self.kb, error=str(error))
            return None

    def crawl_as_live(self, source: str, earlier: Earlier) -> str | None:
        """The crawl behind what the live version has of a source: the last one that confirmed it, else the one that it was made from."""
        live = self.live()
        if live is None:
            return earlier.concluded
        told = read_report(self.data.runs(self.kb) / f"{earlier.concluded}.json") if earlier.concluded else None
        if told is not None and told.version == live.version:
            return earlier.concluded
        crawl = live.lineage.get("crawls", {}).get(source)
        return crawl if crawl and self.raw(source).index(crawl).exists else earlier.concluded

    @cached_property
    def live_if_whole(self) -> Manifest | None:
        """The version that is live as the run begins, unless a file of it is missing or another, or one of its tables does not hold what was published."""
        live = self.live()
        if live is None:
            return None
        folder = version_dir(self.index_dir, live.version)
        try:
            require_files(folder, live)
        except DamagedVersion as error:
            log.warning("the live version is damaged: it counts as no confirmation", kb=self.kb, error=str(error))
            return None
        tables = [stored for stored in live.files if stored.path in (RECORDS, DOCUMENTS, CHUNKS)]
        return live if all(file_sha256(folder / stored.path) == stored.sha256 for stored in tables) else None

    def keep_outcome(self, outcome: CrawlOutcome) -> None:
        """Takes in what became of a source, also where that ends the run; a second attempt takes the place of the first."""
        report = self.report
        report.sources = [*(one for one in report.sources if one.source != outcome.source), outcome]
        report.pages = sum((one.pages for one in report.sources), PageCounts())

    def outcome_of(self, source: str) -> CrawlOutcome:
        return next(one for one in self.report.sources if one.source == source)

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
        if (self.processed / STATE).exists():
            remove(self.processed / STATE)  # it speaks of the tables that are replaced now
        for name in names:
            move(self.staging / name, self.processed / name)

    def finish(self) -> dict[str, Any]:
        """Writes rejects.jsonl and `runs/<run_id>.json`, removes what was only staged, and returns the report."""
        self.report.finished_at = utc_now()
        # Written even when there are none, so that the file always speaks of the latest run.
        path = self.processed / "rejects.jsonl"
        lines = (json.dumps(r.as_json(), ensure_ascii=False, default=str) for r in self.rejects)
        content = "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")
        if not path.is_file() or path.read_bytes() != content:
            write_file(path, content)
        self.report.rejects_file = str(path) if self.rejects else None
        write_file(self.data.runs(self.kb) / f"{self.run_id}.json", self.report.model_dump_json(by_alias=True, indent=1))
        if self.staging.is_dir():
            remove(self.staging)
        return self.report.model_dump(by_alias=True)


def last_run(data: DataDir, kb: str) -> RunReport | None:
    """The newest run's report; run ids sort by time."""
    return next(newest_first(data, kb), None)


def newest_first(data: DataDir, kb: str) -> Iterator[RunReport]:
    """The reports of all runs; those that cannot be read are left out."""
    for path in sorted(data.runs(kb).glob("[0-9]*T*-??????.json"), reverse=True):
        if (report := read_report(path)) is not None:
            yield report


def read_report(path: Path) -> RunReport | None:
    """The report of a run; None where it left none, or none that can be read."""
    try:
        return RunReport.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
