"""What a run leaves in the Prefect UI: tables that one can read."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import structlog
from prefect.artifacts import create_table_artifact

from schemas.items import Reject
from schemas.reports import RunReport

log = structlog.get_logger("almanac.artifacts")
_REJECTS_SHOWN = 50


def show_summary(report: RunReport) -> None:
    """The run's counters as one table, the gate's checks as another."""
    rows = [
        {"what": "outcome", "value": report.outcome.replace("_", " ")},
        {"what": "version", "value": report.version or "–"},
        {"what": "previous", "value": report.previous or "–"},
        *({"what": f"pages {name}", "value": value} for name, value in report.pages.model_dump().items()),
        *({"what": f"items {name}", "value": value} for name, value in report.items.model_dump(by_alias=True).items()),
        *({"what": f"chunks {name}", "value": value} for name, value in report.chunks.model_dump().items()),
        *({"what": f"seconds {name}", "value": value} for name, value in report.seconds.items()),
    ]
    _table(report.kb, "summary", rows, f"Run {report.run_id} of {report.kb}")
    if report.gate is not None:
        checks = [check.model_dump() for check in report.gate.checks]
        _table(report.kb, "gate", checks, f"Gate of {report.kb}: {report.gate.verdict}")


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
