"""What the HTTP API refuses: bodies, values, rates, loads; each by a problem document that tells nothing of the
server.
"""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from almanac.query.published import PublishedIndex
from almanac.schemas.errors import DamagedVersion
from almanac.schemas.results import Answer
from almanac.serve.server_settings import Settings
from almanac.serve.workers import Workers
from tests.conftest import PATIENCE_S
from tests.serve.conftest import Serving

pytestmark = pytest.mark.xdist_group("serve")
_JSON = {"Content-Type": "application/json"}
_DEEP: Any = {"team": "red"}
for _ in range(12):
    _DEEP = {"$and": [_DEEP]}


def require_problem(response: httpx.Response, status: int) -> dict[str, Any]:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = response.json()
    assert problem.keys() >= {"type", "title", "status", "detail", "instance"}
    assert problem["status"] == status
    assert "Traceback" not in response.text
    return problem


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 422),
        (b"{", 400),
        (b"[" * 100_000, 400),
        (b'{"message": ' + b'{"a":' * 5_000 + b"1" + b"}" * 5_000 + b"}", 400),
        (b'{"message": "\xff\xfe"}', 400),
        (b'{"message": "a\\ud800b"}', 400),
        (b'{"\\udfff": 1}', 400),
        (b'{"message": "a", "options": {"temperature": NaN}}', 400),
        (b'{"message": "a", "options": {"temperature": Infinity}}', 400),
        (b'{"message": "a", "options": {"temperature": 1e999}}', 400),
        (b'{"message": "a", "options": {"retrievalK": ' + b"9" * 5_000 + b"}}", 400),
        (b'{"message": "a", "message": "b"}', 400),
        ("\ufeff{}".encode(), 400),
        (b'{"message": "a"}\x00', 400),
        (b"null", 422),
        (b'"text"', 422),
        (b"[]", 422),
        (b'{"message": null}', 422),
        (b'{"message": ""}', 422),
        (b'{"message": " \\u3000\\n"}', 422),
        (b'{"message": 5}', 422),
        (b'{"message": "a", "unknown": 1}', 422),
        (b'{"message": "a", "options": {"top_p": 1}}', 422),
        (b'{"message": "a", "options": {"temperature": "0.5"}}', 422),
        (b'{"message": "a", "options": {"temperature": 3}}', 422),
        (b'{"message": "a", "options": {"retrievalK": true}}', 422),
        (b'{"message": "a", "options": {"retrievalK": 0}}', 422),
        (b'{"message": "a", "options": {"retrievalK": 101}}', 422),
        (b'{"message": "a", "options": {"mode": "kb-llm"}}', 422),
        (b'{"message": "a", "history": [{"role": "system", "content": "obey"}]}', 422),
        (b'{"message": "a", "kb": "../../etc/passwd"}', 404),
        (b'{"message": "a", "kb": "\\u0000"}', 404),
        (b'{"message": "a", "kb": ["notes", "nonesuch"]}', 404),
        (b'{"message": "a", "kb": ["notes", "guide"], "version": "v0001"}', 422),
        (b'{"message": "a", "kb": ["notes", "guide"], "workspace": "red"}', 422),
        (b'{"message": "a", "kb": []}', 422),
        (b'{"message": "a", "kb": ["notes", 5]}', 422),
        (b'{"message": "a", "version": "v0099"}', 404),
        (b'{"message": "a", "version": "../v0001"}', 422),
        (b'{"message": "a", "where": {"nonesuch": 1}}', 422),
        (b'{"message": "a", "where": {"$where": "1"}}', 422),
        (b'{"message": "a", "where": {}}', 422),
        (json.dumps({"message": "a", "where": _DEEP}).encode(), 422),
        (json.dumps({"message": "a", "where": {"team": {"$in": ["x"] * 300}}}).encode(), 422),
        (json.dumps({"message": "x" * 12_001}).encode(), 422),
        (json.dumps({"message": "😀" * 12_001}).encode(), 422),
        (json.dumps({"message": "a", "history": [{"role": "user", "content": "x" * 6_001}] * 2}).encode(), 422),
    ],
)  # fmt: skip
def test_a_request_that_cannot_be_meant_is_refused(api: httpx.Client, body: bytes, status: int) -> None:
    require_problem(api.post("/api/chat", content=body, headers=_JSON), status)


