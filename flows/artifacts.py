"""What a run leaves in the Prefect UI: tables that one can read."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import structlog
from prefect.artifacts import create_table_artifact

from flows.tables import GATE_COLUMNS, LOST_COLUMNS, as_records, diff_rows, gate_rows, gate_title, lost_rows, plan_rows, summary_rows
from schemas.items import Reject
from schemas.reports import DiffResult, PlanResult, RunReport

log = structlog.get_logger("almanac.artifacts")
_REJECTS_SHOWN = 50


def show_summary(report: RunReport) -> None:
    """The run's counters, the gate's checks, and the pages that are missing, each as a table."""
    of = f"run {report.run_id} of {report.kb}"
    _table(report.kb, "summary", as_records(("what", "value"), summary_rows(report)), f"Summary of {of}")
    if report.gate is not None:
        _table(report.kb, "gate", as_records(GATE_COLUMNS, gate_rows(report.gate)), f"{gate_title(report.gate, report.previous)} ({of})")
    if lost := lost_rows(report.sources):
        _table(report.kb, "missing pages", as_records(LOST_COLUMNS, lost), f"Pages that did not arrive or are gone, by reason ({of})")
    if report.recall is not None and report.recall.missed:
        _table(report.kb, "missed questions", [{"question": question} for question in report.recall.missed], f"Golden questions without their answer ({of})")


def show_diff(diff: DiffResult) -> None:
    """How a new version differs from the one before."""
    _table(diff.kb, "diff", as_records(("what", "value"), diff_rows(diff)), f"{diff.kb}: {diff.to} against {diff.since}")


def show_plan(plan: PlanResult) -> None:
    """What a run would do, and what its gate would say."""
    _table(plan.kb, "plan", as_records(("what", "value"), plan_rows(plan)), f"What a run of {plan.kb} would do now")
    _table(plan.kb, "plan gate", as_records(GATE_COLUMNS, gate_rows(plan.gate)), f"What the gate of {plan.kb} would say")


def show_validation(kb: str, rows: list[dict[str, Any]]) -> None:
    """One row an expectation."""
    _table(kb, "validation", rows, f"Expectations on the items of {kb}")


def show_rejects(kb: str, rejects: Sequence[Reject]) -> None:
    """The first rejects with their reasons; the file holds all."""
    rows = [{name: str(value) for name, value in r.as_json().items()} for r in rejects[:_REJECTS_SHOWN]]
    _table(kb, "rejects", rows, f"{len(rejects)} items of {kb} were quarantined")


def _table(kb: str, what: str, rows: list[dict[str, Any]], description: str) -> None:
    with shown_if_possible(what):
        create_table_artifact(rows, key=artifact_key(kb, what), description=description)


def artifact_key(kb: str, what: str) -> str:
    """Prefect's keys are lower-case letters, digits and dashes."""
    return f"{kb}-{what}".replace("_", "-").replace(" ", "-")


@contextmanager
def shown_if_possible(what: str) -> Iterator[None]:
    """A picture of a run that cannot be sent is logged; it is no reason to lose the run."""
    try:
        yield
    except Exception as error:  # whatever the API or the way to it raises
        log.warning("artifact not sent", artifact=what, error=f"{type(error).__name__}: {error}")
