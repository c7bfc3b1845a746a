"""One server in this process: its address, its start, and its end by a signal."""

import signal
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from almanac.schemas.errors import OperationalError
from almanac.serve.app import create_app
from almanac.serve.catalog import Catalog
from almanac.serve.settings import Settings

_ENDINGS = (signal.SIGINT, signal.SIGTERM)


def serve(catalog: Catalog, settings: Settings, tell: Callable[[str], None]) -> int:
    """Answers until SIGTERM or SIGINT; requests in flight are finished first, for as long as is set. `tell` gets the address once it is taken.

    How many requests were cut off by then; their threads still work.

    Raises UsageError for an address that needs keys, OperationalError where the address cannot be taken.
    """
    app = create_app(catalog, settings)
    run_app(app, settings, tell)
    in_flight: int = app.state.workers.in_flight
    return in_flight


class _Server(uvicorn.Server):
    """Lets the application know of the signal before its requests are waited for."""

    def __init__(self, config: uvicorn.Config, on_signal: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_signal = on_signal

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self._on_signal()


def run_app(app: ASGIApp, settings: Settings, tell: Callable[[str], None], on_signal: Callable[[], None] = lambda: None) -> None:
    """The same for any application. `on_signal` ends what would go on by itself, such as streams of events, and is called by a signal handler.

    Raises OperationalError where the address cannot be taken.
    """
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,  # it would hold what is asked for; /metrics counts
        server_header=False,
        proxy_headers=False,
        ws="none",
        lifespan="on",
        timeout_graceful_shutdown=max(1, round(settings.shutdown_s)),
    )
    with _listening(settings.host, settings.port) as listening:
        port = listening.getsockname()[1]
        tell(f"http://{f'[{settings.host}]' if ':' in settings.host else settings.host}:{port}/")
        # uvicorn raises the signal that ended it once more, when all is done.
        before = {one: signal.signal(one, lambda *_: None) for one in _ENDINGS}
        try:
            _Server(config, on_signal).run(sockets=[listening])
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
