"""Runs of the command line in Prefect's database: the process of each, those that a kill has left as running, and how
many are kept.

A run that names no server has an API of its own, which ends with it: nobody else would notice that a killed one is
over, nor remove the old ones.
"""

import os
import time
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
    FlowRunFilterTags,
)
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.client.schemas.sorting import FlowRunSort
from prefect.states import Crashed

from almanac.core.lifetime import process_start
from almanac.core.logs import get_logger
from almanac.core.machine import machine_id

TAG = "command line"
_KEPT = 5  # runs of a knowledge base that have ended; reports and versions are the record
_PAGE = 200
_PROCESS = "almanac.process"  # a label: machine, process id, and when the process started
_SOON_S = 86_400.0  # a process of another machine, or of one that has restarted since, counts as alive for so long
_ENDED = [StateType.COMPLETED, StateType.FAILED, StateType.CANCELLED, StateType.CRASHED]
_BEGUN = [StateType.PENDING, StateType.RUNNING, StateType.CANCELLING]
log = get_logger("almanac.prefect")


def note_process(run_id: UUID) -> None:
    """Notes that this process carries out a run."""
    with get_client(sync_client=True) as client:
        client.update_flow_run_labels(run_id, {_PROCESS: _name_of(os.getpid())})


def mark_dead_commands(client: SyncPrefectClient) -> None:
    """Marks runs of the command line as crashed whose process has ended without a word."""
    begun = FlowRunFilter(
        tags=FlowRunFilterTags(all_=[TAG]), state=FlowRunFilterState(type=FlowRunFilterStateType(any_=_BEGUN))
    )
    for run in client.read_flow_runs(flow_run_filter=begun, limit=_PAGE):
        if not _is_alive(run):
            client.set_flow_run_state(
                run.id, Crashed(message="Its command was killed, or the machine went down."), force=True
            )
            log.warning("a run without a process is marked as crashed", run=run.name)


def forget_old_commands(client: SyncPrefectClient, kb: str) -> None:
    """Removes the runs of a knowledge base from the command line that have ended, but for the newest, with their logs
    and artifacts.
    """
    ended = FlowRunFilter(
        tags=FlowRunFilterTags(all_=[kb, TAG]), state=FlowRunFilterState(type=FlowRunFilterStateType(any_=_ENDED))
    )
    for run in client.read_flow_runs(flow_run_filter=ended, sort=FlowRunSort.END_TIME_DESC, offset=_KEPT, limit=_PAGE):
        shown = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[run.id]))
        for artifact in client.read_artifacts(artifact_filter=shown, limit=_PAGE):
            client.delete_artifact(artifact.id)
        client.delete_flow_run(run.id)


def _name_of(pid: int) -> str:
    return f"{machine_id()}:{pid}:{process_start(pid)}"


def _is_alive(run: FlowRun) -> bool:
    named = str((run.labels or {}).get(_PROCESS, ""))
    machine, _, rest = named.partition(":")
    if machine == machine_id():
        return named == _name_of(int(rest.partition(":")[0]))
    began = run.start_time or run.created
    return began is not None and time.time() - began.timestamp() < _SOON_S