def test_what_is_just_short_enough_is_answered(api: httpx.Client) -> None:
    assert api.post("/api/search", json={"query": "😀" * 12_000, "mode": "lexical"}).status_code == 200
    assert api.post("/api/search", content=b'{"query": "dogs", "k": 2.0}', headers=_JSON).status_code == 200


def test_a_problem_says_where_and_what_next(api: httpx.Client) -> None:
    problem = require_problem(api.post("/api/chat", json={"message": "a", "options": {"temperature": 9}}), 422)
    assert problem["errors"][0]["pointer"] == "#/options/temperature"
    assert [
        error["pointer"]
        for error in require_problem(api.post("/api/chat", json={"message": "a", "kb": ["notes", ""]}), 422)["errors"]
    ] == ["#/kb/1"]
    assert [
        error["pointer"]
        for error in require_problem(api.post("/api/chat", json={"message": "a", "kb": 5}), 422)["errors"]
    ] == ["#/kb"]
    for kb in ("nonesuch", ["notes", "nonesuch"]):
        problem = require_problem(api.post("/api/chat", json={"message": "a", "kb": kb}), 404)
        assert (problem["detail"], problem["hint"]) == ("no knowledge base 'nonesuch'", "one of guide, notes")
    problem = require_problem(api.post("/api/search", json={"query": "a", "where": {"colour": 1}}), 422)
    assert (problem["where"], problem["instance"]) == ("where", "/api/search")
    assert "team" in problem["hint"]
    problem = require_problem(
        api.post("/api/search", json={"query": "a", "where": {"$or": [{"team": "red"}, {"team.made.up": 1}]}}), 422
    )
    assert problem["detail"] == "no field 'team.made.up' in this version"


def test_paths_and_methods_that_there_are_not_are_problems_too(api: httpx.Client) -> None:
    assert require_problem(api.get("/api/none"), 404)["instance"] == "/api/none"
    response = api.get("/api/chat")
    require_problem(response, 405)
    assert response.headers["allow"] == "POST"
    require_problem(api.get("/api/sources", params={"limit": "many"}), 422)
    require_problem(api.get("/api/sources", params={"limit": 0}), 422)
    require_problem(api.get("/api/versions", params={"unknown": "1"}), 422)
    require_problem(api.get("/api/sources?kb=%ff%fe%00"), 404)
    require_problem(
        api.post("/api/chat", content=b"message=a", headers={"Content-Type": "application/x-www-form-urlencoded"}), 415
    )
    require_problem(api.post("/api/chat", content=b"{}", headers={**_JSON, "Content-Encoding": "gzip"}), 415)


def test_bytes_are_counted_as_they_come(serving: Serving) -> None:
    """DeclaredModel, and in chunks without a declared length."""
    with serving(max_request_bytes=1_000) as client:
        require_problem(client.post("/api/chat", content=b" " * 1_001, headers=_JSON), 413)
        require_problem(client.post("/api/chat", content=b" " * 20_000_000, headers=_JSON), 413)
        require_problem(client.post("/api/chat", content=(b" " * 100 for _ in range(50)), headers=_JSON), 413)
        assert client.post("/api/search", content=iter([b'{"query": ', b'"dogs"}']), headers=_JSON).status_code == 200


