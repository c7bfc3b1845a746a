"""What surrounds the steps of a refresh: the locks, what killed runs have left, the report however it ends, and
retention.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from almanac.core.durable import REMOVED, TEMPORARY, remove, sweep
from almanac.core.lifetime import uninterrupted
from almanac.core.logs import get_logger
from almanac.core.store.session import writing
from almanac.flows.pipeline.apply_retention import apply_retention
from almanac.flows.pipeline.earlier_runs import ending_of
from almanac.flows.pipeline.forget_url import complete_takedowns
from almanac.flows.pipeline.handles import Tables
from almanac.flows.pipeline.ledger import Ledger
from almanac.flows.pipeline.question_vectors import question_key
from almanac.flows.pipeline.run import Run
from almanac.flows.pipeline.state import remember
from almanac.index.chroma.leftover import remove_leftovers
from almanac.index.versions.lock import Lease, writer_lock
from almanac.index.versions.version_store import discard_unfinished
from almanac.schemas.errors import AlmanacError, GateRefused, NoRecords, as_storage_error
from almanac.schemas.reports import Outcome, RunReport

log = get_logger("almanac.refresh")
_CODES: dict[Outcome, int] = {
    "published_with_rejects": 5,
    "gate_refused": GateRefused.exit_code,
    "no_records": NoRecords.exit_code,
}


@contextmanager
def refreshing(ledger: Ledger, *, rejects_ok: bool = False) -> Iterator[Lease]:
    """Locks the knowledge base and clears up, for a block that takes the steps and notes their outcome in the `ledger`,
    which has the report afterwards. With `rejects_ok`, quarantined items are nothing to report.

    NoRecords ends the block, and is an outcome. Raises RunLocked where another process writes, and what the steps
    raise; `report` of an AlmanacError is the run's, None where the lock was not obtained. A run that ends with an error
    keeps raw pages and finished vectors, and gives back what else it took.
    """
    run, missing = ledger.run, None
    with (
        as_storage_error(run.data.root),
        writing(run.data, run.kb, run.run_id),
        writer_lock(run.index_dir, run.run_id) as lease,
    ):
        try:
            with as_storage_error(run.data.root):
                log.info("run", kb=run.kb, run_id=run.run_id)
                discard_unfinished(run.index_dir)
                _sweep(run)
                complete_takedowns(run.data, run.declaration, lease=lease)
                yield lease
        except NoRecords as nothing:
            nothing.about(run.declaration.handle)
            ledger.outcome, missing = "no_records", nothing.as_json()["error"]
        except AlmanacError as error:
            error.about(run.declaration.handle)
            ledger.outcome = "gate_refused" if isinstance(error, GateRefused) else "failed"
            report = _fail(ledger, lease, error.exit_code, error.as_json()["error"])
            error.report = report.model_dump(by_alias=True)
            raise
        except Exception as defect:
            _fail(ledger, lease, 1, {"kind": "crash", "message": repr(defect), "where": None, "hint": None})
            raise
        except BaseException:  # Ctrl-C, or cancelled in Prefect
            _fail(ledger, lease, 130, {"kind": "interrupted", "message": "interrupted", "where": None, "hint": None})
            raise
        code = 0 if rejects_ok and ledger.outcome == "published_with_rejects" else _CODES.get(ledger.outcome, 0)
        with uninterrupted():
            report = ledger.close(code, missing)
        _look_back(ledger, report, lease)


def _sweep(run: Run) -> None:
    """Removes half-written files of killed runs; of the raw folders, which are large, only if a latest crawl was cut
    off.
    """
    for path in [*run.processed.glob(".staging"), *run.processed.glob(REMOVED)]:
        remove(path)
    latest = [crawls[-1] for source in run.declaration.sources if (crawls := run.raw(source.name).crawls())]
    is_cut_off = any(ending_of(run.data, run.kb, crawl) == "cut off" for crawl in latest)
    for folder in (run.processed, run.data.vectors, *([run.data.raw(run.kb, "")] if is_cut_off else [])):
        sweep(folder.rglob(TEMPORARY))


def _fail(ledger: Ledger, lease: Lease, exit_code: int, error: dict[str, Any]) -> RunReport:
    """Writes the report of a run that an error ends, and removes what only this run could have used."""
    run = ledger.run
    with uninterrupted():
        try:
            if lease.is_held():  # else they are another run's
                discard_unfinished(run.index_dir)
                if error["kind"] == "storage_error":  # a full disk needs the room
                    remove_leftovers(run.index_dir)
        except OSError as left:
            log.warning("an unfinished version is left for the next run to remove", kb=run.kb, error=str(left))
        report = ledger.close(exit_code, error)
        try:
            if lease.is_held() and _has_too_many_crawls(run, run.declaration.retention.crawls):
                _apply_retention(run, lease)
        except (AlmanacError, OSError) as left:
            log.warning(
                "what is beyond the declared retention is left for the next run to remove", kb=run.kb, error=str(left)
            )
    return report


def _look_back(ledger: Ledger, report: RunReport, lease: Lease) -> None:
    """Records the inputs for the next run, and applies retention. An error here is logged: it does not change the
    outcome.
    """
    run, tables = ledger.run, ledger.noted(Tables)
    try:
        remove_leftovers(run.index_dir)
        if tables is not None and report.outcome in ("published", "published_with_rejects", "unchanged"):
            remember(run, report, tables.digest)
        # Runs that make no version skip retention until a source has more than twice the crawls that it may keep.
        if report.outcome not in ("unchanged", "no_records") or _has_too_many_crawls(
            run, 2 * run.declaration.retention.crawls
        ):
            _apply_retention(run, lease)
    except (AlmanacError, OSError) as error:
        log.warning(
            "the run is complete, but recording its inputs or applying retention failed", kb=run.kb, error=str(error)
        )


def _has_too_many_crawls(run: Run, allowed: int) -> bool:
    return any(len(run.raw(source.name).crawls()) > allowed for source in run.declaration.sources)


def _apply_retention(run: Run, lease: Lease) -> None:
    keep_vectors = {question_key(golden.question, run.embedder.query_prompt) for golden in run.golden}
    apply_retention(run.data, run.declaration, crawls={run.run_id}, keep_vectors=keep_vectors, lease=lease)
