"""Clients of `almanac serve` that send without end, or send a body slowly: they take no memory, and others are answered
meanwhile. Who hardly sends a head, or never reads, is the job of the proxy in front (docs/security.md).
"""

import socket
from contextlib import ExitStack

import psutil  # type: ignore[import-untyped]  # ships no types
import pytest

from almanac.serve.http_server import MAX_HEAD_BYTES
from tests.hardening.framings import BODY
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
    knowledge_bases = Bases(tmp_path_factory.mktemp("slow"), mistral)
    knowledge_bases.publish(knowledge_bases.notes)
    return knowledge_bases


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


_HEADS = ("a method", "an address", "a header", "headers", "empty", "blanks", "a trailer", "trailers", "a chunk's")


def _sent(port: int, begin: bytes, again: bytes) -> tuple[int, bool]:
    """How many bytes of 64 MiB a client that never reads gets rid of, and whether the server closed the connection."""
    sent = 0
    with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
        try:
            connection.sendall(begin)
            while sent < _ENOUGH:
                connection.sendall(again)
                sent += len(again)
        except (BrokenPipeError, ConnectionResetError):
            return sent, True
        except TimeoutError:  # it is not read from any more
            pass
    return sent, False


def test_what_never_ends_takes_no_memory(bases: Bases) -> None:
    """What belongs to no body is limited by its size, and a body, of which nothing beyond its limit is kept, by its
    time.
    """
    promise = (
        f"a head is closed after {MAX_HEAD_BYTES >> 10} KiB, as far as they count, before 64 MiB are taken; memory "
        "grows by less than 64 MiB"
    )
    process = psutil.Process()
    with (
        serve_bases(bases, names=[bases.notes], body_timeout_s=0.2) as client,
        tallied("Connections of `almanac serve`: requests without end", promise, len(_ENDLESS)) as tally,
    ):
        kind = {"Content-Type": "application/json"}
        assert until(lambda: client.post("/api/search", content=BODY, headers=kind).status_code == 200)
        before = process.memory_info().rss
        for what, (begin, again) in some(list(_ENDLESS.items()), 6):
            sent, is_closed = _sent(client.base_url.port or 0, begin, again)
            grown = process.memory_info().rss - before
            is_fine = grown < _GROWTH and (is_closed or not what.startswith(_HEADS))
            tally.note(
                what,
                None if is_fine else f"{sent} bytes were taken, {grown >> 20} MiB more are used, closed: {is_closed}",
            )
            tally.note(f"another client after {what}", held=client.get("/health").status_code == 200)


def test_health_is_told_while_many_are_connected(bases: Bases) -> None:
    count = 900 if TORTURE else 100
    with (
        serve_bases(bases, names=[bases.notes]) as client,
        ExitStack() as stack,
        tallied("Connections of `almanac serve`: idle connections", "others are answered", 900) as tally,
    ):
        for number in range(count):
            stack.enter_context(socket.create_connection(("127.0.0.1", client.base_url.port or 0)))
            is_asked = number % 50 == 0
            tally.note(f"{number} connections", held=not is_asked or client.get("/health").status_code == 200)
