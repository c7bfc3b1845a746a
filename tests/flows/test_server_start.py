"""`almanac server` while it starts: a server that dies, a port that is taken, an end in the middle of it."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import PATIENCE_S, ROOT, Almanac
from tests.processes import carrying, children_of, command_line

pytestmark = pytest.mark.slow  # Prefect's server


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def test_a_taken_port_is_said_and_nothing_is_started(almanac_alone: Almanac) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = almanac_alone("server", PREFECT_SERVER_API_PORT=str(taken.getsockname()[1]))
    assert (done.code, "is not free" in done.stderr, "Traceback" in done.stderr) == (7, True, False), done.stderr


@pytest.mark.parametrize(("kind", "code"), [(signal.SIGTERM, 130), (signal.SIGKILL, -9)])
def test_however_it_ends_while_the_server_starts_it_leaves_no_child(
    tmp_path: Path, prefect_home: Path, kind: signal.Signals, code: int
) -> None:
    process = _start(tmp_path, prefect_home)
    server = _first_child(process)
    process.send_signal(kind)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, "Traceback" in err) == (code, False), err
    deadline = time.monotonic() + PATIENCE_S
    while command_line(server):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert carrying(f"ALMANAC_DATA={tmp_path / 'data'}\0") == []


def test_it_ends_with_its_server(tmp_path: Path, prefect_home: Path) -> None:
    process = _start(tmp_path, prefect_home)
    os.kill(_first_child(process), signal.SIGKILL)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, "the Prefect server ended with code -9" in err) == (7, True), err


def _start(folder: Path, prefect_home: Path) -> "subprocess.Popen[str]":
    environment = {
        "ALMANAC_DATA": str(folder / "data"),
        "PREFECT_HOME": str(prefect_home),
        "PREFECT_SERVER_API_PORT": str(_free_port()),
    }
    command = [sys.executable, "-m", "almanac.cli.main", "server"]
    own: dict[str, Any] = {"cwd": ROOT, "env": {**os.environ, **environment}, "text": True}
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, **own)


def _first_child(process: "subprocess.Popen[str]") -> int:
    deadline = time.monotonic() + PATIENCE_S
    while not (children := children_of(process.pid)):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return children[0]
