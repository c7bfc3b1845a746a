"""The control room: everything starts with one command; runs are started, cancelled and killed there; somebody is told;
all of it ends together.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from almanac.core.tables import read_table
from almanac.index.versions.lock import lock_holder
from tests.conftest import PATIENCE_S, ROOT, Almanac
from tests.loopback.mistral import LoopbackMistral
from tests.processes import carrying, children_of, command_line
from tests.proof.base import LONG

if TYPE_CHECKING:
    from tests.spiders.conftest import Site

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("server")]  # in order, on one server
_DEPLOYED = {"voyago", "products", "handbook", "workspace", "versailles"}
_ENDED = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")


@dataclass(frozen=True)
class Server:
    api: str
    data: Path
    process: subprocess.Popen[bytes]
    environment: dict[str, str]
    alerts: list[dict[str, Any]]  # what the webhook was sent

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Asked again on 503, as Prefect's own client does: its database was busy."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.api}{path}", data, {"Content-Type": "application/json"}, method=method)
        for attempt in range(10):
            try:
                with urllib.request.urlopen(request, timeout=30) as response:
                    return json.loads(response.read() or b"null")
            except urllib.error.HTTPError as error:
                if error.code != 503 or attempt == 9:
                    raise
                time.sleep(1)
        raise AssertionError("unreachable")

    def post(self, path: str, body: Any) -> Any:
        return self.ask("POST", path, body)

    def start(self, deployed: str, **parameters: Any) -> str:
        """Starts a run as the UI does, and gives its id."""
        deployment = self.ask("GET", f"/deployments/name/{deployed}/refresh")
        run: str = self.post(
            f"/deployments/{deployment['id']}/create_flow_run",
            {"state": {"type": "SCHEDULED"}, "parameters": parameters},
        )["id"]
        return run

    def run(self, run: str) -> Any:
        return self.ask("GET", f"/flow_runs/{run}")

    def end_of(self, run: str) -> Any:
        return self.wait_for(lambda: flow_run if (flow_run := self.run(run))["state"]["type"] in _ENDED else None)

    def wait_for(self, find: Callable[[], Any]) -> Any:
        """What `find` gives as soon as it gives something. Raises AssertionError, with the end of the server's log,
        when that takes too long.
        """
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            try:
                if finding := find():
                    return finding
            except OSError:
                pass  # not listening yet
            time.sleep(0.2)
        raise AssertionError(
            "it did not come in time; the server's log ends with:\n"
            + (self.data / "log").read_text(errors="replace")[-8000:]
        )

    def cancel(self, run: str) -> None:
        self.post(f"/flow_runs/{run}/set_state", {"state": {"type": "CANCELLING"}})

    def slots(self) -> int:
        slots: int = self.ask("GET", "/v2/concurrency_limits/embedding-api")["active_slots"]
        return slots


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    data = tmp_path_factory.mktemp("server")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    alerts: list[dict[str, Any]] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            alerts.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    receiver = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    environment = {
        "ALMANAC_DATA": str(data),
        "ALMANAC_ALERT_WEBHOOK": f"http://127.0.0.1:{receiver.server_address[1]}/alerts",
        "MISTRAL_API_KEY": "sk-loopback",
        "PREFECT_SERVER_API_PORT": str(port),
    }
    with (data / "log").open("wb") as log:
        command = [sys.executable, "-m", "almanac.cli.main", "server"]
        process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, **environment}, stdout=log, stderr=log)
    serving = Server(f"http://127.0.0.1:{port}/api", data, process, environment, alerts)
    try:
        _worker_of(serving)  # started last, when all else is there
        yield serving
    finally:
        process.terminate()  # where the last test did not come to it; a kill would leave its children
        process.wait(60)
        receiver.shutdown()
        receiver.server_close()


def _worker_of(server: Server) -> int:
    """The worker's process, once there is one."""

    def find() -> int | None:
        return next((child for child in children_of(server.process.pid) if "worker start" in command_line(child)), None)

    worker: int = server.wait_for(find)
    return worker


def test_every_declared_schedule_gets_its_runs(server: Server) -> None:
    def scheduled() -> set[str]:
        deployments = {d["id"]: d["parameters"]["kb"] for d in server.post("/deployments/filter", {})}
        runs = server.post("/flow_runs/filter", {"flow_runs": {"state": {"type": {"any_": ["SCHEDULED"]}}}})
        knowledge_bases = {deployments[run["deployment_id"]] for run in runs}
        return knowledge_bases if knowledge_bases == _DEPLOYED else set()

    assert server.wait_for(scheduled) == _DEPLOYED


