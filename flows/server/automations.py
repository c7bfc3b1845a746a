"""The Prefect automations that Almanac creates: alerts for failed, stale and dead runs.

If ALMANAC_ALERT_WEBHOOK is not set, the same automations only leave a trace on the event feed.
"""

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from uuid import UUID

from cronsim import CronSim
from prefect.blocks.webhook import Webhook
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import StateType
from prefect.events import emit_event
from prefect.events.actions import CallWebhook, ChangeFlowRunState, DoNothing
from prefect.events.schemas.automations import Automation, AutomationCore, EventTrigger, Posture
from prefect.types import SecretDict

from almanac.flows.environment import HEARTBEAT_S
from almanac.flows.outcome import EVENT, knowledge_base
from almanac.schemas.declaration import Declaration

_BLOCK = "almanac-alerts"
_TAG = "almanac as shipped"  # what carries it and is none of these is taken away
_SILENCE = timedelta(seconds=3 * HEARTBEAT_S)
_TO_END = timedelta(hours=1)  # how long after it was due a refresh may end
# of a schedule that are looked at: a year of a daily one, and at least a weekend
_STARTS, _WEEK = 400, timedelta(days=8)
_WATCHED = "almanac.watched"
_SUCCESSES = frozenset(f"{EVENT}{outcome}" for outcome in ("published", "published_with_rejects", "unchanged", "kept"))
_OF_A_RUN = "{{ event.payload | tojson }}"
_OF_A_CRASH = (
    '{"text": {{ (flow.name ~ ": crashed. " ~ event.resource["prefect.state-message"]) | tojson }}, "kb": {{ '
    'flow.name | tojson }}, "outcome": "crashed",'
    ' "run": {{ flow_run.name | tojson }}, "flow_run": {{ (flow_run.id | string) | tojson }}, "link": {{ '
    "(flow_run | ui_url) | tojson }}}"
)


def ensure_automations(declarations: Sequence[Declaration], webhook: str | None, ui: str) -> list[str]:
    """Creates or updates the automations, and returns their names. Unchanged ones are left alone, because an update
    resets what they wait for.

    Args:
        webhook: URL that receives a POST with one JSON object for each alert; None for no calls
        ui: base URL of the Prefect UI, for links

    Operators decide whether an automation is enabled; this function keeps their choice.
    """
    block = _save_block(webhook) if webhook else None
    wanted = [
        _gate_refused(block),
        _failed(block),
        _zombie(),
        _crashed(block),
        *(_stale(one, block, ui) for one in declarations if one.schedule),
    ]
    with get_client(sync_client=True) as client:
        there = {one.name: one for one in _shipped(client)}
        changed = {automation.name for automation in wanted if _ensure(client, automation, there.get(automation.name))}
        for name in there.keys() - {automation.name for automation in wanted}:
            client.delete_automation(there[name].id)
    for one in declarations:
        if _stale_name(one.name) in changed:
            # From now on a success is waited for, also of a knowledge base that never had one.
            emit_event(
                _WATCHED,
                resource={"prefect.resource.id": f"almanac.watch.{one.name}"},
                related=[knowledge_base(one.name)],
            )
    return [automation.name for automation in wanted]


def _shipped(client: SyncPrefectClient) -> Iterable[Automation]:
    return [one for one in client.read_automations() if _TAG in one.tags]


def _ensure(client: SyncPrefectClient, wanted: AutomationCore, found: Automation | None) -> bool:
    """Whether the automation was created or changed."""
    if found is None:
        client.create_automation(wanted)
        return True
    wanted = wanted.model_copy(update={"enabled": found.enabled})
    if _meaning(wanted) == _meaning(found):
        return False
    client.update_automation(found.id, wanted)
    return True


def _meaning(automation: AutomationCore) -> str:
    """The parts of an automation that this module defines, in a fixed order; ids and times of the server are left
    out.
    """

    def ordered(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: ordered(one) for key, one in value.items() if key != "id"}
        return (
            sorted(value, key=str) if isinstance(value, list) and all(isinstance(one, str) for one in value) else value
        )

    said = automation.model_dump(mode="json", include={"name", "description", "enabled", "tags", "trigger", "actions"})
    return json.dumps({**said, "trigger": ordered(said["trigger"])}, sort_keys=True)


def _save_block(url: str) -> UUID:
    block: Any = Webhook(method="POST", url=url, headers=SecretDict({"Content-Type": "application/json"}))
    saved: UUID = block.save(_BLOCK, overwrite=True)
    return saved


