"""The outcome of a run as a Prefect state, named for the outcome, and as an event for automations."""

from typing import Any

from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext
from prefect.events import emit_event
from prefect.states import Completed, Failed
from prefect.utilities.urls import url_for

from almanac.flows.reporting.report_tables import amount, item_changes, limits_line, rules_note
from almanac.schemas.errors import AlmanacError, GateRefused, NoRecords, RunLocked
from almanac.schemas.reports import Outcome, RunReport

EVENT = "almanac.run."  # and the outcome: almanac.run.gate_refused
_INTERRUPTED = 130
NOT_FINE: tuple[Outcome, ...] = ("gate_refused", "no_records", "failed")
_NAMES: dict[type[AlmanacError], str] = {GateRefused: "Gate refused", NoRecords: "No records", RunLocked: "Locked"}


class VerdictFailure(Exception):
    """A verdict that Prefect shows in red, because somebody has to act on it. The run itself ended normally; `report`
    is its report.
    """

    def __init__(self, message: str, report: dict[str, Any]) -> None:
        super().__init__(message)
        self.report = report


def state_of(report: RunReport) -> State[Any]:
    """A completed or failed state, named for the outcome. Its message gives version and counts, or the reasons against
    publishing.
    """
    name, message, report_fields = (
        report.outcome.replace("_", " ").capitalize(),
        describe_run(report),
        report.model_dump(by_alias=True),
    )
    if report.outcome in NOT_FINE:
        return Failed(name=name, message=message, data=VerdictFailure(message, report_fields))
    return Completed(name=name, message=message, data=report_fields)


def state_of_error(error: AlmanacError) -> State[Any]:
    """A failed state that carries the error."""
    return Failed(name=_NAMES.get(type(error), "Failed"), message=str(error), data=error)


def describe_run(report: RunReport) -> str:
    """One line for people: the version and its changes, or the reasons why there is none."""
    if report.outcome == "gate_refused":
        serving = f"{report.previous} serves on" if report.previous else "nothing is live"
        return " · ".join(
            [
                *([f"{report.version} is kept"] if report.version else []),
                *reasons_of(report),
                *filter(None, [rules_note(report)]),
                serving,
            ]
        )
    if report.error:
        return str(report.error["message"])
    chunks = f"{report.chunks.total:,} chunks, {report.chunks.embedded:,} embedded"
    cut = limits_line(report.limits_reached)
    return " · ".join([report.version or "no version", item_changes(report), chunks, *([cut] if cut else [])])


def reasons_of(report: RunReport) -> list[str]:
    """The checks of the gate that failed, each as `max_lost 50 % (limit 10 %)`."""
    checks = report.gate.checks if report.gate is not None else []
    return [
        f"{check.name} {amount(check.name, check.value)} (limit {amount(check.name, check.limit)})"
        for check in checks
        if not check.ok
    ]


def announce(report: RunReport) -> None:
    """Emits the event `almanac.run.<outcome>` for the current flow run. Webhooks receive its payload.

    Prefect's own state events of scheduled runs reach automations 15 minutes late, because they wait for a preceding
    event that is never sent.
    """
    context = FlowRunContext.get()
    if context is None or context.flow_run is None:
        return
    run = context.flow_run
    event = EVENT + ("interrupted" if report.exit_code == _INTERRUPTED else report.outcome)
    payload = {
        "text": f"{report.kb}: {report.outcome.replace('_', ' ')}. {describe_run(report)}",
        "kb": report.kb,
        "outcome": report.outcome,
        "exit_code": report.exit_code,
        "version": report.version,
        "previous": report.previous,
        "reasons": reasons_of(report),
        "run": report.run_id,
        "flow_run": str(run.id),
        "link": url_for(run),
    }
    resource = {"prefect.resource.id": f"prefect.flow-run.{run.id}", "prefect.resource.name": run.name}
    emit_event(event, resource=resource, related=[knowledge_base(report.kb)], payload=payload)


def knowledge_base(kb: str) -> dict[str, str]:
    """The related resource of an event that stands for a knowledge base."""
    return {
        "prefect.resource.id": f"almanac.knowledge-base.{kb}",
        "prefect.resource.role": "knowledge-base",
        "prefect.resource.name": kb,
    }
