"""The control room: server, pool, worker and deployments start with one command; schedules exist; a run started there publishes; all of it ends together."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("server")]  # in order, on one server
_DEPLOYED = {"voyago", "products", "handbook", "workspace", "versailles"}


@dataclass(frozen=True)
class Server:
    api: str
    data: Path
    process: subprocess.Popen[bytes]

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """Asked again on 503, as Prefect's own client does: its database was busy."""
        request = urllib.request.Request(f"{self.api}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
        for attempt in range(10):
            try:
                with urllib.request.urlopen(request, timeout=30) as response:
                    return json.load(response)
            except urllib.error.HTTPError as error:
                if error.code != 503 or attempt == 9:
                    raise
                time.sleep(1)
        raise AssertionError("unreachable")


def _wait_for(find: Callable[[], Any], seconds: float) -> Any:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if found := find():
                return found
        except OSError:
            pass  # not listening yet
        time.sleep(0.5)
    raise AssertionError("it did not come in time")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    data = tmp_path_factory.mktemp("server")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "ALMANAC_DATA": str(data), "PREFECT_SERVER_API_PORT": str(port)}
    with (data / "log").open("wb") as log:
        process = subprocess.Popen([sys.executable, "-m", "flows.server"], cwd=ROOT, env=environment, stdout=log, stderr=log)
    yield Server(f"http://127.0.0.1:{port}/api", data, process)
    process.kill()


def test_every_declared_schedule_gets_its_runs(server: Server) -> None:
    def scheduled() -> set[str]:
        deployments = {d["id"]: d["name"] for d in server.post("/deployments/filter", {})}
        runs = server.post("/flow_runs/filter", {"flow_runs": {"state": {"type": {"any_": ["SCHEDULED"]}}}})
        found = {deployments[run["deployment_id"]] for run in runs}
        return found if found == _DEPLOYED else set()

    assert _wait_for(scheduled, 120) == _DEPLOYED


def test_a_run_started_there_publishes_and_leaves_its_tables(server: Server) -> None:
    def worker_is_ready() -> Any:
        return server.post("/work_pools/local/workers/filter", {})

    _wait_for(worker_is_ready, 60)
    (deployment,) = server.post("/deployments/filter", {"deployments": {"name": {"any_": ["handbook"]}}})
    run = server.post(f"/deployments/{deployment['id']}/create_flow_run", {"state": {"type": "SCHEDULED"}})

    def ended() -> Any:
        (found,) = server.post("/flow_runs/filter", {"flow_runs": {"id": {"any_": [run["id"]]}}})
        return found["state"] if found["state"]["type"] in ("COMPLETED", "FAILED", "CRASHED") else None

    assert _wait_for(ended, 180)["type"] == "COMPLETED"
    assert (server.data / "index/handbook/CURRENT").read_text() == "v0001\n"
    artifacts = {a["key"]: a["data"] for a in server.post("/artifacts/filter", {})}
    assert {"handbook-summary", "handbook-gate", "handbook-validation", "handbook-embed", "handbook-build"} <= set(artifacts)
    assert {"what": "outcome", "value": "published"} in json.loads(artifacts["handbook-summary"])  # a column without a name is not shown

    def stages_are_logged() -> bool:  # sent a moment after the run has ended
        logged = [line["message"] for line in server.post("/logs/filter", {"logs": {"flow_run_id": {"any_": [run["id"]]}}})]
        return any(message.startswith("publish ") for message in logged)

    assert _wait_for(stages_are_logged, 30)


def test_it_ends_with_its_children(server: Server) -> None:
    server.process.send_signal(signal.SIGTERM)
    server.process.wait(60)

    def is_silent() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", int(server.api.split(":")[2].partition("/")[0]))) != 0

    assert _wait_for(is_silent, 30)