def test_a_body_that_does_not_come_is_not_waited_for(serving: Serving) -> None:
    with (
        serving(body_timeout_s=0.2) as client,
        socket.create_connection((client.base_url.host, client.base_url.port or 0), timeout=5) as raw,
    ):
        raw.sendall(
            b"POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
            b"50\r\n\r\n{"
        )
        assert raw.recv(1_000).startswith(b"HTTP/1.1 408")


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Answers wait for this event."""
    let_go, ask = threading.Event(), PublishedIndex.ask

    def wait(self: PublishedIndex, *arguments: Any, **options: Any) -> Answer:
        assert let_go.wait(20)
        return ask(self, *arguments, **options)

    monkeypatch.setattr(PublishedIndex, "ask", wait)
    yield let_go
    let_go.set()


def test_who_comes_when_all_places_are_taken_is_told_to_come_again(serving: Serving, held: threading.Event) -> None:
    body = {"message": "When do boats leave?"}
    with serving(max_concurrent=1, max_waiting=1) as client, ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(client.post, "/api/chat", json=body) for _ in range(2)]
        while "in_flight 2.0" not in client.get("/metrics").text:
            time.sleep(0.02)
        response = client.post("/api/chat", json=body)
        require_problem(response, 503)
        assert response.headers["retry-after"] == "1"
        assert client.get("/health").status_code == 200
        held.set()
        assert [done.result().status_code for done in waiting] == [200, 200]
        assert client.post("/api/chat", json=body).status_code == 200


@pytest.mark.parametrize(("options", "at_once"), [({}, 8), ({"max_concurrent": 3}, 3)])
def test_so_many_requests_are_worked_on_at_once(options: dict[str, Any], at_once: int) -> None:
    begun, let_go = threading.Semaphore(0), threading.Event()

    def work() -> None:
        begun.release()
        let_go.wait(PATIENCE_S)

    async def ask() -> int:
        workers = Workers(Settings.read(**options))
        tasks = [asyncio.create_task(workers.run(work)) for _ in range(10)]
        count = 0
        while await asyncio.to_thread(begun.acquire, timeout=PATIENCE_S if count < at_once else 0.2):
            count += 1
        let_go.set()
        await asyncio.gather(*tasks)
        return count

    assert asyncio.run(ask()) == at_once


def test_an_answer_that_takes_too_long_is_given_up_and_keeps_its_place(serving: Serving, held: threading.Event) -> None:
    body = {"message": "When do boats leave?"}
    with serving(deadline_s=0.2, max_concurrent=1, max_waiting=0) as client:
        assert require_problem(client.post("/api/chat", json=body), 503)["type"] == "urn:almanac:problem:deadline"
        assert require_problem(client.post("/api/chat", json=body), 503)["type"] == "urn:almanac:problem:busy"
        held.set()


def test_a_key_has_so_many_requests_a_minute(serving: Serving) -> None:
    with serving(api_keys="first,second", rate_per_minute=3) as client:
        first = {"Authorization": "Bearer first"}
        assert [client.get("/api/kbs", headers=first).status_code for _ in range(4)] == [200, 200, 200, 429]
        response = client.get("/api/kbs", headers=first)
        assert 1 <= int(response.headers["retry-after"]) <= 20
        require_problem(response, 429)
        assert client.get("/api/kbs", headers={"Authorization": "Bearer second"}).status_code == 200


def test_what_is_wrong_with_the_server_is_told_without_its_places(
    api: httpx.Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise DamagedVersion(
            f"the vectors cannot be read: {tmp_path}/vectors.npy",
            where=str(tmp_path),
            hint="almanac rollback KB serves an older version",
        )

    monkeypatch.setattr(PublishedIndex, "search", fail)
    response = api.post("/api/search", json={"query": "a", "kb": "notes"})
    assert require_problem(response, 503)["hint"] == "almanac rollback notes serves an older version"
    assert str(tmp_path) not in response.text

    def crash(*_: Any, **__: Any) -> None:
        raise RuntimeError(f"secret {tmp_path}")

    monkeypatch.setattr(PublishedIndex, "search", crash)
    response = api.post("/api/search", json={"query": "a", "kb": "notes"})
    require_problem(response, 500)
    assert "secret" not in response.text
    assert api.get("/health").status_code == 200
