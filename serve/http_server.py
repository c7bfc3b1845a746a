"""Runs the HTTP server, in this process or by several: listening address, startup, and shutdown by a signal.

A worker answers its parent as soon as it has imported this module: what takes long is imported afterwards.
"""

import os
import signal
import socket
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess

from almanac.core.lifetime import die_with_parent, how_it_ended
from almanac.core.logs import get_logger
from almanac.core.settings import quiet_engines
from almanac.schemas.errors import OperationalError
from almanac.serve.api_keys import ApiKeys, require_safe_address
from almanac.serve.server_settings import Settings

if TYPE_CHECKING:
    from almanac.serve.catalog import Catalog

_ENDINGS = (signal.SIGINT, signal.SIGTERM)
_METRICS = "PROMETHEUS_MULTIPROC_DIR"  # as prometheus_client reads it when it is imported
_HUNG_S = 20  # after which a worker that does not answer its parent is replaced
MAX_HEAD_BYTES = 64 << 10  # of a request: its line and its headers, or its trailers
_log = get_logger("almanac.serve")


def serve(catalog: "Catalog", settings: Settings, tell: Callable[[str], None]) -> int:
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
    from almanac.serve.app import create_app

    app = create_app(catalog, settings)
    run_app(app, settings, tell)
    in_flight: int = app.state.workers.in_flight
    return in_flight


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
    with _listening(settings) as listening:
        tell(_url(settings, listening))
        server = _Server(configured(app, settings), on_signal)
        # After its shutdown, uvicorn raises the signal again; these handlers ignore it.
        before = {ending: signal.signal(ending, lambda *_: None) for ending in _ENDINGS}
        # a closed terminal, but not under nohup; uvicorn does not heed it
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            before[signal.SIGHUP] = signal.signal(signal.SIGHUP, server.handle_exit)
        try:
            server.run(sockets=[listening])
        finally:
            for ending, handler in before.items():
                signal.signal(ending, handler)


class _Server(uvicorn.Server):
    """Calls `on_signal` at the shutdown signal, before waiting for running requests."""

    def __init__(self, config: uvicorn.Config, on_signal: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_signal = on_signal

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self._on_signal()


def serve_by_workers(
    catalog: Callable[[], "Catalog"], settings: Settings, prepare: Callable[[], None], tell: Callable[[str], None]
) -> None:
    """Serves by `settings.workers` processes until SIGTERM, SIGINT or SIGHUP, then waits until each has answered what
    it works on. A worker that dies is replaced.

    Args:
        catalog: Makes the knowledge bases, in each worker; goes there pickled, through a pipe, as the settings do.
        settings: Address, keys and limits. Rates hold for all workers together, places to work and to wait for each.
        prepare: Called first in each worker.
        tell: Called with the URL as soon as the socket listens.

    Raises:
        UsageError: The address needs API keys, or the keys are malformed.
        OperationalError: The server cannot listen at the address, or a worker cannot start.
    """
    require_safe_address(settings.host, ApiKeys.parse(settings.api_keys.get_secret_value()))
    with tempfile.TemporaryDirectory(prefix="almanac-serve-") as shared, _listening(settings) as listening:
        os.environ[_METRICS] = shared
        is_deaf = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        make = partial(_make_app, catalog, settings, prepare, Path(shared))
        supervisor = _Supervisor(configured(make, settings, factory=True, workers=settings.workers), [listening])
        if is_deaf:  # under nohup
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
        tell(_url(settings, listening))
        supervisor.run()
        if any(worker.exitcode == STARTUP_FAILURE for worker in supervisor.processes):
            raise OperationalError(
                "a worker cannot start",
                where="almanac serve",
                hint="the log above says why; --workers 1 serves in this process",
            )


class _Supervisor(Multiprocess):
    """Logs which workers have died, ends at a closed terminal, too, instead of starting all anew, and refuses who
    connects while they end.
    """

    def handle_hup(self) -> None:
        self.handle_term()

    def keep_subprocess_alive(self) -> None:
        for worker in self.processes:
            if worker.exitcode is not None:
                _log.warning("worker_died", pid=worker.pid, how=how_it_ended(worker.exitcode))
        super().keep_subprocess_alive()

    def terminate_all(self) -> None:
        for listener in self.sockets:
            listener.close()
        super().terminate_all()


def _make_app(
    catalog: Callable[[], "Catalog"], settings: Settings, prepare: Callable[[], None], shared: Path
) -> ASGIApp:
    """The application of a worker, made there."""
    die_with_parent()
    os.setsid()  # Ctrl-C and a closed terminal reach the parent alone, which passes them on
    quiet_engines()
    prepare()
    try:
        from almanac.serve.app import create_app

        return create_app(catalog(), settings, shared)
    except Exception:
        _log.exception("cannot_start")
        raise SystemExit(STARTUP_FAILURE) from None


def configured(app: Callable[..., Any], settings: Settings, **options: Any) -> uvicorn.Config:
    """How uvicorn serves an application; `options` are further ones of its own."""
    return uvicorn.Config(
        app,
        http="h11",  # of the parsers that uvicorn has, the one that limits heads
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
        log_config=None,
        access_log=False,  # an access log would contain queries; /metrics counts requests
        server_header=False,
        proxy_headers=False,
        ws="none",
        lifespan="on",
        timeout_graceful_shutdown=max(1, round(settings.shutdown_s)),
        timeout_worker_healthcheck=_HUNG_S,
        **options,
    )


def _url(settings: Settings, listening: socket.socket) -> str:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"http://{host}:{listening.getsockname()[1]}/"


def _listening(settings: Settings) -> socket.socket:
    try:
        addresses = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = addresses[0]
        listening = socket.create_server(address[:2], family=family, backlog=256)
    except OSError as error:
        raise OperationalError(
            f"the address cannot be listened at: {error.strerror or error}",
            where=f"{settings.host}:{settings.port}",
            hint="another one with --port N; 0 takes a free one",
        ) from error
    listening.setblocking(False)
    return listening
