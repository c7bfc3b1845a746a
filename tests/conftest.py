"""What tests share: the command as a user runs it, sites on loopback, one published example."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Finished:
    """A command that ended: its exit code and what it printed."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)


class Almanac:
    """Runs `almanac` in a process of its own, on a data directory of its own."""

    def __init__(self, data: Path, environment: dict[str, str]) -> None:
        self.data = data
        self.environment = environment

    def __call__(self, *arguments: str, data: Path | None = None, **environment: str) -> Finished:
        command = [sys.executable, "-m", "cli.main", *arguments]
        variables = {**os.environ, **self.environment, "ALMANAC_DATA": str(data or self.data), **environment}
        done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=300)
        return Finished(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="session")
def prefect_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One Prefect home for all tests: its database is migrated once."""
    return tmp_path_factory.mktemp("prefect")


@pytest.fixture
def almanac(tmp_path: Path, prefect_home: Path) -> Almanac:
    return Almanac(tmp_path / "data", {"PREFECT_HOME": str(prefect_home)})


Serve = Callable[[Path], str]


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="session")
def serve() -> Iterator[Serve]:
    """Serves a folder on loopback until the session ends, and gives its URL."""
    servers: list[ThreadingHTTPServer] = []

    def start(folder: Path) -> str:
        server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{server.server_address[1]}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@dataclass(frozen=True)
class Example:
    """A knowledge base after its first run."""

    almanac: Almanac
    first_run: Finished


@pytest.fixture(scope="session")
def voyago(tmp_path_factory: pytest.TempPathFactory, prefect_home: Path, serve: Serve) -> Example:
    """The example agency, crawled from its bundled site and published. Tests that change it put it back."""
    url = serve(ROOT / "examples" / "voyago" / "site")
    command = Almanac(tmp_path_factory.mktemp("voyago"), {"PREFECT_HOME": str(prefect_home), "VOYAGO_URL": url})
    return Example(command, command("run", "voyago", "--json"))
