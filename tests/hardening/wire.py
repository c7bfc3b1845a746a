"""Requests byte by byte, as no client would write them, and the replies to them."""

import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from tests.conftest import PATIENCE_S


@dataclass(frozen=True)
class Replies:
    """What came back on a connection: the status of each reply, in order, and whether the server closed it in the
    end.
    """

    statuses: tuple[int, ...]
    is_closed: bool
    text: bytes

    @property
    def is_last(self) -> bool:
        """Whether at most one reply came, and nothing behind the request was read."""
        return self.is_closed and len(self.statuses) <= 1 and 500 not in self.statuses


def exchanged(
    port: int, sent: bytes, *, timeout_s: float = PATIENCE_S, source: str = "127.0.0.1", gone: bool = False
) -> Replies:
    """Sends bytes and reads until the server closes the connection; with `gone`, the client closes at once, and reads
    nothing.
    """
    with socket.create_connection(("127.0.0.1", port), timeout=timeout_s, source_address=(source, 0)) as connection:
        with suppress(BrokenPipeError, ConnectionResetError):  # refused before all was sent
            connection.sendall(sent)
        if gone:
            return Replies((), True, b"")
        received, is_closed = bytearray(), False
        try:
            while piece := connection.recv(1 << 16):
                received += piece
            is_closed = True
        except ConnectionResetError:
            is_closed = True
        except TimeoutError:
            pass
    return Replies(_statuses(bytes(received)), is_closed, bytes(received))


def _statuses(received: bytes) -> tuple[int, ...]:
    """The statuses of replies that follow each other, whose bodies are as long as they say, or in chunks."""
    statuses = []
    while received.startswith(b"HTTP/1.1 "):
        head, _, received = received.partition(b"\r\n\r\n")
        status = int(head[9:12])
        if status < 200:
            continue
        statuses.append(status)
        headers = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(b":") for line in head.split(b"\r\n")[1:])
        }
        if headers.get(b"transfer-encoding") == b"chunked":
            size = -1
            while size and received:
                line, _, received = received.partition(b"\r\n")
                size = int(line, 16)
                received = received[size + 2 :]
        else:
            received = received[int(headers.get(b"content-length", b"0")) :]
    return tuple(statuses)


def until(is_so: Callable[[], bool]) -> bool:
    """Waits for what comes in the end; whether it came."""
    end = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True
