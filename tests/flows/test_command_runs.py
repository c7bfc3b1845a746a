"""Whether a run of the command line that Prefect believes to be running still has its process."""

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from prefect.client.schemas.objects import FlowRun

from almanac.flows.command_runs import _PROCESS, _is_alive, _name_of


def _run(process: str | None, hours: float = 0.0) -> FlowRun:
    began = datetime.now(UTC) - timedelta(hours=hours)
    return FlowRun(flow_id=uuid4(), labels={} if process is None else {_PROCESS: process}, start_time=began)


def test_a_run_lives_as_long_as_its_process() -> None:
    assert _is_alive(_run(_name_of(os.getpid()), hours=100))
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        named = _name_of(other.pid)
        assert _is_alive(_run(named))
        other.kill()
    assert not _is_alive(_run(named))


@pytest.mark.parametrize(("hours", "is_alive"), [(1, True), (25, False)])
@pytest.mark.parametrize("process", [None, "another:1:2"])
def test_of_a_run_elsewhere_nothing_is_known_for_a_day(process: str | None, hours: float, is_alive: bool) -> None:
    assert _is_alive(_run(process, hours)) == is_alive


def test_a_process_id_that_another_process_has_by_now_is_no_life() -> None:
    machine, pid, _ = _name_of(os.getpid()).split(":")
    assert not _is_alive(_run(f"{machine}:{pid}:1"))
