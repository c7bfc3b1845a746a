"""A real site on loopback, served from a dictionary, which counts what is asked of it; servers of other hosts."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from almanac.spiders.crawling.unknown_urls import made_up_names
from almanac.spiders.reading.bounded import close_reader
from tests.forked import forked_crawls
from tests.spiders.hosts import Host, Serve, make_server


@dataclass
class Answer:
    body: bytes | str = b""
    status: int = 200
    content_type: str | None = "text/html; charset=utf-8"
    headers: dict[str, str] = field(default_factory=dict)  # a value of several lines is sent as several headers
    delay_s: float = 0.0


@dataclass
class Site:
    """`answers` maps a path with its query to what is served there; of any other path, `otherwise` is asked. A page
    with an ETag or a Last-Modified is not sent again to whoever has it. What a crawl makes up to see what becomes of it
    is not counted with the others.
    """

    base: str
    answers: dict[str, Answer] = field(default_factory=dict)
    otherwise: Callable[[str], Answer] = lambda _: Answer("nothing here", 404)
    requests: Counter[str] = field(default_factory=Counter)  # by their paths
    sent: Counter[str] = field(default_factory=Counter)  # bodies
    unknown: Callable[[str], Answer] = lambda _: Answer("nothing here", 404)  # what is made up
    made_up: Counter[str] = field(default_factory=Counter)

    def page(self, path: str, body: bytes | str = "", **keys: Any) -> None:
        """Serves `body` at `path`; `keys` are the other fields of an Answer."""
        self.answers[path] = Answer(body, **keys)


@pytest.fixture(scope="package", autouse=True)
def _forked_crawls() -> Iterator[None]:
    with forked_crawls():
        yield


@pytest.fixture
def loopback_site() -> Iterator[Site]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # else each answer waits 40 ms for an acknowledgement

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002, ARG002  # the base class's signature
            return

        def do_GET(self) -> None:
            is_made_up = any(name in self.path for name in made_up_names(site.base))
            (site.made_up if is_made_up else site.requests)[self.path] += 1
            answer = site.unknown(self.path) if is_made_up else site.answers.get(self.path) or site.otherwise(self.path)
            time.sleep(answer.delay_s)
            body = answer.body.encode() if isinstance(answer.body, str) else answer.body
            validators = {"If-None-Match": "ETag", "If-Modified-Since": "Last-Modified"}
            if any(
                self.headers.get(condition, "") == answer.headers.get(validator)
                for condition, validator in validators.items()
            ):
                self.send_response(304)
                self.end_headers()
                return
            if not is_made_up:
                site.sent[self.path] += 1
            self.send_response(answer.status)
            if answer.content_type:
                self.send_header("Content-Type", answer.content_type)
            for name, values in answer.headers.items():
                for value in values.split("\n"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    site = Site(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    yield site
    server.shutdown()
    server.server_close()


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts servers on addresses of loopback, with TLS where `tls` is a certificate's file."""
    running: list[ThreadingHTTPServer] = []

    def start(address: str = "127.0.0.1", tls: Path | None = None) -> Host:
        server = make_server(address, tls)
        running.append(server)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return server.host  # type: ignore[attr-defined, no-any-return]

    yield start
    for server in running:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def reader_closed_at_end() -> Iterator[None]:
    """Ends the child process that reads documents once the tests of a module have ended."""
    yield
    close_reader()
