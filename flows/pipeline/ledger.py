"""The ledger of a run: collects the handles as steps return them, and makes the report of them, also if the run ends
half-way.
"""

import io
import json
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TypeVar

from almanac.core.clock import utc_now
from almanac.core.durable import remove, write_file
from almanac.core.logs import get_logger
from almanac.core.tables import DUPLICATES, REJECTS
from almanac.flows.pipeline.acquire import read_outcomes
from almanac.flows.pipeline.earlier_runs import note_run
from almanac.flows.pipeline.handles import Comparison, Duplicates, Items, Measured, Rejects, Tables, Validated
from almanac.flows.pipeline.map import MAP_REJECTS
from almanac.flows.pipeline.run import Run
from almanac.flows.pipeline.validation_results import Judged, keep_results, public_lines
from almanac.schemas.crawl_outcome import CrawlOutcome, PageCounts
from almanac.schemas.items import Duplicate
from almanac.schemas.manifest import Manifest, Verdict
from almanac.schemas.reports import DUPLICATES_REPORTED, ChunkCounts, ItemCounts, Outcome, Recall, RunReport
from almanac.transforms.remedies import remedies_of

log = get_logger("almanac.run")
_Handle = TypeVar("_Handle", Items, Validated, Comparison, Tables, ChunkCounts, Verdict, Measured)


