"""An S3 server on loopback (moto's, in a process of its own), and a proxy before it that takes the conditions off every
write.
"""

import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from almanac.core.store.objects import Objects
from almanac.core.store.pointer import Head, read_head
from almanac.core.store.pushing import needed_by
from almanac.core.store.working_copy import WorkingCopy
from tests.conftest import PATIENCE_S

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "loopback",
    "AWS_SECRET_ACCESS_KEY": "loopback",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}

# As `python -m moto.server`, each answer of which waits 40 ms for an acknowledgement, and whose threads compare an ETag
# and write in two steps, between which another thread may write.
_SERVER = """
import threading
from moto import server
from werkzeug.serving import WSGIRequestHandler
WSGIRequestHandler.disable_nagle_algorithm = True
writing = threading.Lock()
class OneWriter(server.DomainDispatcherApplication):
    def __call__(self, environ, start_response):
        if environ["REQUEST_METHOD"] in ("GET", "HEAD"):
            return super().__call__(environ, start_response)
        with writing:
            return super().__call__(environ, start_response)
server.DomainDispatcherApplication = OneWriter
server.main()
"""


@contextmanager
def serve_s3(log: Path) -> Iterator[str]:
    """The address of a server without buckets."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", _SERVER, "-H", "127.0.0.1", "-p", str(port)], stdout=output, stderr=output
        )
    address, deadline = f"http://127.0.0.1:{port}", time.monotonic() + PATIENCE_S
    while not _answers(address):
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)
    try:
        yield address
    finally:
        process.kill()
        process.wait()


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/moto-api/", timeout=5):
            return True
    except OSError:
        return False


@dataclass(frozen=True)
class Bucket:
    """A bucket of a test's own, empty at first."""

    endpoint: str
    name: str

    @property
    def url(self) -> str:
        return f"s3://{self.name}/kept"

    @property
    def environment(self) -> dict[str, str]:
        return {**CREDENTIALS, "AWS_ENDPOINT_URL": self.endpoint}

    @classmethod
    def make(cls, endpoint: str, name: str) -> "Bucket":
        with urllib.request.urlopen(urllib.request.Request(f"{endpoint}/{name}", method="PUT")):
            return cls(endpoint, name)


def overwrite(objects: Objects, key: str, content: bytes) -> None:
    """Writes an object, whatever is there."""
    stored = objects.read(key)
    assert objects.write(key, content, replacing=stored.etag if stored else None) is not None


def require_whole(url: str, kb: str, folder: Path) -> Head:
    """All that CURRENT names is in the bucket, as a machine finds it that has nothing yet. Returns CURRENT."""
    objects = Objects(url)
    head = read_head(objects, kb).head
    with closing(WorkingCopy(objects, kb, folder / "whole")) as copy:
        assert needed_by(copy, head) <= {
            listed_object.key.rpartition("/")[2] for listed_object in objects.listed(f"objects/{kb}/")
        }
    return head


class _WithoutConditions(BaseHTTPRequestHandler):
    """Passes requests on without If-Match and If-None-Match, as a store does that knows neither."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else each answer waits 40 ms for an acknowledgement
    behind = ""

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {
            name: value
            for name, value in self.headers.items()
            if name.lower() not in ("if-match", "if-none-match", "host", "expect")
        }
        request = urllib.request.Request(
            self.behind + self.path, data=body or None, headers=headers, method=self.command
        )
        try:
            reply = urllib.request.urlopen(request)
        except urllib.error.HTTPError as error:
            reply = error
        with reply:
            content = reply.read()
            self.send_response_only(reply.status)
            for name, value in reply.headers.items():
                if name.lower() not in ("content-length", "connection", "transfer-encoding"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content if self.command != "HEAD" else b"")

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass_on  # noqa: N815  # the names that the server calls

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def without_conditions(endpoint: str) -> Iterator[str]:
    """The address of a server that is `endpoint`, but does not know conditional writes."""
    handler = type("Handler", (_WithoutConditions,), {"behind": endpoint})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Wire:
    """Passes connections on to a server until it is cut; those that there are end with it. `mend` makes it whole again,
    at the same address.
    """

    def __init__(self, endpoint: str) -> None:
        self._to = ("127.0.0.1", int(endpoint.rpartition(":")[2]))
        self._open: set[socket.socket] = set()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._is_cut = False
        self._breaks, self._after = 0, 0
        Thread(target=self._accept, daemon=True).start()

    def break_off(self, times: int, *, after: int) -> None:
        """So many connections end once this many bytes of their replies have passed."""
        self._breaks, self._after = times, after

    def cut(self) -> None:
        self._is_cut = True
        for connection in list(self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        self._is_cut = False

    def _accept(self) -> None:
        while True:
            client, _ = self._listening.accept()
            if self._is_cut:
                client.close()
                continue
            server = socket.create_connection(self._to)
            self._open |= {client, server}
            for source, target, are_replies in ((client, server, False), (server, client, True)):
                Thread(
                    target=self._pass_on, args=(source, target), kwargs={"are_replies": are_replies}, daemon=True
                ).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, *, are_replies: bool) -> None:
        passed = 0
        with suppress(OSError):
            while content := source.recv(1 << 16):
                target.sendall(content)
                passed += len(content)
                if are_replies and self._breaks and passed > self._after:
                    self._breaks -= 1
                    break
        for connection in (source, target):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            self._open.discard(connection)
        source.close()  # and the thread of the other direction closes `target`