def test_a_run_started_there_publishes_and_leaves_its_tables(server: Server) -> None:
    done = server.end_of(run := server.start("handbook"))
    assert (done["state"]["type"], done["state"]["name"]) == ("COMPLETED", "Published"), done["state"]
    assert done["state"]["message"].startswith("v0001 · 1 added")
    assert done["name"].startswith("handbook · 20")
    assert (server.data / "index/handbook/CURRENT").read_text() == "v0001\n"
    artifacts = {a["key"]: a["data"] for a in server.post("/artifacts/filter", {})}
    of_a_run = ("plan", "crawl-faq", "embed", "build", "gate", "retrieval", "version", "history", "summary")
    assert {f"handbook-{what}" for what in of_a_run} <= set(artifacts)
    # a column without a name is not shown
    assert {"what": "outcome", "value": "published"} in json.loads(artifacts["handbook-summary"])
    assert str(server.data / "index/handbook/versions/v0001/manifest.json") in artifacts["handbook-version"]
    assert "data:image/svg+xml;base64," in artifacts["handbook-history"]

    def stages_are_logged() -> bool:  # sent a moment after the run has ended
        logged = [line["message"] for line in server.post("/logs/filter", {"logs": {"flow_run_id": {"any_": [run]}}})]
        return any(message.startswith("publish ") for message in logged)

    assert server.wait_for(stages_are_logged)


def test_the_command_that_it_ends_with_starts_a_run_as_it_stands(server: Server) -> None:
    """From a shell that knows nothing of the server. Prefect's own advice on each deployment is not shown."""
    log = server.wait_for(lambda: text if "a run now" in (text := (server.data / "log").read_text()) else None)
    command = log.partition("a run now, from another terminal:\n")[2].splitlines()[0].strip()
    assert command.endswith("deployment run handbook/refresh") and "prefect worker start" not in log
    elsewhere = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    started = subprocess.run(["sh", "-c", command], cwd="/", env=elsewhere, capture_output=True, text=True, check=True)
    run = started.stdout.rpartition("flow-run/")[2].split()[0]
    assert server.end_of(run)["state"]["type"] == "COMPLETED"


def test_parameters_are_described_and_a_wrong_one_is_refused(server: Server) -> None:
    deployment = server.ask("GET", "/deployments/name/handbook/refresh")
    properties = deployment["parameter_openapi_schema"]["properties"]
    assert set(properties) == {"kb", "data", "publish", "rejects_ok", "sources", "urls", "full", "env"}
    assert all(parameter["description"] for parameter in properties.values())
    with pytest.raises(urllib.error.HTTPError):
        server.start("handbook", full="perhaps")


def test_what_is_declared_no_more_is_deployed_no_more(server: Server) -> None:
    flow = server.post("/flows/", {"name": "gone"})["id"]
    for tags in (["almanac", "gone"], ["somebody else's"]):
        server.post("/deployments/", {"name": tags[0], "flow_id": flow, "parameters": {"kb": "gone"}, "tags": tags})
    code = f"from almanac.flows.server.control_room import remove_undeclared; remove_undeclared({_DEPLOYED!r})"
    environment = {**os.environ, **server.environment, "PREFECT_API_URL": server.api}
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, check=True, timeout=PATIENCE_S)
    left = [
        (deployment["name"], deployment["parameters"]["kb"]) for deployment in server.post("/deployments/filter", {})
    ]
    assert sorted(left) == sorted([("somebody else's", "gone"), *(("refresh", kb) for kb in _DEPLOYED)])
    (other,) = (
        deployment["id"]
        for deployment in server.post("/deployments/filter", {})
        if deployment["parameters"]["kb"] == "gone"
    )
    server.ask("DELETE", f"/deployments/{other}")


def test_started_again_the_automations_are_not_touched(server: Server) -> None:
    """A touched one would forget what it waits for."""

    def shipped() -> dict[str, str]:
        return {automation["name"]: automation["updated"] for automation in server.post("/automations/filter", {})}

    before = shipped()
    assert before.keys() == {
        f"almanac: {what}"
        for what in ("gate refused", "run failed", "zombie", "crashed", *(f"{kb} is stale" for kb in _DEPLOYED))
    }
    again = (
        "from almanac.flows.server.control_room import ensure_resources; "
        f"ensure_resources({server.api.removesuffix('/api')!r})"
    )
    subprocess.run(
        [sys.executable, "-c", again],
        cwd=ROOT,
        env={**os.environ, **server.environment, "PREFECT_API_URL": server.api},
        check=True,
        timeout=120,
    )
    assert shipped() == before


