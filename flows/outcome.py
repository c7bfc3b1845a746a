"""What became of a run, as Prefect shows it: a state whose name tells the outcome, and an event that automations listen to."""

from typing import Any

from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext
from prefect.events import emit_event
from prefect.states import Completed, Failed
from prefect.utilities.urls import url_for

from almanac.flows.artifacts import shown_if_possible
from almanac.flows.reporting.tables import amount
from almanac.schemas.errors import AlmanacError, GateRefused, NoRecords, RunLocked
from almanac.schemas.reports import Outcome, RunReport

EVENT = "almanac.run."  # and the outcome: almanac.run.gate_refused
_INTERRUPTED = 130
NOT_FINE: tuple[Outcome, ...] = ("gate_refused", "no_records", "failed")
_NAMES: dict[type[AlmanacError], str] = {GateRefused: "Gate refused", NoRecords: "No records", RunLocked: "Locked"}


class VerdictFailure(Exception):
    """A verdict that somebody has to look at, for Prefect to show in red; the run came to its end and has its report."""

    def __init__(self, message: str, report: dict[str, Any]) -> None:
        super().__init__(message)
        self.report = report


def state_of(report: RunReport) -> State[Any]:
    """Completed or failed, under the outcome's own name; the message says version and counts, or why not."""
    name, message, told = report.outcome.replace("_", " ").capitalize(), describe_run(report), report.model_dump(by_alias=True)
    if report.outcome in NOT_FINE:
        return Failed(name=name, message=message, data=VerdictFailure(message, told))
    return Completed(name=name, message=message, data=told)


def state_of_error(error: AlmanacError) -> State[Any]:
    """Failed, with the error that the operator has to read."""
    return Failed(name=_NAMES.get(type(error), "Failed"), message=str(error), data=error)


def describe_run(report: RunReport) -> str:
    """The version and what is different in it, or what stands in the way of one: for a person, in one line."""
    if report.outcome == "gate_refused":
        serving = f"{report.previous} serves on" if report.previous else "nothing is live"
        return " · ".join([*([f"{report.version} is kept"] if report.version else []), *reasons_of(report), serving])
    if report.error:
        return str(report.error["message"])
    items = report.items.model_dump(by_alias=True)
    counts = [f"{items[name]:,} {name}" for name in ("added", "changed", "moved", "removed", "unchanged", "quarantined") if items[name]]
    chunks = f"{report.chunks.total:,} chunks, {report.chunks.embedded:,} embedded"
    return " · ".join([report.version or "no version", ", ".join(counts) or "no items", chunks])


def reasons_of(report: RunReport) -> list[str]:
    """The gate's checks that refuse: `max_lost 50 % (limit 10 %)`."""
    checks = report.gate.checks if report.gate is not None else []
    return [f"{check.name} {amount(check.name, check.value)} (limit {amount(check.name, check.limit)})" for check in checks if not check.ok]


def announce(report: RunReport) -> None:
    """Sends the event `almanac.run.<outcome>` of this flow run. Its payload is what a webhook is sent.

    Prefect's own events of a run that its scheduler made reach automations a quarter of an hour late: they wait for one that is never sent. These do not.
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
    with shown_if_possible(f"event {event}"):
        emit_event(event, resource=resource, related=[knowledge_base(report.kb)], payload=payload)


def knowledge_base(kb: str) -> dict[str, str]:
    """A knowledge base as something that events are related to."""
    return {"prefect.resource.id": f"almanac.knowledge-base.{kb}", "prefect.resource.role": "knowledge-base", "prefect.resource.name": kb}
