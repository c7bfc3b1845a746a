"""Clients of `almanac serve` that send without end, or hardly send, or never read: each is let go, and others are
answered meanwhile.
"""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from itertools import repeat

import psutil  # type: ignore[import-untyped]  # ships no types
import pytest

from almanac.serve.connections import MAX_HEAD_BYTES
from tests.conftest import PATIENCE_S
from tests.hardening.framings import BODY, ROUTES, request
from tests.hardening.tally import some, tallied
from tests.hardening.wire import until
from tests.loopback.mistral import LoopbackMistral
from tests.proof.base import TORTURE
from tests.serve.conftest import Bases, serve_bases

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("hardening-framing")]
_ENOUGH = 64 << 20  # bytes that a client would send; what a system keeps for a socket on both sides is a tenth of it
_GROWTH = 64 << 20  # of resident memory, of server and client together
_HEAD = b"POST /api/search HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory, mistral: LoopbackMistral) -> Bases:
    found = Bases(tmp_path_factory.mktemp("slow"), mistral)
    found.publish(found.notes)
    return found


# What goes on for ever: how it begins, and what is repeated.
_ENDLESS: dict[str, tuple[bytes, bytes]] = {
    "a method": (b"", b"G" * 4096),
    "an address": (b"GET /", b"a" * 4096),
    "empty lines": (b"", b"\r\n" * 2048),
    "a header's name": (_HEAD, b"a" * 4096),
    "a header's value": (_HEAD + b"X: ", b"a" * 4096),
    "blanks before a value": (_HEAD + b"X:", b" " * 4096),
    "headers": (_HEAD, b"X: y\r\n" * 700),
    "empty headers": (_HEAD, b"X:\r\n" * 1000),
    "a body without its length reached": (_HEAD + b"Content-Length: 99999999999\r\n\r\n", b" " * 4096),
    "chunks": (_HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1000\r\n" + b" " * 4096 + b"\r\n"),
    "chunks of a byte": (_HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n" * 700),
    "a chunk's size": (_HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"0" * 4096),
    "a chunk's extension": (_HEAD + b"Transfer-Encoding: chunked\r\n\r\n2;a=", b"b" * 4096),
    "trailers": (_HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n", b"X: y\r\n" * 700),
    "a trailer": (_HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX: ", b"a" * 4096),
    "a body that nobody reads": (
        b"GET /api/kbs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999999999\r\n\r\n",
        b" " * 4096,
    ),
    "a body of what is refused": (
        b"POST /nowhere HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 99999999999\r\n\r\n",
        b" " * 4096,
    ),
    "requests whose replies nobody reads": (b"", b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 80),
}


def _sent(port: int, begin: bytes, again: bytes) -> tuple[int, bool]:
    """How many bytes a client that never reads gets rid of, and whether the server closed the connection in the end."""
    sent, end = 0, time.monotonic() + PATIENCE_S
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
        try:
            connection.sendall(begin)
            while time.monotonic() < end:
                connection.sendall(again)
                sent += len(again)
        except (BrokenPipeError, ConnectionResetError):
            return sent, True
    return sent, False


def test_what_never_ends_is_not_taken(bases: Bases) -> None:
    """What belongs to no body is limited by its size, and a body, of which nothing beyond its limit is kept, by its
    time.
    """
    promise = (
        f"closed, before 64 MiB of a head are taken (of which {MAX_HEAD_BYTES >> 10} KiB count), and after the "
        "time of a body; memory grows by less than 64 MiB"
    )
    process = psutil.Process()
    with (
        serve_bases(bases, names=[bases.notes], body_timeout_s=0.2, deadline_s=2) as client,
        tallied("`almanac serve`: requests without end", promise, len(_ENDLESS)) as tally,
    ):
        assert until(
            lambda: (
                client.post("/api/search", content=BODY, headers={"Content-Type": "application/json"}).status_code
                == 200
            )
        )
        before = process.memory_info().rss
        for what, (begin, again) in some(list(_ENDLESS.items()), 6):
            sent, is_closed = _sent(client.base_url.port or 0, begin, again)
            grown = process.memory_info().rss - before
            is_fine = is_closed and grown < _GROWTH and (sent < _ENOUGH or "body" in what or what == "chunks")
            tally.note(
                what,
                None if is_fine else f"{sent} bytes were taken, {grown >> 20} MiB more are used, closed: {is_closed}",
            )
            tally.note(f"another client after {what}", held=client.get("/health").status_code == 200)


def _trickled(port: int, pieces: Iterator[bytes], stop: threading.Event) -> Callable[[], bool]:
    """Begins a connection that sends a piece now and then; whether the server has closed it."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
    closed = threading.Event()

    def send() -> None:
        with connection, suppress(BrokenPipeError, ConnectionResetError):
            while not stop.wait(0.1):
                connection.sendall(next(pieces, b""))
                connection.settimeout(0.01)
                with suppress(TimeoutError):
                    while connection.recv(4096):
                        pass
                    break
                connection.settimeout(PATIENCE_S)
        closed.set()

    threading.Thread(target=send, daemon=True).start()
    return closed.is_set


def _bytes_of(text: bytes) -> Iterator[bytes]:
    return (text[place : place + 1] for place in range(len(text)))


def _slow(kind: str) -> Iterator[bytes]:
    length = f"Content-Length: {len(BODY)}"
    match kind:
        case "nothing":
            return repeat(b"")
        case "head":
            return _bytes_of(request(ROUTES[0], 80, length, BODY))
        case "headers":
            return iter([_HEAD, *[b"X: y\r\n"] * 1000])
        case "body":
            return iter([request(ROUTES[0], 80, "Content-Length: 1000", b""), *[b" "] * 1000])
        case "chunks":
            return iter([request(ROUTES[0], 80, "Transfer-Encoding: chunked", b""), *[b"1\r\n \r\n"] * 1000])
        case "body of a refused":
            return iter(
                [
                    request(b"POST /nowhere", 80, "Content-Length: 1000", b"").replace(
                        b"127.0.0.1:80", b"evil.example"
                    ),
                    *[b" "] * 1000,
                ]
            )
        case _:
            return iter([request(b"GET /health", 80, "Content-Length: 1000", b""), *[b" "] * 1000])


_KINDS = ("nothing", "head", "headers", "body", "chunks", "body of a refused", "body of GET")


def test_who_trickles_is_let_go_and_others_are_answered(bases: Bases) -> None:
    each = 60 if TORTURE else 4
    with (
        serve_bases(bases, names=[bases.notes], body_timeout_s=1.0 if TORTURE else 0.3) as client,
        ExitStack() as stack,
        tallied(
            "`almanac serve`: requests that trickle",
            f"closed in the end, others answered meanwhile ({', '.join(_KINDS)})",
            400,
        ) as tally,
    ):
        stop = threading.Event()
        stack.callback(stop.set)
        port = client.base_url.port or 0
        assert until(lambda: client.get("/ready").status_code == 200)
        trickled = [
            (kind, _trickled(port, _slow(kind), stop))
            for kind in (_KINDS if TORTURE else _KINDS[:5])
            for _ in range(each)
        ]
        for _ in range(20):
            response = client.post("/api/search", content=BODY, headers={"Content-Type": "application/json"})
            assert response.status_code == 200, response.text
        for kind, is_closed in trickled:
            tally.note(kind, held=until(is_closed))
        assert until(lambda: "in_flight 0.0" in client.get("/metrics").text)


def test_a_reply_that_nobody_reads_is_given_up(bases: Bases) -> None:
    """Many requests for the largest reply, of which not one is read: more than the system keeps for a connection."""
    asked = b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 60
    with (
        serve_bases(bases, names=[bases.notes], deadline_s=0.5) as client,
        tallied(
            "`almanac serve`: replies that nobody reads", "the connection is closed, and others are answered", 100
        ) as tally,
    ):
        for _ in range(100 if TORTURE else 3):
            with socket.socket() as connection:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                connection.connect(("127.0.0.1", client.base_url.port or 0))
                connection.settimeout(PATIENCE_S)
                with suppress(BrokenPipeError, ConnectionResetError):
                    for _ in range(4):
                        connection.sendall(asked)
                tally.note("not read", None if until(lambda: _is_reset(connection)) else "kept open")
                tally.note("another client", held=client.get("/health").status_code == 200)


def _is_reset(connection: socket.socket) -> bool:
    """Whether the server has aborted a connection of which nothing is read."""
    try:
        connection.send(b"G")
    except (BrokenPipeError, ConnectionResetError):
        return True
    return False


def test_health_is_told_while_many_are_connected(bases: Bases) -> None:
    count = 900 if TORTURE else 100
    with (
        serve_bases(bases, names=[bases.notes]) as client,
        ExitStack() as stack,
        tallied("`almanac serve`: idle connections", "others are answered", 900) as tally,
    ):
        for number in range(count):
            stack.enter_context(socket.create_connection(("127.0.0.1", client.base_url.port or 0)))
            is_asked = number % 50 == 0
            tally.note(f"{number} connections", held=not is_asked or client.get("/health").status_code == 200)