class Ledger:
    """The handles and counts of one run so far. What orders the steps writes into it; steps do not see it."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.outcome: Outcome = "failed"  # until the steps have come to one
        self.previous: str | None = None  # the version that is live as the run begins
        self.version: str | None = None  # that the run made, or confirmed
        self.stages: dict[str, str] = {}
        self.stages_changed: list[str] = []
        self.inputs = ""
        self.seconds: dict[str, float] = {}
        self.report: RunReport | None = None  # once the run has ended
        # what the live version finds of the golden questions, where that was asked
        self.live_recall: Recall | None = None
        self._noted: dict[type, object] = {}

    def note_stages(self, stages: dict[str, str], live: Manifest | None) -> None:
        """Records the fingerprints of the stages, and which of them differ from those of the live version."""
        self.stages = stages
        self.stages_changed = [
            name for name, value in stages.items() if live is not None and live.fingerprints.get(name) != value
        ]

    def note(self, handle: _Handle) -> _Handle:
        """Records a handle, in place of an earlier one of the same type, and returns it."""
        self._noted[type(handle)] = handle
        return handle

    def noted(self, kind: type[_Handle]) -> _Handle | None:
        """The recorded handle of a type; None if the run has not come so far."""
        handle = self._noted.get(kind)
        return handle if isinstance(handle, kind) else None

    def forget(self, kind: type[_Handle]) -> None:
        """Drops the recorded handle of a type."""
        self._noted.pop(kind, None)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Measures the seconds of a stage, and logs them at its end."""
        start = time.perf_counter()
        yield
        self.seconds[name] = round(self.seconds.get(name, 0.0) + time.perf_counter() - start, 3)
        log.info(name, kb=self.run.kb, seconds=self.seconds[name])

    def close(self, exit_code: int, error: dict[str, object] | None = None) -> RunReport:
        """Removes the staged files, and writes rejects.jsonl, duplicates.jsonl and the report of the run.

        With an `error`, staged files that are missing or unreadable, and what cannot be written, are logged and left
        out, so that they do not hide the error.
        """
        run, rejects, duplicates, counts = self.run, self.rejects, self._duplicates(), self.item_counts()
        may_lack = error is not None
        lists = {
            REJECTS: _lines_of(rejects, may_lack=may_lack),
            DUPLICATES: _lines_of((duplicates,), may_lack=may_lack),
        }
        judged = self._judged(may_lack=may_lack)
        recall, self.live_recall = self._recall(may_lack=may_lack)
        sources = self._outcomes(may_lack=may_lack)
        verdict, items = self.noted(Verdict), self.noted(Items)
        if run.staging.is_dir():  # before anything is written: the disk may be full
            remove(run.staging)
        report = RunReport(
            kb=run.kb,
            run_id=run.run_id,
            outcome=self.outcome,
            exit_code=exit_code,
            version=self.version,
            previous=self.previous,
            pages=sum((source.pages for source in sources), PageCounts()),
            items=counts,
            chunks=self.chunks,
            gate=verdict,
            remedies=[] if verdict is None else remedies_of(run.declaration, verdict, sources, self.version),
            limits_reached=[limit for source in sources for limit in source.limits_reached],
            recall=recall,
            seconds=self.seconds,
            stages=self.stages,
            stages_changed=self.stages_changed,
            # of pages that could not all be read nobody may conclude that nothing changed
            inputs=self.inputs if items is None or items.is_whole else "",
            rejects_file=str(run.processed / REJECTS) if any(reject.count for reject in rejects) else None,
            duplicates=[
                Duplicate(**json.loads(line)) for line in islice(io.BytesIO(lists[DUPLICATES]), DUPLICATES_REPORTED)
            ],
            duplicates_file=str(run.processed / DUPLICATES) if duplicates.count else None,
            sources=sources,
            started_at=run.started_at,
            finished_at=utc_now(),
            error=error,
        )
        try:
            for name, content in lists.items():  # an empty one, too, so that the file always speaks of the latest run
                if not (run.processed / name).is_file() or (run.processed / name).read_bytes() != content:
                    write_file(run.processed / name, content)
            if judged is not None:
                keep_results(run, report, judged)
            note_run(run)
            write_file(run.report_file, report.model_dump_json(by_alias=True, indent=1))
        except OSError as lost:
            _require(may_lack, lost)
            for sibling_path in run.report_file.parent.glob(f"{run.run_id}.*"):  # of no use without the report
                remove(sibling_path)
        self.report = report
        return report

    @property
    def chunks(self) -> ChunkCounts:
        """The counts of the chunks, as far as the run has come."""
        tables = self.noted(Tables)
        cut = ChunkCounts() if tables is None else ChunkCounts(total=tables.total, truncated=tables.truncated)
        return self.noted(ChunkCounts) or cut

    def count_all_as_cached(self) -> None:
        """Notes that no chunk needed a new vector."""
        self.note(self.chunks.model_copy(update={"cached": self.chunks.total}))

    def _judged(self, *, may_lack: bool) -> Judged | None:
        """What became of the declared rules; None if the run has not come so far."""
        validated = self.noted(Validated)
        try:
            return None if validated is None else Judged.from_validated(validated)
        except (OSError, ValueError) as lost:
            _require(may_lack, lost)
            return None

    def item_counts(self) -> ItemCounts:
        """The counts of the items, as far as the run has come."""
        items, comparison = self.noted(Items), self.noted(Comparison)
        if comparison is not None:
            return comparison.counts
        counts = ItemCounts(quarantined=sum(reject.count for reject in self.rejects))
        counts.in_ = counts.quarantined
        if items is not None:
            counts.in_, counts.deduplicated = items.extracted, items.deduplicated
        return counts

    def _recall(self, *, may_lack: bool) -> tuple[Recall | None, Recall | None]:
        measured = self.noted(Measured)
        try:
            return (None, None) if measured is None else (measured.read(), measured.read_live())
        except (OSError, ValueError) as lost:
            _require(may_lack, lost)
            return None, None

    def _outcomes(self, *, may_lack: bool) -> list[CrawlOutcome]:
        try:
            handle = self.noted(Comparison) or self.noted(Items)
            return read_outcomes(self.run, () if handle is None else handle.sources)
        except (OSError, ValueError) as lost:
            _require(may_lack, lost)
            return []

    @property
    def rejects(self) -> tuple[Rejects, ...]:
        """The files of rejects, as far as the run has come."""
        if (validated := self.noted(Validated)) is not None:
            return validated.rejects
        items = self.noted(Items)
        return (Rejects.from_file(self.run.staging / MAP_REJECTS) if items is None else items.rejects,)

    def _duplicates(self) -> Duplicates:
        handle = self.noted(Comparison) or self.noted(Items)
        return handle.duplicates if handle is not None else Duplicates()


def _lines_of(parts: Iterable[Rejects | Duplicates], *, may_lack: bool) -> bytes:
    """The lines of all parts, as the lists of the latest run have them."""
    return b"".join(
        line for part in parts if part.path is not None for line in public_lines(_read(part.path, may_lack=may_lack))
    )


def _read(path: Path, *, may_lack: bool) -> bytes:
    try:
        return path.read_bytes()
    except OSError as lost:
        _require(may_lack, lost)
        return b""


def _require(may_lack: bool, lost: Exception) -> None:
    """Raises the error, or logs it if the report of another error may lack the file."""
    if not may_lack:
        raise lost
    log.warning("a part of the report is lost", error=str(lost))
