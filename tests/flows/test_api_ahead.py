"""The process of Prefect's API is started before a command knows its data directory, and leaves nothing behind where it
is not needed.
"""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from almanac.core.lifetime import tell_job
from almanac.flows.server import api_ahead
from almanac.flows.server.api_ahead import ApiProcess
from almanac.flows.server.api_process import LIBRARIES
from tests.conftest import PATIENCE_S, ROOT, Almanac
from tests.processes import carrying


@pytest.fixture(autouse=True)
def waiting(monkeypatch: pytest.MonkeyPatch) -> list[ApiProcess]:
    """None waits at first: a command that another test called in this process may have left one."""
    none: list[ApiProcess] = []
    monkeypatch.setattr(api_ahead, "_waiting", none)
    return none


def test_it_imports_ahead_only_what_prefects_server_imports(prefect_home: Path) -> None:
    code = "import json, sys; import prefect.server.api.server; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PREFECT_HOME": str(prefect_home)},
        stdout=subprocess.PIPE,
        check=True,
    )
    assert set(LIBRARIES) <= set(json.loads(done.stdout))


def test_it_imports_nothing_of_prefect_before_it_has_a_job() -> None:
    """Prefect's settings are read when it is imported, and its home is made then."""
    code = (
        "import sys\n"
        + "".join(f"import {name}\n" for name in LIBRARIES)
        + "print([name for name in sys.modules if name.startswith('prefect')])"
    )
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True).stdout == "[]\n"


def test_one_that_was_started_ahead_is_taken_and_runs_with_the_environment_of_its_job(
    tmp_path: Path, prefect_home: Path, waiting: list[ApiProcess]
) -> None:
    api_ahead.start_ahead()
    api_ahead.start_ahead()
    (started,) = waiting
    process = api_ahead.api_process()
    assert process is started
    assert waiting == []
    environment = {
        **os.environ,
        "PREFECT_HOME": str(prefect_home),
        "PREFECT_API_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{tmp_path}/another.db",
    }
    tell_job(process.child, json.dumps({"environment": environment, "log": str(tmp_path / "api.log")}))
    api = f"http://127.0.0.1:{process.port}/api"
    with urllib.request.urlopen(f"{api}/health", timeout=PATIENCE_S) as answer:
        assert answer.status == 200
    # What a run asks for, and what a flow that somebody adds may ask for.
    for asked in (
        "flows/filter",
        "flow_runs/filter",
        "variables/filter",
        "block_types/filter",
        "v2/concurrency_limits/filter",
        "deployments/filter",
    ):
        request = urllib.request.Request(f"{api}/{asked}", data=b"{}", headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            assert json.load(answer) == [], asked
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"{api}/variables/name/nothing", timeout=PATIENCE_S)
    assert (tmp_path / "another.db").is_file()
    process.child.kill()
    process.child.communicate()


def test_one_that_has_died_is_not_taken(waiting: list[ApiProcess]) -> None:
    api_ahead.start_ahead()
    (dead,) = waiting
    dead.child.kill()
    dead.child.wait()
    process = api_ahead.api_process()
    assert process is not dead
    assert process.child.poll() is None
    process.child.kill()
    process.child.communicate()


def test_where_a_server_is_named_none_is_started(monkeypatch: pytest.MonkeyPatch, waiting: list[ApiProcess]) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    api_ahead.start_ahead()
    assert waiting == []


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM])
def test_one_without_a_job_ends_with_its_parent(ending: signal.Signals) -> None:
    code = (
        "import time; from almanac.flows.server import api_ahead as ahead; ahead.start_ahead(); "
        "print(ahead._waiting[0].child.pid, flush=True); time.sleep(600)"
    )
    mark = f"{time.time_ns()}"
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, env={**os.environ, "MARKED": mark}, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        assert int(parent.stdout.readline()) in carrying(f"MARKED={mark}")
        parent.send_signal(ending)
    deadline = time.monotonic() + PATIENCE_S
    while carrying(f"MARKED={mark}"):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_command_that_ends_before_it_needs_one_leaves_no_process_and_no_folder(
    almanac_alone: Almanac, tmp_path: Path
) -> None:
    mark = f"{time.time_ns()}"
    done = almanac_alone("run", str(tmp_path / "nothing.yaml"), MARKED=mark)
    assert done.code == 2
    assert carrying(f"MARKED={mark}") == []
    assert not almanac_alone.data.exists()
