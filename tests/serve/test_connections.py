"""Connections of a server: heads and times are limited, and what surrounds a request changes nothing of it."""

import http.client
import socket
import threading
import time
from contextlib import suppress
from typing import Any

import pytest
import uvicorn

from almanac.serve.connections import MAX_HEAD_BYTES, MAX_HEADERS, guarded
from tests.conftest import PATIENCE_S
from tests.hardening.wire import Replies, exchanged
from tests.serve.conftest import Serving

pytestmark = pytest.mark.xdist_group("serve")
_LAST = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
_POST = b"POST /api/search HTTP/1.1\r\nHost: localhost\r\n"
_BODY = b'{"query": "dogs", "mode": "lexical"}'
_CHUNKED = b"%x\r\n%s\r\n0\r\n" % (len(_BODY), _BODY)


@pytest.fixture(scope="module")
def port(serving: Serving) -> object:
    with serving(body_timeout_s=0.3, deadline_s=5) as client:
        yield client.base_url.port


def _problem(replies: Replies, status: int) -> None:
    assert (replies.statuses, replies.is_closed) == ((status,), True)
    assert b"application/problem+json" in replies.text
    assert b"Traceback" not in replies.text


def test_trailers_are_no_headers(port: int) -> None:
    chunks = b"Transfer-Encoding: chunked\r\n\r\n" + _CHUNKED + b"Content-Type: application/json\r\n\r\n"
    assert exchanged(port, _POST + chunks + _LAST).statuses == (415, 200)
    assert exchanged(port, _POST + b"Content-Type: application/json\r\n" + chunks + _LAST).statuses == (200, 200)


def test_an_upgrade_that_is_asked_for_loses_neither_the_body_nor_the_next_request(port: int) -> None:
    """As clients for HTTP/2 ask with every request."""
    asked = (
        b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMA\r\nContent-Type: "
        b"application/json\r\n"
    )
    one = _POST + asked + b"Content-Length: %d\r\n\r\n" % len(_BODY) + _BODY
    assert exchanged(port, one + one + _LAST).statuses == (200, 200, 200)


@pytest.mark.parametrize(
    "head",
    [
        b"X: " + b"a" * MAX_HEAD_BYTES,
        b"X: " + b"a" * (1 << 20),
        b"X: y\r\n" * MAX_HEADERS + b"X: y",
        b"Transfer-Encoding: chunked\r\n\r\n1;a=" + b"b" * (1 << 20),
        b"Transfer-Encoding: chunked\r\n\r\n1\r\n \r\n0\r\n" + b"X: y\r\n" * 20_000,
    ],
    ids=["value", "long value", "many", "extension of a chunk", "trailers"],
)
def test_a_head_is_limited(port: int, head: bytes) -> None:
    _problem(exchanged(port, _POST + head + b"\r\n\r\n"), 431)


def test_a_head_that_just_fits_is_read(port: int) -> None:
    head = b"".join(b"X-%d: %s\r\n" % (number, b"a" * 300) for number in range(190))
    assert exchanged(port, _LAST[:-2] + head + b"\r\n").statuses == (200,)


def test_a_head_that_does_not_come_is_not_waited_for(port: int) -> None:
    _problem(exchanged(port, _LAST[:-10]), 408)
    silent = exchanged(port, b"")
    assert (silent.statuses, silent.is_closed) == ((), True)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n", 400),
        (_POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + _CHUNKED + b"\r\n", 400),
        (b"GET /\r\n\r\n", 505),
        (b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n", 501),
    ],
)
def test_what_has_two_meanings_is_refused(port: int, sent: bytes, status: int) -> None:
    _problem(exchanged(port, sent + _LAST), status)


def test_requests_before_a_broken_one_get_their_replies_and_no_other(port: int) -> None:
    good = _POST + b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(_BODY) + _BODY
    for broken in (b"nonsense\r\n\r\n", _POST + b"Transfer-Encoding: chunked\r\n\r\nnonsense\r\n"):
        replies = exchanged(port, good + good + broken + _LAST)
        assert (replies.statuses, replies.is_closed) == ((200, 200), True)


def test_a_reply_that_nobody_reads_is_given_up(serving: Serving) -> None:
    with serving(deadline_s=0.2) as client, socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", client.base_url.port or 0))
        connection.settimeout(PATIENCE_S)
        end = time.monotonic() + PATIENCE_S
        with suppress(BrokenPipeError, ConnectionResetError):
            for _ in range(4):
                connection.sendall(_LAST.replace(b"/health", b"/openapi.json").replace(b"close", b"keep-alive") * 60)
            while time.monotonic() < end:
                connection.send(b"G")
                time.sleep(0.05)
        assert time.monotonic() < end


def test_a_request_that_came_while_the_server_was_stopped_is_answered() -> None:
    """A loop that does not turn for longer than a connection may be idle, as after a pause of its process."""

    class Stopped(guarded(5, 5)):  # type: ignore[misc]
        def data_received(self, data: bytes) -> None:
            if b"/stop" in data:
                time.sleep(0.6)
            super().data_received(data)

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(
            uvicorn.Config(app, http=Stopped, lifespan="off", log_config=None, timeout_keep_alive=0.3)  # type: ignore[arg-type]
        )
        serving = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        serving.start()
        one, *others = (
            http.client.HTTPConnection("127.0.0.1", listening.getsockname()[1], timeout=PATIENCE_S) for _ in range(9)
        )
        for connection in (one, *others):
            connection.request("GET", "/")
            assert connection.getresponse().read() == b""
        one.request("GET", "/stop")
        time.sleep(0.1)
        for connection in others:
            connection.request("GET", "/")
        assert [connection.getresponse().status for connection in (one, *others)] == [204] * 9
        for connection in (one, *others):
            connection.close()
        server.should_exit = True
        serving.join()