def _copy(server: Server, name: str, related: dict[str, str], resource: str) -> None:
    """A shipped automation with the least patience that Prefect allows, for one resource."""
    (automation,) = [listed for listed in server.post("/automations/filter", {}) if listed["name"] == name]
    trigger = {key: value for key, value in automation["trigger"].items() if key != "id"}
    trigger |= {"within": 10, "match": {"prefect.resource.id": resource}, "match_related": related}
    server.post("/automations/", {"name": f"copy of {name}", "trigger": trigger, "actions": automation["actions"]})


def _tell(server: Server, event: str, resource: str, *related: dict[str, str]) -> None:
    now = datetime.now(UTC).isoformat()
    server.post(
        "/events",
        [
            {
                "id": str(uuid4()),
                "occurred": now,
                "event": event,
                "resource": {"prefect.resource.id": resource},
                "related": list(related),
            }
        ],
    )


@pytest.fixture(scope="module")
def silent_run(server: Server) -> str:
    """A run of which only a heartbeat was ever heard; no worker knows of it. From now on, a success of the handbook is
    waited for, too.
    """
    flow = server.post("/flows/", {"name": "silent"})["id"]
    run: str = server.post("/flow_runs/", {"flow_id": flow, "state": {"type": "RUNNING"}, "tags": ["almanac"]})["id"]
    base = {"prefect.resource.id": "almanac.knowledge-base.handbook", "prefect.resource.role": "knowledge-base"}
    _copy(server, "almanac: zombie", {}, f"prefect.flow-run.{run}")
    _copy(server, "almanac: handbook is stale", {}, "almanac.watch.silence")
    time.sleep(1)  # until the server has taken them in
    _tell(server, "prefect.flow-run.heartbeat", f"prefect.flow-run.{run}")
    _tell(server, "almanac.watched", "almanac.watch.silence", base)
    return run


_WATCHED = """
name: watched
sources:
  - {{name: rows, kind: files, glob: rows.jsonl, yields: records, id: "{{id}}", fields: {{id: {{json: id}}, text: {{json: text}}}}, text: "{{text}}"}}
embed: {{provider: mistral, server_url: {url}, dimension: 16}}
validate: {{min_items: 100}}
"""  # noqa: E501


@pytest.mark.usefixtures("silent_run")  # whose ten seconds pass meanwhile
def test_a_refusal_is_red_and_one_alert_tells_of_it(server: Server, tmp_path: Path, prefect_home: Path) -> None:
    declared = tmp_path / "watched.yaml"
    # Started, not forked: nothing else goes by this API, and one command costs less than what commands are forked from.
    own = {"PREFECT_HOME": str(prefect_home), "PREFECT_API_URL": server.api, "MISTRAL_API_KEY": "sk-loopback"}
    almanac = Almanac(server.data, own, fresh=True)
    with LoopbackMistral(dimension=16) as mistral:
        declared.write_text(_WATCHED.format(url=mistral.url))
        (tmp_path / "rows.jsonl").write_text(
            "".join(json.dumps({"id": n, "text": f"Row {n} tells of it."}) + "\n" for n in range(8))
        )
        done = almanac("run", str(declared), "--json")
    assert (done.code, done.json["outcome"]) == (4, "gate_refused"), done.stderr
    (alert,) = server.wait_for(lambda: [alert for alert in server.alerts if alert["kb"] == "watched"])
    assert (alert["outcome"], alert["version"], alert["previous"], alert["run"]) == (
        "gate_refused",
        "v0001",
        None,
        done.json["run_id"],
    )
    assert alert["reasons"] == ["min_items 8 (limit 100)"]
    assert alert["link"].endswith(f"/runs/flow-run/{alert['flow_run']}")
    state = server.run(alert["flow_run"])["state"]
    assert (state["type"], state["name"]) == ("FAILED", "Gate refused")
    assert state["message"] == "v0001 is kept · min_items 8 (limit 100) · nothing is live"


_SLOW = """
name: slow
sources:
  - name: pages
    kind: site
    start_urls: ["{site}/"]
    match: '/[0-9]+$'
    yields: records
    fields: {{name: {{css: h1, required: true}}, text: {{css: p, required: true}}}}
    text: "{{name}}. {{text}}"
    politeness: {{allow_private: true, per_domain: 2}}
embed: {{provider: mistral, server_url: {mistral}, dimension: 16}}
"""


