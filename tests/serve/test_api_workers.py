"""Several processes serve one address, and what nobody waits for is not worked on."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import httpx
import pytest

from almanac.core.given_up import GivenUp, require_wanted
from almanac.core.settings import DataDir, Project
from almanac.query.published import PublishedIndex
from almanac.schemas.results import Answer
from almanac.serve import fleet as fleet_of_workers
from almanac.serve.fleet import Served, serve_by_workers
from almanac.serve.rates import Rates
from almanac.serve.settings import Settings
from tests.conftest import PATIENCE_S, ROOT
from tests.serve.conftest import Bases, Serving

pytestmark = pytest.mark.xdist_group("serve")
_ASKED = {"message": "When do boats leave?"}
_KEYS = [f"key-{number}" for number in range(300)]


@pytest.fixture
def fleet(bases: Bases) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """A server of two workers that lets a key ask twice a minute; its address."""
    command = [
        sys.executable,
        "-m",
        "almanac.cli.main",
        "serve",
        "--kb",
        bases.notes,
        "--port",
        "0",
        "--data",
        str(bases.data),
        "--workers",
        "2",
    ]
    environment = {**os.environ, "ALMANAC_API_KEYS": ",".join(_KEYS), "ALMANAC_RATE_PER_MINUTE": "2"}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as started:
        assert started.stdout is not None
        address = started.stdout.readline().split()[-1]
        yield started, address
        started.kill()


@pytest.mark.slow
def test_workers_serve_where_stdin_is_closed(bases: Bases) -> None:
    command = [
        sys.executable,
        "-m",
        "almanac.cli.main",
        "serve",
        "--kb",
        bases.notes,
        "--port",
        "0",
        "--data",
        str(bases.data),
        "--workers",
        "2",
    ]
    with subprocess.Popen(
        ["sh", "-c", 'exec "$@" <&-', "sh", *command], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as started:
        assert started.stdout is not None
        address = started.stdout.readline().split()[-1]
        try:
            assert httpx.get(f"{address}health", timeout=PATIENCE_S, trust_env=False).status_code == 200
        finally:
            started.terminate()
        assert started.wait(40) == 0


def _workers(started: "subprocess.Popen[str]") -> list[int]:
    return [int(one) for one in Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text().split()]


def _until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="finds the workers in /proc")
def test_workers_share_rate_and_metrics_and_one_that_dies_is_replaced(
    fleet: tuple["subprocess.Popen[str]", str],
) -> None:
    started, address = fleet

    keys = iter(_KEYS)

    def get(path: str, key: str) -> httpx.Response:
        return httpx.get(
            f"{address}{path}", headers={"Authorization": f"Bearer {key}"}, timeout=PATIENCE_S, trust_env=False
        )

    def ask() -> int:
        headers = {"Authorization": f"Bearer {next(keys)}"}
        return httpx.post(
            f"{address}api/chat", json=_ASKED, headers=headers, timeout=PATIENCE_S, trust_env=False
        ).status_code

    def counted() -> list[tuple[str, int]]:
        """Status and number of the questions, of all workers together. A response is counted once it is complete, which
        is after it has been read.
        """
        told = get("metrics", next(keys)).text
        found = re.findall(r'almanac_requests_total\{method="POST",route="/api/chat",status="(\d+)"\} (\d+)', told)
        return [(status, int(count)) for status, count in found]

    def until_counted(count: int) -> None:
        _until(lambda: sum(number for _, number in counted()) >= count)

    _until(lambda: get("health", "nobody").status_code == 200)
    before = _workers(started)
    assert len(before) == 2
    assert [ask() for _ in range(6)] == [200] * 6
    until_counted(6)
    os.kill(before[0], signal.SIGKILL)
    _until(lambda: len(_workers(started)) == 2 and _workers(started) != before)
    assert before[1] in _workers(started)
    assert [ask() for _ in range(6)] == [200] * 6
    until_counted(12)
    assert counted() == [("200", 12)]  # of all workers, also of the one that died
    key, begun = next(keys), time.monotonic()
    let_in = [get("api/kbs", key).status_code for _ in range(20)].count(200)
    assert let_in <= 2 + (time.monotonic() - begun) / 30
    last = _workers(started)
    os.kill(started.pid, signal.SIGTERM)
    assert started.wait(40) == 0
    assert [one for one in last if Path(f"/proc/{one}").exists()] == []


_WORKER = """
import json, pathlib, sys, time
told = json.loads(sys.stdin.readline())
log = pathlib.Path(__file__).with_suffix(".log")
with log.open("a") as file:
    file.write(f"{told['is_replacement']}\\n")
if told["is_replacement"]:
    sys.exit(2)
