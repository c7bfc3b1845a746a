"""No network that was not asked for: a whole run, its children and its questions connect to loopback and nowhere
else.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Almanac, Example, watching

pytestmark = pytest.mark.slow


def _watched(log: Path) -> list[str]:
    return log.read_text(encoding="utf-8").splitlines() if log.exists() else []


@pytest.mark.xdist_group("voyago")
def test_a_whole_run_connects_to_loopback_only(voyago: Example) -> None:
    lines = _watched(voyago.connects)
    # The command, Prefect's API, two crawls, and the process that forks builder and verifier, which are watched as it
    # is.
    assert len([line for line in lines if line.startswith("watching")]) >= 5
    assert [line for line in lines if not line.startswith("watching")] == []


@pytest.mark.xdist_group("voyago")
def test_a_question_connects_to_nobody(voyago: Example, tmp_path: Path) -> None:
    almanac = Almanac(voyago.almanac.data, watching(tmp_path / "connects"), fresh=True)
    assert almanac("ask", "voyago", "How long does a refund take?", "--json").json["answered"]
    assert [line.split()[0] for line in _watched(tmp_path / "connects")] == ["watching"]


def test_the_watch_sees_a_connect(tmp_path: Path) -> None:
    """The tests above prove nothing unless this one passes: a look-up of another host is written down."""
    log = tmp_path / "connects"
    code = "import socket\ntry: socket.create_connection(('192.0.2.1', 9), timeout=0.1)\nexcept OSError: pass"
    subprocess.run([sys.executable, "-c", code], env={**os.environ, **watching(log)}, check=True)
    assert any("192.0.2.1" in line for line in _watched(log))