def _call(block: UUID | None, payload: str) -> list[CallWebhook | DoNothing]:
    return [DoNothing()] if block is None else [CallWebhook(block_document_id=block, payload=payload)]


def _gate_refused(block: UUID | None) -> AutomationCore:
    return AutomationCore(
        name="almanac: gate refused",
        description="A run found something that the gate does not let pass. The live version serves on.",
        tags=[_TAG],
        trigger=_on({f"{EVENT}gate_refused"}),
        actions=_call(block, _OF_A_RUN),
    )


def _failed(block: UUID | None) -> AutomationCore:
    return AutomationCore(
        name="almanac: run failed",
        description="A run ended without a verdict, or found no records at all.",
        tags=[_TAG],
        trigger=_on({f"{EVENT}failed", f"{EVENT}no_records"}),
        actions=_call(block, _OF_A_RUN),
    )


def _crashed(block: UUID | None) -> AutomationCore:
    return AutomationCore(
        name="almanac: crashed",
        description="A run ended without a word, or was found to have no process any more.",
        tags=[_TAG],
        trigger=_on(
            {"prefect.flow-run.Crashed"},
            related={"prefect.resource.role": "tag", "prefect.resource.id": "prefect.tag.almanac"},
        ),
        actions=_call(block, _OF_A_CRASH),
    )


def _on(events: set[str], *, related: dict[str, str] | None = None) -> EventTrigger:
    about = related or {"prefect.resource.role": "knowledge-base"}
    return EventTrigger(expect=events, match_related=about, posture=Posture.Reactive, threshold=1, within=timedelta(0))


def _zombie(silence: timedelta = _SILENCE) -> AutomationCore:
    """Marks runs as crashed whose heartbeats have stopped. Any event of the run counts as a sign of life, because its
    states have the names of outcomes.

    The state is not forced: if the end of a run is reported late, the server keeps its final state.
    """
    return AutomationCore(
        name="almanac: zombie",
        description=(
            f"A run of which nothing was heard for {silence.total_seconds():.0f} s has no process any more: it is "
            "marked as crashed."
        ),
        tags=[_TAG],
        trigger=EventTrigger(
            after={"prefect.flow-run.heartbeat"},
            expect={"prefect.flow-run.*", f"{EVENT}*"},
            match={"prefect.resource.id": "prefect.flow-run.*"},
            for_each={"prefect.resource.id"},
            posture=Posture.Proactive,
            threshold=1,
            within=silence,
        ),
        actions=[
            ChangeFlowRunState(
                state=StateType.CRASHED, message=f"Zombie: nothing was heard of it for {silence.total_seconds():.0f} s."
            )
        ],
    )


def _stale(declaration: Declaration, block: UUID | None, ui: str) -> AutomationCore:
    kb, patience = declaration.name, patience_of(declaration.schedule or "")
    hours = f"{patience.total_seconds() / 3600:g} hours"
    text = f"{kb}: stale. No refresh has succeeded for {hours}; its schedule is {declaration.schedule}"
    payload = {"text": text, "kb": kb, "outcome": "stale", "run": None, "link": f"{ui}/runs"}
    return AutomationCore(
        name=_stale_name(kb),
        description=(
            f"No refresh has succeeded for {hours}: the longest time between two starts of its schedule "
            f"({declaration.schedule}), and an hour."
        ),
        tags=[_TAG],
        trigger=EventTrigger(
            after={*_SUCCESSES, _WATCHED},
            expect=set(_SUCCESSES),
            match_related={"prefect.resource.id": knowledge_base(kb)["prefect.resource.id"]},
            # without it, Prefect goes on firing until there is a success
            for_each={"related:knowledge-base:prefect.resource.id"},
            posture=Posture.Proactive,
            threshold=1,
            within=patience,
        ),
        actions=_call(block, json.dumps(payload)),
    )


def _stale_name(kb: str) -> str:
    return f"almanac: {kb} is stale"


def patience_of(schedule: str) -> timedelta:
    """How long a knowledge base may go without a successful run: the longest interval of its schedule plus one hour."""
    begin = datetime(2024, 1, 1, tzinfo=UTC)
    longest = timedelta(0)
    for number, (earlier, later) in enumerate(pairwise(CronSim(schedule, begin))):
        longest = max(longest, later - earlier)
        if number >= _STARTS and later - begin > _WEEK:
            break
    return longest + _TO_END
