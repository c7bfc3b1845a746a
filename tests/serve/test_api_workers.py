"""Several processes serve one address, and what nobody waits for is not worked on."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from almanac.core.given_up import GivenUp, require_wanted
from almanac.core.lifetime import process_start
from almanac.query.published import PublishedIndex
from almanac.schemas.results import Answer
from almanac.serve.rates import Rates
from tests.conftest import PATIENCE_S, ROOT
from tests.serve.conftest import Bases, Serving

pytestmark = pytest.mark.xdist_group("serve")
_QUESTION = {"message": "When do boats leave?"}
_KEYS = [f"key-{number}" for number in range(300)]


def _started(bases: Bases, *before: str, **environment: str) -> "subprocess.Popen[str]":
    """A server of two workers; `before` is what its command begins with."""
    serve = ["serve", "--kb", bases.notes, "--port", "0", "--data", str(bases.data), "--workers", "2"]
    command = [*before, sys.executable, "-m", "almanac.cli.main", *serve]
    return subprocess.Popen(command, cwd=ROOT, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True)


def _address(started: "subprocess.Popen[str]") -> str:
    assert started.stdout is not None
    return started.stdout.readline().split()[-1]


@pytest.fixture
def fleet(bases: Bases) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """A server of two workers that lets a key ask twice a minute; its address."""
    with _started(bases, ALMANAC_API_KEYS=",".join(_KEYS), ALMANAC_RATE_PER_MINUTE="2") as started:
        yield started, _address(started)
        started.kill()


@pytest.mark.slow
def test_workers_serve_where_stdin_is_closed_and_end_with_their_terminal(bases: Bases) -> None:
    with _started(bases, "sh", "-c", 'exec "$@" <&-', "sh") as started:
        address = _address(started)
        try:
            assert httpx.get(f"{address}health", timeout=PATIENCE_S, trust_env=False).status_code == 200
        finally:
            started.send_signal(signal.SIGHUP)
        assert started.wait(40) == 0


def _workers(started: "subprocess.Popen[str]") -> list[int]:
    """Besides, Python has a process that frees what workers leave behind."""
    children = Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text().split()
    return [int(pid) for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]


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
            f"{address}api/chat", json=_QUESTION, headers=headers, timeout=PATIENCE_S, trust_env=False
        ).status_code

    def counted() -> list[tuple[str, int]]:
        """Status and number of the questions, of all workers together. A response is counted once it is complete, which
        is after it has been read.
        """
        metrics = get("metrics", next(keys)).text
        counts = re.findall(r'almanac_requests_total\{method="POST",route="/api/chat",status="(\d+)"\} (\d+)', metrics)
        return [(status, int(count)) for status, count in counts]

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
    assert [pid for pid in last if Path(f"/proc/{pid}").exists()] == []


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="finds the workers in /proc")
def test_workers_end_with_a_parent_that_is_killed(fleet: tuple["subprocess.Popen[str]", str]) -> None:
    started, address = fleet
    _until(lambda: httpx.get(f"{address}health", timeout=PATIENCE_S, trust_env=False).status_code == 200)
    workers = _workers(started)
    assert len(workers) == 2
    started.kill()
    _until(lambda: all(process_start(pid) is None for pid in workers))


_CANNOT_START = """
from functools import partial
from almanac.serve.http_server import serve_by_workers
from almanac.serve.server_settings import Settings
def catalog():
    raise MemoryError("too little of it")
if __name__ == "__main__":
    import broken
    serve_by_workers(broken.catalog, Settings(port=0, workers=2), partial(print, "prepared"), print)
"""


@pytest.mark.slow
def test_workers_that_cannot_start_end_the_server(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(_CANNOT_START)
    ended = subprocess.run(
        [sys.executable, str(tmp_path / "broken.py")], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert "OperationalError: almanac serve: a worker cannot start" in ended.stderr
    assert "too little of it" in ended.stdout + ended.stderr


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
        assert client.post("/api/chat", json=_QUESTION).status_code == 503
        _until(lambda: "in_flight 0.0" in client.get("/metrics").text)
        assert len(stages) == 1


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_client_that_has_gone_costs_nothing_more(serving: Serving, stages: list[Any], is_streamed: bool) -> None:
    with serving(max_concurrent=1) as client:
        body = json.dumps({**_QUESTION, "stream": is_streamed}).encode()
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
