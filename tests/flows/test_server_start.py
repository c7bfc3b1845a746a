"""`almanac server` while it starts: a server that is slow, one that dies, a port that is taken, an end in the middle of
it.
"""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from almanac.core.settings import Project
from almanac.flows.server import start
from almanac.flows.server.children import Children, children_of_project
from almanac.schemas.errors import OperationalError
from tests.conftest import PATIENCE_S, ROOT, Almanac
from tests.processes import carrying, children_of

pytestmark = pytest.mark.slow  # Prefect's server


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


@pytest.fixture
def children(prefect_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Children]:
    monkeypatch.setenv("PREFECT_HOME", str(prefect_home))
    monkeypatch.setenv("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
    with children_of_project(Project(ROOT)) as children:
        yield children


def test_a_slow_server_is_waited_for_and_one_that_ends_says_its_last_words(
    children: Children, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(start, "_SAY_EVERY_S", 0.5)
    port = str(_free_port())
    server = start._Server(children, port)
    pid = server._process.pid
    os.kill(pid, signal.SIGSTOP)
    threading.Timer(2, os.kill, (pid, signal.SIGCONT)).start()
    server.wait_until_ready(f"http://127.0.0.1:{port}/api/health")
    said = "".join(capfd.readouterr())
    assert "waiting for the Prefect server to answer" in said
    os.kill(pid, signal.SIGKILL)
    server._process.wait()
    with pytest.raises(OperationalError, match="ended with code -9") as raised:
        server.require_alive()
    assert "Check out the dashboard" in raised.value.message


def test_a_taken_port_is_said_and_nothing_is_started(almanac_alone: Almanac) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = almanac_alone("server", PREFECT_SERVER_API_PORT=str(taken.getsockname()[1]))
    assert (done.code, "is not free" in done.stderr, "Traceback" in done.stderr) == (7, True, False), done.stderr


def test_interrupted_while_the_server_starts_it_leaves_no_child(tmp_path: Path, prefect_home: Path) -> None:
    environment = {
        "ALMANAC_DATA": str(tmp_path / "data"),
        "PREFECT_HOME": str(prefect_home),
        "PREFECT_SERVER_API_PORT": str(_free_port()),
    }
    command = [sys.executable, "-m", "almanac.cli.main", "server"]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, **environment},
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    deadline = time.monotonic() + PATIENCE_S
    while not children_of(process.pid):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.terminate()
    _, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, "Traceback" in err) == (130, False), err
    assert carrying(f"ALMANAC_DATA={tmp_path / 'data'}\0") == []
