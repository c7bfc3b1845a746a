"""The Prefect automations that Almanac creates: alerts for failed, stale and dead runs.

If ALMANAC_ALERT_WEBHOOK is not set, the same automations only leave a trace on the event feed.
"""

import json
from collections.abc import Sequence
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
_ANY_BASE = {"prefect.resource.role": "knowledge-base"}
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
        *(_stale(declaration, block, ui) for declaration in declarations if declaration.schedule),
    ]
    with get_client(sync_client=True) as client:
        there = {automation.name: automation for automation in client.read_automations() if _TAG in automation.tags}
        changed = {automation.name for automation in wanted if _ensure(client, automation, there.get(automation.name))}
        for name in there.keys() - {automation.name for automation in wanted}:
            client.delete_automation(there[name].id)
    for declaration in declarations:
        if _stale_name(declaration.name) in changed:
            # From now on a success is waited for, also of a knowledge base that never had one.
            emit_event(
                _WATCHED,
                resource={"prefect.resource.id": f"almanac.watch.{declaration.name}"},
                related=[knowledge_base(declaration.name)],
            )
    return [automation.name for automation in wanted]


def _ensure(client: SyncPrefectClient, wanted: AutomationCore, existing: Automation | None) -> bool:
    """Whether the automation was created or changed."""
    if existing is None:
        client.create_automation(wanted)
        return True
    wanted = wanted.model_copy(update={"enabled": existing.enabled})
    if _meaning(wanted) == _meaning(existing):
        return False
    client.update_automation(existing.id, wanted)
    return True


def _meaning(automation: AutomationCore) -> str:
    """The parts of an automation that this module defines, in a fixed order; ids and times of the server are left
    out.
    """

    def ordered(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: ordered(part) for key, part in value.items() if key != "id"}
        return (
            sorted(value, key=str)
            if isinstance(value, list) and all(isinstance(entry, str) for entry in value)
            else value
        )

    definition = automation.model_dump(
        mode="json", include={"name", "description", "enabled", "tags", "trigger", "actions"}
    )
    return json.dumps({**definition, "trigger": ordered(definition["trigger"])}, sort_keys=True)


def _save_block(url: str) -> UUID:
    block: Any = Webhook(method="POST", url=url, headers=SecretDict({"Content-Type": "application/json"}))
    saved: UUID = block.save(_BLOCK, overwrite=True)
    return saved


def _call(block: UUID | None, payload: str) -> CallWebhook | DoNothing:
    return DoNothing() if block is None else CallWebhook(block_document_id=block, payload=payload)


def _automation(
    name: str, description: str, trigger: EventTrigger, *actions: CallWebhook | ChangeFlowRunState | DoNothing
) -> AutomationCore:
    return AutomationCore(
        name=f"almanac: {name}", description=description, tags=[_TAG], trigger=trigger, actions=list(actions)
    )


def _on(events: set[str], related: dict[str, str]) -> EventTrigger:
    return EventTrigger(
        expect=events, match_related=related, posture=Posture.Reactive, threshold=1, within=timedelta(0)
    )


def _gate_refused(block: UUID | None) -> AutomationCore:
    description = "A run found something that the gate does not let pass. The live version serves on."
    return _automation("gate refused", description, _on({f"{EVENT}gate_refused"}, _ANY_BASE), _call(block, _OF_A_RUN))


def _failed(block: UUID | None) -> AutomationCore:
    description = "A run ended without a verdict, or found no records at all."
    trigger = _on({f"{EVENT}failed", f"{EVENT}no_records"}, _ANY_BASE)
    return _automation("run failed", description, trigger, _call(block, _OF_A_RUN))


def _crashed(block: UUID | None) -> AutomationCore:
    description = "A run ended without a word, or was found to have no process any more."
    ours = {"prefect.resource.role": "tag", "prefect.resource.id": "prefect.tag.almanac"}
    return _automation("crashed", description, _on({"prefect.flow-run.Crashed"}, ours), _call(block, _OF_A_CRASH))


def _zombie() -> AutomationCore:
    """Marks runs as crashed whose heartbeats have stopped, as Prefect's documentation advises: it has no rule of its
    own. Any other event of the run counts as a sign of life, because its states have the names of outcomes.

    The state is not forced: if the end of a run is reported late, the server keeps its final state.
    """
    heard = f"nothing was heard of it for {_SILENCE.total_seconds():.0f} s"
    trigger = EventTrigger(
        after={"prefect.flow-run.heartbeat"},
        # All but Crashed, and no event of ours. Of what this trigger expects, Prefect 3.8 reads before it writes in one
        # transaction; SQLite refuses that when another has written in between. After four attempts the event is given
        # up, for all automations: of the events that alerts wait for, more than half were lost.
        expect={"prefect.flow-run.[!C]*", "prefect.flow-run.Ca*"},
        match={"prefect.resource.id": "prefect.flow-run.*"},
        for_each={"prefect.resource.id"},
        posture=Posture.Proactive,
        threshold=1,
        within=_SILENCE,
    )
    marked = ChangeFlowRunState(state=StateType.CRASHED, message=f"Zombie: {heard}.")
    description = "A run that sends no heartbeat has no process any more: it is marked as crashed."
    return _automation("zombie", f"{description} ({heard})", trigger, marked)


def _stale(declaration: Declaration, block: UUID | None, ui: str) -> AutomationCore:
    kb, schedule = declaration.name, declaration.schedule or ""
    patience = patience_of(schedule)
    hours = f"{patience.total_seconds() / 3600:g} hours"
    trigger = EventTrigger(
        after={*_SUCCESSES, _WATCHED},
        expect=set(_SUCCESSES),
        match_related={"prefect.resource.id": knowledge_base(kb)["prefect.resource.id"]},
        # without it, Prefect goes on firing until there is a success
        for_each={"related:knowledge-base:prefect.resource.id"},
        posture=Posture.Proactive,
        threshold=1,
        within=patience,
    )
    description = (
        f"No refresh has succeeded for {hours}: the longest time between two starts of its schedule ({schedule}), "
    )
    text = f"{kb}: stale. No refresh has succeeded for {hours}; its schedule is {schedule}"
    payload = {"text": text, "kb": kb, "outcome": "stale", "run": None, "link": f"{ui}/runs"}
    return _automation(f"{kb} is stale", f"{description}and an hour.", trigger, _call(block, json.dumps(payload)))


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
