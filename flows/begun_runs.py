"""Runs that Prefect believes to be running: which of them have a process, and how many of the command line are kept.

A run that is killed says nothing. That of a worker is missed by the worker; where the worker is killed, too, or where a
command had an API of its own, nobody else would notice.
"""

import os
import socket
import time
from typing import Any
from uuid import UUID

import psutil  # type: ignore[import-untyped]  # ships no types
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
    FlowRunFilterTags,
    WorkPoolFilter,
    WorkPoolFilterName,
)
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.client.schemas.sorting import FlowRunSort
from prefect.states import Cancelled, Crashed

from almanac.core.lifetime import process_start
from almanac.core.logs import get_logger
from almanac.core.machine import machine_id

TAG = "command line"
_KEPT_RUNS = 50  # runs of the command line that have ended; reports and versions are the record
_PAGE = 200
_PROCESS = "almanac.process"  # a label: machine, process id, and when the process started
_SOON_S = 86_400.0  # a process of another machine, or of one that has restarted since, counts as alive for so long
_BEGUN = FlowRunFilterState(
    type=FlowRunFilterStateType(any_=[StateType.PENDING, StateType.RUNNING, StateType.CANCELLING])
)
_ENDED = FlowRunFilterState(
    type=FlowRunFilterStateType(any_=[StateType.COMPLETED, StateType.FAILED, StateType.CANCELLED, StateType.CRASHED])
)
_COMMANDS = FlowRunFilterTags(all_=[TAG])
_log = get_logger("almanac.prefect")


def note_process(run_id: UUID) -> None:
    """Notes that this process carries out a run of the command line."""
    with get_client(sync_client=True) as client:
        client.update_flow_run_labels(run_id, {_PROCESS: _name_of(os.getpid())})


def mark_dead_runs(work_pool: str | None = None) -> None:
    """Marks runs without a process as crashed, or as cancelled if that was requested: those of the command line, and
    those of a work pool that started on this machine.

    Name the pool while no worker serves it on this machine; a worker that is just starting a run would lose it.
    """
    with get_client(sync_client=True) as client:
        commands = client.read_flow_runs(flow_run_filter=FlowRunFilter(state=_BEGUN, tags=_COMMANDS), limit=_PAGE)
        dead = [run for run in commands if not _has_command(run)]
        if work_pool is not None:
            pool = WorkPoolFilter(name=WorkPoolFilterName(any_=[work_pool]))
            runs = client.read_flow_runs(
                flow_run_filter=FlowRunFilter(state=_BEGUN), work_pool_filter=pool, limit=_PAGE
            )
            dead += [run for run in runs if not _has_process(run)]
        for run in dead:
            is_cancelled = run.state is not None and run.state.type == StateType.CANCELLING
            message = "Its process has ended without a word: it was killed, or the machine went down."
            state: State[Any] = (
                Cancelled(message="Its process has ended.") if is_cancelled else Crashed(message=message)
            )
            client.set_flow_run_state(run.id, state, force=True)
            _log.warning("a run without a process is marked as crashed", run=run.name)


def forget_old_commands() -> None:
    """Removes the runs of the command line that have ended, but for the newest, with their logs and artifacts."""
    with get_client(sync_client=True) as client:
        ended = FlowRunFilter(state=_ENDED, tags=_COMMANDS)
        for run in client.read_flow_runs(
            flow_run_filter=ended, sort=FlowRunSort.END_TIME_DESC, offset=_KEPT_RUNS, limit=_PAGE
        ):
            shown = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[run.id]))
            for artifact in client.read_artifacts(artifact_filter=shown, limit=_PAGE):
                client.delete_artifact(artifact.id)
            client.delete_flow_run(run.id)


def _name_of(pid: int) -> str:
    return f"{machine_id()}:{pid}:{process_start(pid)}"


def _has_command(run: FlowRun) -> bool:
    """Whether the process that a run of the command line has noted still runs."""
    named = str((run.labels or {}).get(_PROCESS, ""))
    machine, _, rest = named.partition(":")
    if machine == machine_id():
        return named == _name_of(int(rest.partition(":")[0]))
    began = run.start_time or run.created
    return began is not None and time.time() - began.timestamp() < _SOON_S


def _has_process(run: FlowRun) -> bool:
    """Whether the process of a worker's run lives, from `host:pid` as Prefect stores it, and does not merely reuse its
    process id. Processes of other machines count as alive; their heartbeats decide.
    """
    host, _, pid = (run.infrastructure_pid or "").rpartition(":")
    if host and host != socket.gethostname():
        return True
    try:
        return pid.isdecimal() and str(run.id) in psutil.Process(int(pid)).environ().values()
    except psutil.Error:
        return False