time.sleep(1 if log.read_text().count("False") == 1 else 60)
"""


def test_replacements_that_cannot_start_leave_the_others_to_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bases: Bases
) -> None:
    (tmp_path / "brief_worker.py").write_text(_WORKER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(fleet_of_workers, "_SHORT_S", 0.9)
    monkeypatch.setattr(fleet_of_workers, "_LONGEST_PAUSE_S", 0.1)
    monkeypatch.setattr(fleet_of_workers, "_LOOK_S", 0.05)
    served = Served(data=DataDir(bases.data), names=None, env=None, project=Project(tmp_path))

    def end_after_many() -> None:
        try:
            _until(lambda: (tmp_path / "brief_worker.log").read_text().count("True") == 8)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    ending: list[threading.Thread] = []

    def tell(_: str) -> None:
        (tmp_path / "brief_worker.log").touch()
        ending.append(threading.Thread(target=end_after_many))
        ending[0].start()

    serve_by_workers(served, Settings(port=0, workers=2, shutdown_s=1), "brief_worker", tell)
    ending[0].join()
    assert (tmp_path / "brief_worker.log").read_text().count("False") == 2


_ENDS_SLOWLY = """
import json, pathlib, signal, socket, sys, time
listening = socket.socket(fileno=json.loads(sys.stdin.readline())["listening"])
log = pathlib.Path(__file__).with_suffix(".log")
def end(*_):
    listening.close()
    log.write_text("ending")
    until = time.monotonic() + 20
    while log.read_text() == "ending" and time.monotonic() < until:
        time.sleep(0.02)
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
log.write_text("ready")
time.sleep(60)
"""


def test_who_connects_while_workers_finish_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bases: Bases
) -> None:
    (tmp_path / "slow_worker.py").write_text(_ENDS_SLOWLY)
    log = tmp_path / "slow_worker.log"
    log.touch()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(fleet_of_workers, "_LOOK_S", 0.05)
    refused: list[bool] = []
    ending: list[threading.Thread] = []

    def end_and_connect(port: int) -> None:
        try:
            _until(lambda: log.read_text() == "ready")
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
        _until(lambda: log.read_text() == "ending")
        try:
            socket.create_connection(("127.0.0.1", port), PATIENCE_S).close()
        except ConnectionRefusedError:
            refused.append(True)
        log.write_text("end")

    def tell(address: str) -> None:
        ending.append(threading.Thread(target=end_and_connect, args=(int(address.rstrip("/").rpartition(":")[2]),)))
        ending[0].start()

    served = Served(data=DataDir(bases.data), names=None, env=None, project=Project(tmp_path))
    serve_by_workers(served, Settings(port=0, workers=1), "slow_worker", tell)
    ending[0].join()
    assert refused


def test_the_end_may_be_told_at_any_step_of_the_wait_for_it() -> None:
    def tell(_: FrameType, event: str, __: object) -> Any:
        if event == "line":
            signal.raise_signal(signal.SIGTERM)
        return tell

    with fleet_of_workers._told_to_end() as ending:
        before = sys.gettrace()
        sys.settrace(tell)
        try:
            is_told = ending.wait(0.01)
        finally:
            sys.settrace(before)
    assert is_told


def test_rates_are_those_of_all_that_share_a_folder(tmp_path: Path) -> None:
    several = [Rates(4, ["first", "second"], tmp_path) for _ in range(2)]
    alone = Rates(4, ["first", "second"], None)
    assert [bool(several[number % 2].take("first")) for number in range(6)] == [False] * 4 + [True] * 2
    assert several[0].take("second") == 0
    assert [bool(alone.take("first")) for _ in range(5)] == [False] * 4 + [True]
    assert 1 <= alone.take("first") <= 15


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """An answer is ten seconds of steps; what became of each."""
    ended: list[Any] = []

    def work(*_: Any, **__: Any) -> Answer:
        try:
            for _step in range(200):
                require_wanted()
                time.sleep(0.05)
        except GivenUp as given_up:
            ended.append(given_up)
            raise
        raise AssertionError("ran to its end")

    def stream(*_: Any, **__: Any) -> Iterator[Answer]:
        yield work()

    monkeypatch.setattr(PublishedIndex, "ask", work)
    monkeypatch.setattr(PublishedIndex, "stream", stream)
    yield ended


def test_an_answer_past_its_deadline_is_worked_on_no_more(serving: Serving, stages: list[Any]) -> None:
    with serving(deadline_s=0.2, max_concurrent=1, max_waiting=0) as client:
        assert client.post("/api/chat", json=_ASKED).status_code == 503
        _until(lambda: "in_flight 0.0" in client.get("/metrics").text)
        assert len(stages) == 1


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_client_that_has_gone_costs_nothing_more(serving: Serving, stages: list[Any], is_streamed: bool) -> None:
    with serving(max_concurrent=1) as client:
        body = json.dumps({**_ASKED, "stream": is_streamed}).encode()
        head = (
            "POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
            f"{len(body)}\r\n\r\n"
        ).encode()
        with socket.create_connection((client.base_url.host, client.base_url.port or 80)) as gone:
            gone.sendall(head + body)
            _until(lambda: "in_flight 1.0" in client.get("/metrics").text)
        _until(lambda: "in_flight 0.0" in client.get("/metrics").text)
        assert len(stages) == 1
        _until(lambda: 'route="/api/chat",status="499"' in client.get("/metrics").text)
