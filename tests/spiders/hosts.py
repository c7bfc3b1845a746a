"""Real servers on addresses of loopback, which note what is asked of them, and a crawl's downloader that asks them."""

import json
import os
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.forked import Forked


@dataclass(frozen=True)
class ReceivedRequest:
    path: str
    headers: dict[str, str]
    at: float


@dataclass
class Host:
    """A server. `answers` maps a path to what it gives in turn, the last one for ever: (status, headers, body); status
    0 is none.
    """

    base: str
    answers: dict[str, list[tuple[int, dict[str, str], bytes]]] = field(default_factory=dict)
    requests: list[ReceivedRequest] = field(default_factory=list)
    connections: int = 0

    def gives(self, path: str, *statuses: int, body: bytes = b"<p>page</p>", **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.answers[path] = [
            (status, named if status != 200 or "Connection" in headers else {}, body) for status in statuses or (200,)
        ]

    def times(self, path: str) -> list[float]:
        return [request.at for request in self.requests if request.path == path]

    def paths(self) -> list[str]:
        return [request.path for request in self.requests]


Serve = Callable[..., Host]


def make_server(address: str, tls: Path | None) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002, ARG002
            return

        def setup(self) -> None:
            super().setup()
            host.connections += 1

        def do_GET(self) -> None:
            host.requests.append(
                ReceivedRequest(
                    self.path, {name.lower(): value for name, value in self.headers.items()}, time.monotonic()
                )
            )
            left = host.answers.get(self.path, [(404, {}, b"")])
            status, headers, body = left.pop(0) if len(left) > 1 else left[0]
            if not status:
                self.close_connection = True
                return
            self.send_response(status)
            length = {} if "Connection" in headers else {"Content-Length": str(len(body))}
            for name, value in ({"Content-Type": "text/html"} | headers | length).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
            return

    server = Quiet((address, 0), Handler)
    scheme = "http"
    if tls is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tls)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        scheme = "https"
    host = server.host = Host(f"{scheme}://{address}:{server.server_address[1]}")  # type: ignore[attr-defined]
    return server


@dataclass
class Probed:
    pages: dict[str, dict[str, Any]]
    seconds: float
    stderr: str


def probe(
    folder: Path,
    *urls: str,
    public: tuple[str, ...] = (),
    settings: dict[str, Any] | None = None,
    env: dict[str, str] | None = None,
    **keys: Any,
) -> Probed:
    """What became of each URL; `keys` are those of the source."""
    source = {"name": "s", "kind": "site", "start_urls": [urls[0]], **keys}
    job = folder / "job.json"
    job.write_text(json.dumps({"source": source, "urls": urls, "public": public, "settings": settings or {}}))
    began = time.monotonic()
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with Forked(
        [sys.executable, "-m", "tests.spiders.probe", str(job)], env={**os.environ, **(env or {})}, text=True, **pipes
    ) as process:
        stdout, stderr = process.communicate(timeout=120)
    assert process.returncode == 0, stderr
    lines = [json.loads(line) for line in stdout.splitlines()]
    return Probed({line.pop("url"): line for line in lines}, time.monotonic() - began, stderr)
