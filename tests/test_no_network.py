"""No network that was not asked for: a whole run, its children and its questions connect to loopback and nowhere else."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, Almanac, Serve

pytestmark = pytest.mark.slow


def _watched(log: Path) -> list[str]:
    return log.read_text(encoding="utf-8").splitlines() if log.exists() else []


def test_a_whole_run_connects_to_loopback_only(tmp_path: Path, prefect_home: Path, serve: Serve) -> None:
    log = tmp_path / "connects"
    environment = {"CONNECT_LOG": str(log), "PYTHONPATH": str(ROOT / "tests" / "network"), "VOYAGO_URL": serve(ROOT / "examples/voyago/site")}
    almanac = Almanac(tmp_path / "data", {**environment, "PREFECT_HOME": str(prefect_home)}, fresh=True)
    assert almanac("run", "voyago", "--json", "--rejects-ok").code == 0
    assert almanac("ask", "voyago", "How long does a refund take?", "--json").code == 0
    lines = _watched(log)
    watched = [line for line in lines if line.startswith("watching")]
    assert len(watched) >= 6  # the command twice, Prefect's API, two crawls, builder, verifier
    assert [line for line in lines if not line.startswith("watching")] == []


def test_the_watch_sees_a_connect(tmp_path: Path) -> None:
    """The test above proves nothing unless this one passes: a look-up of another host is written down."""
    log = tmp_path / "connects"
    code = "import socket\ntry: socket.create_connection(('192.0.2.1', 9), timeout=0.1)\nexcept OSError: pass"
    environment = {**os.environ, "CONNECT_LOG": str(log), "PYTHONPATH": str(ROOT / "tests" / "network")}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    assert any("192.0.2.1" in line for line in _watched(log))
