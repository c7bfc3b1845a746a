"""The proxy that a browser reaches the network through: it connects to the addresses that a crawl may connect to, and
to nothing else.

A host's addresses are looked up and checked here, and the connection goes to the very address that was checked: no name
that changes its address in between leads elsewhere. The browser looks up no name itself. TLS is the browser's own, end
to end.
"""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from scrapy.exceptions import CannotResolveHostError

from almanac.spiders.crawling.addresses import permitted_addresses
from almanac.spiders.crawling.refusal import Refusal

_HEAD_BYTES = 64 << 10
_HEAD_S, _CONNECT_S, _IDLE_S = 30.0, 10.0, 120.0
_PART = 64 << 10
_HOP_BY_HOP = (b"connection:", b"keep-alive:", b"proxy-connection:", b"proxy-authorization:")


class _NotOneError(Exception):
    """What arrives is no request to a proxy."""


@dataclass(frozen=True, slots=True)
class _Target:
    """Where a request leads; `head` is what is passed on of it, empty for a tunnel."""

    host: str
    port: int
    head: bytes


@dataclass
class BrowserProxy:
    """An HTTP proxy on loopback (`async with`), at `port`."""

    port: int = 0
    _server: asyncio.Server | None = None
    _running: set["asyncio.Task[None]"] = field(default_factory=set)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=_HEAD_BYTES)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        try:
            await self._pass_on(reader, writer)
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError, asyncio.CancelledError):
            pass  # either side is gone; the browser sees a closed connection
        finally:
            self._running.discard(task)
            writer.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _HEAD_S)
        try:
            target = _target(head)
            there, back = await self._connect(target)
        except _NotOneError as error:
            await _answer(writer, 400, str(error))
            return
        except Refusal as refusal:
            await _answer(writer, 403, refusal.detail)
            return
        except (OSError, TimeoutError, CannotResolveHostError) as error:
            await _answer(writer, 502, str(error))
            return
        try:
            if target.head:
                back.write(target.head)
                to_browser = _response(there, writer)
            else:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                to_browser = _pipe(there, writer)
            await _first_ended(to_browser, _pipe(reader, back))
        finally:
            back.close()

    async def _connect(self, target: _Target) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connects to the first of the host's permitted addresses that answers. Raises what `permitted_addresses` does,
        OSError or TimeoutError.
        """
        failed: OSError | TimeoutError = OSError("no address")
        for address in await permitted_addresses(target.host):
            if (address, target.port) == ("127.0.0.1", self.port):
                raise Refusal("private_address", f"{target.host}:{target.port} is the proxy of the browser")
            try:
                return await asyncio.wait_for(
                    asyncio.open_connection(address, target.port, limit=_HEAD_BYTES), _CONNECT_S
                )
            except (OSError, TimeoutError) as error:
                failed = error
        raise failed


def _target(head: bytes) -> _Target:
    """Reads a request: `CONNECT host:port`, or a method and a whole http URL. Raises _NotOneError for anything else."""
    line, *fields = head[:-4].split(b"\r\n")
    try:
        method, written, version = line.decode("ascii").split(" ")
        tunnel = method == "CONNECT"
        parts = urlsplit(f"//{written}" if tunnel else written)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise _NotOneError("not a request to a proxy") from error
    if not host or (port is None if tunnel else parts.scheme != "http"):
        raise _NotOneError("neither CONNECT host:port nor an http URL")
    if tunnel:
        return _Target(host, int(port or 0), b"")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    end_to_end_fields = [header for header in fields if not header.lower().startswith(_HOP_BY_HOP)]
    # One request a connection: a further one might be for another host.
    lines = [f"{method} {path} {version}".encode("ascii"), *end_to_end_fields, b"Connection: close"]
    return _Target(host, port or 80, b"\r\n".join(lines) + b"\r\n\r\n")


async def _response(there: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Passes a response on with `Connection: close`, so that the browser sends no further request on this
    connection.
    """
    is_interim = True  # 100 Continue and the like come before the response
    while is_interim:
        head = await asyncio.wait_for(there.readuntil(b"\r\n\r\n"), _IDLE_S)
        line, *fields = head[:-4].split(b"\r\n")
        end_to_end_fields = [header for header in fields if not header.lower().startswith(_HOP_BY_HOP)]
        writer.write(b"\r\n".join([line, *end_to_end_fields, b"Connection: close"]) + b"\r\n\r\n")
        is_interim = line.partition(b" ")[2].startswith(b"1")
    await _pipe(there, writer)


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while part := await asyncio.wait_for(reader.read(_PART), _IDLE_S):
        writer.write(part)
        await writer.drain()


async def _first_ended(*ways: Coroutine[Any, Any, None]) -> None:
    """Runs both ways of a connection until one side has ended it."""
    tasks = [asyncio.ensure_future(way) for way in ways]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _answer(writer: asyncio.StreamWriter, status: int, text: str) -> None:
    body = f"{text}\n".encode()
    head = (
        f"HTTP/1.1 {status} Refused\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    writer.write(head.encode("ascii") + body)
    await writer.drain()