@LONG
@pytest.mark.usefixtures("silent_run")  # whose ten seconds pass meanwhile
def test_cancelled_twice_and_killed_once_it_leaves_nothing_and_ends_as_if_never_stopped(
    server: Server, tmp_path: Path, loopback_site: "Site"
) -> None:
    site, index = loopback_site, server.data / "index/slow"
    site.page("/", "".join(f"<a href='/{n}'>{n}</a>" for n in range(30)))
    for n in range(30):
        site.page(f"/{n}", f"<h1>Page {n}</h1><p>It tells of subject number {n} and of no other.</p>", delay_s=0.2)
    declared = tmp_path / "slow.yaml"

    def has_left_nothing(run: str) -> bool:
        return not carrying(run) and lock_holder(index) is None

    with LoopbackMistral(dimension=16, fault="late", patience_s=600) as mistral:
        declared.write_text(_SLOW.format(site=site.base, mistral=mistral.url))

        crawling = server.start("products", kb=str(declared))
        server.wait_for(lambda: site.requests.total() > 8)
        server.cancel(crawling)
        assert server.end_of(crawling)["state"]["type"] == "CANCELLED"
        assert server.wait_for(lambda: has_left_nothing(crawling))
        assert site.requests.total() < 30

        embedding = server.start("products", kb=str(declared))
        server.wait_for(lambda: mistral.requests)
        assert server.slots() == 1
        server.cancel(embedding)
        assert server.end_of(embedding)["state"]["type"] == "CANCELLED"
        assert server.wait_for(lambda: has_left_nothing(embedding))
        assert server.slots() == 0

        mistral.strike("late")
        killed = server.start("products", kb=str(declared))
        server.wait_for(lambda: mistral.requests)
        worker = _worker_of(server)
        os.kill(worker, signal.SIGKILL)
        state = server.end_of(killed)["state"]
        assert (state["type"], state["message"][:36]) == ("CRASHED", "Its process has ended without a word"), state
        assert server.wait_for(lambda: has_left_nothing(killed))
        assert _worker_of(server) != worker
        server.wait_for(lambda: [alert for alert in server.alerts if alert.get("flow_run") == killed])

        mistral.strike(None)
        done = server.end_of(server.start("products", kb=str(declared)))
        assert (done["state"]["name"], done["state"]["message"]) == (
            "Published",
            "v0001 · 30 added · 30 chunks, 30 embedded",
        ), done["state"]
        assert {
            path: count for path, count in site.requests.items() if path not in ("/", "/robots.txt") and count > 2
        } == {}

    assert [alert["outcome"] for alert in server.alerts if alert.get("flow_run") == killed] == ["crashed"]
    assert not [alert for alert in server.alerts if alert["kb"] == "slow" and alert["outcome"] == "failed"]
    texts = read_table(server.data / "processed/slow/chunks.parquet", ["text"]).column(0).to_pylist()
    assert sorted(texts) == sorted(f"Page {n}. It tells of subject number {n} and of no other." for n in range(30))
    assert (index / "CURRENT").read_text() == "v0001\n"
    assert [path.name for path in (index / "versions").iterdir()] == ["v0001"]


def test_silence_is_noticed_of_a_run_and_of_a_knowledge_base(server: Server, silent_run: str) -> None:
    state = server.end_of(silent_run)["state"]
    assert (state["type"], state["message"]) == ("CRASHED", "Zombie: nothing was heard of it for 90 s.")
    (crashed,) = server.wait_for(lambda: [alert for alert in server.alerts if alert.get("flow_run") == silent_run])
    assert (crashed["outcome"], crashed["kb"]) == ("crashed", "silent")
    (stale,) = server.wait_for(lambda: [alert for alert in server.alerts if alert["outcome"] == "stale"])
    assert (stale["kb"], stale["text"].split(" hours")[0]) == (
        "handbook",
        "handbook: stale. No refresh has succeeded for 73",
    )


def test_it_ends_with_its_children_and_with_their_runs(server: Server, tmp_path: Path, loopback_site: "Site") -> None:
    """A service manager stops it so: a run that goes on is interrupted, with a report, as by Ctrl-C."""
    loopback_site.page("/", "".join(f"<a href='/{n}'>{n}</a>" for n in range(200)))
    for n in range(200):
        loopback_site.page(
            f"/{n}", f"<h1>Page {n}</h1><p>It tells of subject number {n} and of no other.</p>", delay_s=0.5
        )
    declared = tmp_path / "slow.yaml"
    declared.write_text(
        _SLOW.format(site=loopback_site.base, mistral="http://127.0.0.1:9").replace("name: slow", "name: stopped")
    )
    crawling = server.start("products", kb=str(declared))
    server.wait_for(lambda: loopback_site.requests.total() > 4)
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(PATIENCE_S) == 130
    assert carrying(crawling) == carrying(f"ALMANAC_DATA={server.data}\0") == []
    (report,) = (
        json.loads(path.read_text()) for path in (server.data / "processed/stopped/runs").glob("*-??????.json")
    )
    assert (report["exit_code"], report["error"]["kind"]) == (130, "interrupted")
    assert lock_holder(server.data / "index/stopped") is None
