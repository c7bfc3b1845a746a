"""Runs one HTTP server in this process: listening address, startup, and shutdown by a signal."""

import asyncio
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp

from almanac.schemas.errors import OperationalError
from almanac.serve.accepting import Accepting, Turns
from almanac.serve.app import create_app
from almanac.serve.catalog import Catalog
from almanac.serve.connections import guarded
from almanac.serve.settings import Settings

_ENDINGS = (signal.SIGINT, signal.SIGTERM)


def serve(catalog: Catalog, settings: Settings, tell: Callable[[str], None]) -> int:
    """Serves the HTTP API and the chat page until SIGTERM, SIGINT or SIGHUP, then waits up to `settings.shutdown_s` for
    running requests.

    Args:
        catalog: The knowledge bases. Closed at shutdown, unless requests were cut off.
        settings: Address, keys and limits.
        tell: Called with the URL as soon as the server listens.

    Returns:
        The number of requests that were cut off; their threads are still running.

    Raises:
        UsageError: The address needs API keys, or the keys are malformed.
        OperationalError: The server cannot listen at the address.
    """
    app = create_app(catalog, settings)
    run_app(app, settings, tell)
    return _in_flight(app)


def serve_at(listening: socket.socket, catalog: Catalog, settings: Settings, shared: Path, place: int) -> int:
    """Serves as `serve` does, as one of several processes, at `place` among them, on a socket that listens already.

    They share rates, metrics and how many connections each has by files in the folder `shared`.
    """
    app = create_app(catalog, settings, shared)
    _run(_InTurn(configured(app, settings), Turns(shared, place, settings.workers)), listening)
    return _in_flight(app)


def _in_flight(app: FastAPI) -> int:
    in_flight: int = app.state.workers.in_flight
    return in_flight


class _Server(uvicorn.Server):
    """Calls `on_signal` at the shutdown signal, before waiting for running requests."""

    def __init__(self, config: uvicorn.Config, on_signal: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_signal = on_signal

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self._on_signal()


class _InTurn(uvicorn.Server):
    """One of several servers that accept connections in turn."""

    def __init__(self, config: uvicorn.Config, turns: Turns) -> None:
        super().__init__(config)
        self._turns = turns
        self._accepting: list[Accepting] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=[])  # it would accept all that come
        self._accepting = [
            Accepting(one, self._turns, self.server_state.connections, self._connection) for one in sockets or []
        ]

    async def on_tick(self, counter: int) -> bool:
        for one in self._accepting:
            one.tell()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for one in self._accepting:
            one.close()
            await one.wait_closed()  # only connections that have begun are told of the end
        await super().shutdown(sockets)

    def _connection(self) -> asyncio.Protocol:
        made: asyncio.Protocol = self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return made


def run_app(
    app: ASGIApp, settings: Settings, tell: Callable[[str], None], on_signal: Callable[[], None] = lambda: None
) -> None:
    """Serves an application until SIGTERM, SIGINT or SIGHUP, as `serve` does.

    Args:
        app: The ASGI application.
        settings: Address and shutdown time.
        tell: Called with the URL as soon as the server listens.
        on_signal: Called in a signal handler at shutdown. It has to end what would otherwise not end, such as event
            streams.

    Raises:
        OperationalError: The server cannot listen at the address.
    """
    with listening_at(settings, tell) as listening:
        _run(_Server(configured(app, settings), on_signal), listening)


@contextmanager
def listening_at(settings: Settings, tell: Callable[[str], None]) -> Iterator[socket.socket]:
    """A socket that listens at the address of the settings, until the end of the block; `tell` is called with its URL.
    Raises OperationalError.
    """
    with _listening(settings.host, settings.port) as listening:
        port = listening.getsockname()[1]
        tell(f"http://{f'[{settings.host}]' if ':' in settings.host else settings.host}:{port}/")
        yield listening


def configured(app: ASGIApp, settings: Settings) -> uvicorn.Config:
    """How uvicorn serves an application."""
    return uvicorn.Config(
        app,
        http=guarded(settings.body_timeout_s, settings.deadline_s),
        log_config=None,
        access_log=False,  # an access log would contain queries; /metrics counts requests
        server_header=False,
        proxy_headers=False,
        ws="none",
        lifespan="on",
        timeout_graceful_shutdown=max(1, round(settings.shutdown_s)),
    )


def _run(server: uvicorn.Server, listening: socket.socket) -> None:
    # After its shutdown, uvicorn raises the signal again; these handlers ignore it.
    before = {one: signal.signal(one, lambda *_: None) for one in _ENDINGS}
    # a closed terminal, but not under nohup; uvicorn does not heed it
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        before[signal.SIGHUP] = signal.signal(signal.SIGHUP, server.handle_exit)
    try:
        server.run(sockets=[listening])
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _listening(host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listening = socket.create_server(address[:2], family=family, backlog=256)
    except OSError as error:
        raise OperationalError(
            f"the address cannot be listened at: {error.strerror or error}",
            where=f"{host}:{port}",
            hint="another one with --port N; 0 takes a free one",
        ) from error
    listening.setblocking(False)
    return listening
