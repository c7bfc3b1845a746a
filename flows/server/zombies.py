"""Marks runs that Prefect believes to be running although their process is gone, as after a kill of the worker."""

import os
import socket
from pathlib import Path
from typing import Any

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
    WorkPoolFilter,
    WorkPoolFilterName,
)
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.states import Cancelled, Crashed

from almanac.core.logs import get_logger
from almanac.flows.command_runs import mark_dead_commands

log = get_logger("almanac.server")
_BEGUN = [StateType.PENDING, StateType.RUNNING, StateType.CANCELLING]
_PAGE = 200


def mark_dead_runs(work_pool: str) -> None:
    """Marks runs of the pool that started on this machine and have no process: as cancelled if that was requested, else
    as crashed; and those of commands.

    Call it while no worker serves the pool on this machine; a worker that is just starting a run would lose it.
    """
    begun = FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=_BEGUN)))
    pool = WorkPoolFilter(name=WorkPoolFilterName(any_=[work_pool]))
    with get_client(sync_client=True) as client:
        runs = client.read_flow_runs(flow_run_filter=begun, work_pool_filter=pool, limit=_PAGE)
        dead = [run for run in runs if not _is_alive(run)]
        for run in dead:
            _mark(client, run)
        mark_dead_commands(client)
    if dead:
        log.warning("runs without a process are marked as crashed", runs=", ".join(run.name for run in dead))


def _mark(client: SyncPrefectClient, run: FlowRun) -> None:
    asked_to_end = run.state is not None and run.state.type == StateType.CANCELLING
    ended, crashed = (
        "Its process has ended.",
        "Its process has ended without a word: it was killed, or the machine went down.",
    )
    state: State[Any] = Cancelled(message=ended) if asked_to_end else Crashed(message=crashed)
    client.set_flow_run_state(run.id, state, force=True)


def _is_alive(run: FlowRun) -> bool:
    """Whether the process of a run lives, from `host:pid` as Prefect stores it. Processes of other machines count as
    alive; their heartbeats decide.
    """
    host, _, pid = (run.infrastructure_pid or "").rpartition(":")
    if host and host != socket.gethostname():
        return True
    return pid.isdecimal() and _carries_out(int(pid), run)


def _carries_out(pid: int, run: FlowRun) -> bool:
    """Whether the process belongs to the run, and does not merely reuse its process id."""
    if Path("/proc/self/environ").exists():
        try:
            return str(run.id).encode() in Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
