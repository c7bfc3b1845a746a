"""Whether a run of the command line that Prefect believes to be running still has its process."""

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from prefect import flow
from prefect.client.schemas.objects import FlowRun, State
from prefect.exceptions import ObjectNotFound

from almanac.flows import begun_runs
from almanac.flows.begun_runs import _PROCESS, TAG, _has_command, _name_of, forget_old_commands, mark_dead_runs


def _run(process: str | None, hours: float = 0.0) -> FlowRun:
    began = datetime.now(UTC) - timedelta(hours=hours)
    return FlowRun(flow_id=uuid4(), labels={} if process is None else {_PROCESS: process}, start_time=began)


def test_a_run_lives_as_long_as_its_process() -> None:
    assert _has_command(_run(_name_of(os.getpid()), hours=100))
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        named = _name_of(other.pid)
        assert _has_command(_run(named))
        other.kill()
    assert not _has_command(_run(named))


@pytest.mark.parametrize(("hours", "is_alive"), [(1, True), (25, False)])
@pytest.mark.parametrize("process", [None, "another:1:2"])
def test_of_a_run_elsewhere_nothing_is_known_for_a_day(process: str | None, hours: float, is_alive: bool) -> None:
    assert _has_command(_run(process, hours)) == is_alive


def test_a_process_id_that_another_process_has_by_now_is_no_life() -> None:
    machine, pid, _ = _name_of(os.getpid()).split(":")
    assert not _has_command(_run(f"{machine}:{pid}:1"))


@pytest.mark.slow
def test_a_killed_run_is_marked_and_of_those_that_ended_the_newest_are_kept(
    prefect_api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from prefect.client.orchestration import get_client
    from prefect.settings import PREFECT_API_URL, temporary_settings
    from prefect.states import Cancelling, Completed, Running

    machine, pid, _ = _name_of(os.getpid()).split(":")
    with temporary_settings({PREFECT_API_URL: prefect_api}), get_client(sync_client=True) as client:

        @flow
        def killed() -> None:
            pass

        def begin(state: State[None], process: str, *tags: str) -> UUID:
            run = client.create_flow_run(killed, state=state, tags=tags)
            client.update_flow_run_labels(run.id, {_PROCESS: process})
            return run.id

        dead = begin(Running(), f"{machine}:{pid}:1", TAG)
        cancelled = begin(Cancelling(), f"{machine}:{pid}:1", TAG)
        alive = begin(Running(), _name_of(os.getpid()), TAG)
        of_others = begin(Running(), f"{machine}:{pid}:1")
        mark_dead_runs()

        def names() -> list[str]:
            states = (client.read_flow_run(run).state for run in (dead, cancelled, alive, of_others))
            return [str(state.name) for state in states if state is not None]

        assert names() == ["Crashed", "Cancelled", "Running", "Running"]
        old, new = begin(Completed(), "", TAG), begin(Completed(), "", TAG)
        monkeypatch.setattr(begun_runs, "_KEPT_RUNS", 1)
        forget_old_commands()
        with pytest.raises(ObjectNotFound):
            client.read_flow_run(old)
        assert client.read_flow_run(new)
        for run in (alive, of_others):
            client.delete_flow_run(run)
