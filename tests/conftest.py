"""What tests share: the command as a user runs it, sites on loopback, one published example."""

import atexit
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import hypothesis
import pytest
from _pytest.nodeid import coerce_node_id
from filelock import FileLock

from almanac.core.settings import _QUIET_ENGINES
from almanac.flows.server.prefect_api import answers, start_lean_server
from almanac.schemas.hashing import short_hash

if TYPE_CHECKING:
    from tests.loopback.s3 import Bucket

ROOT = Path(__file__).resolve().parent.parent
# for what comes in the end: where a machine is busy that takes long, and where it comes soon, patience costs nothing
PATIENCE_S = 300
# Nothing of a developer's shell decides what a test finds; the checkout is the project, wherever pytest is started.
for _name in [name for name in os.environ if name.startswith(("ALMANAC_", "PREFECT_")) and name != "ALMANAC_TORTURE"]:
    del os.environ[_name]
os.environ.pop("INDEX_NAME", None)
os.environ["ALMANAC_PROJECT"] = str(ROOT)
# One profile for all property tests. A deadline, and the check on slow data, fail where the machine is busy and say
# nothing of the code. CI takes the same examples each time, as Hypothesis' own profile for it does; elsewhere each run
# looks for new ones.
hypothesis.settings.register_profile(
    "almanac",
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    print_blob=True,
    derandomize="CI" in os.environ,
)
hypothesis.settings.load_profile("almanac")


@dataclass(frozen=True)
class Finished:
    """A command that ended: its exit code and what it printed."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)


class _Zygote:
    """What commands are forked from (tests/zygote.py), with Prefect's variables as they have them; started by the first
    of them, ended with the tests.
    """

    def __init__(self, environment: dict[str, str]) -> None:
        self._environment = environment
        self._process: subprocess.Popen[str] | None = None

    @classmethod
    @cache
    def start_for(cls, prefect: tuple[tuple[str, str], ...]) -> "_Zygote":
        return cls({**os.environ, **dict(prefect)})

    def run(self, arguments: tuple[str, ...], environment: dict[str, str]) -> Finished:
        with (
            tempfile.NamedTemporaryFile("r", encoding="utf-8") as out,
            tempfile.NamedTemporaryFile("r", encoding="utf-8") as err,
        ):
            request = {"arguments": arguments, "environment": environment, "stdout": out.name, "stderr": err.name}
            return Finished(self._ask(request), out.read(), err.read())

    def _ask(self, request: dict[str, Any]) -> int:
        if self._process is None:
            command = [sys.executable, "-m", "tests.zygote"]
            pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
            self._process = subprocess.Popen(command, cwd=ROOT, env=self._environment, **pipes)
            atexit.register(self._process.kill)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        pid = json.loads(self._process.stdout.readline())["pid"]
        limit = threading.Timer(PATIENCE_S, os.kill, (pid, signal.SIGKILL))
        limit.start()
        code: int = json.loads(self._process.stdout.readline())["code"]
        limit.cancel()
        return code


class Almanac:
    """Runs `almanac` in a process of its own, on a data directory of its own. With `fresh` the process is started as a
    shell would, engines and all.
    """

    def __init__(self, data: Path, environment: dict[str, str], *, fresh: bool = False) -> None:
        self.data = data
        self.environment = environment
        self.fresh = fresh

    def __call__(self, *arguments: str, data: Path | None = None, **environment: str) -> Finished:
        variables = {**os.environ, **self.environment, "ALMANAC_DATA": str(data or self.data), **environment}
        if not self.fresh:
            # Those that each command sets by itself tell nothing apart, and a test that has loaded an engine in this
            # process has set them here.
            prefect = {
                name: value
                for name, value in variables.items()
                if name.startswith("PREFECT_") and name not in _QUIET_ENGINES
            }
            return _Zygote.start_for(tuple(sorted(prefect.items()))).run(arguments, variables)
        command = [sys.executable, "-m", "almanac.cli.main", *arguments]
        done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=PATIENCE_S)
        return Finished(done.returncode, done.stdout, done.stderr)


# What these fixtures make takes a second and more for each test, or several for a worker: processes, crawls, servers.
_SLOW = {"almanac", "almanac_alone", "voyago", "loopback_site", "bases", "s3_server"}


def pytest_itemcollected(item: pytest.Item) -> None:
    """Marks as slow what goes by a slow fixture, so that nobody has to think of it."""
    if _SLOW.intersection(getattr(item, "fixturenames", ())):
        item.add_marker(pytest.mark.slow)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keeps the tests of an `xdist_group` on one worker: xdist 3.8 notes the group where pytest 9.2 no longer reads it
    (pytest-xdist issue 1386).
    """
    for item in items:
        noted = vars(item).get("_nodeid")
        if noted and noted != item.nodeid:
            item._id = coerce_node_id(noted)


@pytest.fixture(scope="session")
def prefect_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Prefect home for all tests of this worker. Its database is migrated once for all workers: that takes as long as
    a run.
    """
    home = tmp_path_factory.mktemp("prefect")
    shared = (
        tmp_path_factory.getbasetemp().parent if "PYTEST_XDIST_WORKER" in os.environ else tmp_path_factory.getbasetemp()
    )
    migrated = shared / "prefect-migrated"
    with FileLock(shared / "prefect-migrated.lock"):
        if not migrated.exists():
            with _prefect_api(home):
                pass
            shutil.copytree(home, migrated)
            return home
    return Path(shutil.copytree(migrated, home, dirs_exist_ok=True))


@contextmanager
def _prefect_api(home: Path) -> Iterator[str]:
    """The URL of Prefect's API, as flows/server/prefect_api.py serves it to one command."""
    environment = {
        **os.environ,
        "PREFECT_HOME": str(home),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
    }
    log = home / "tests-api.log"
    process, url = start_lean_server(log, environment)
    deadline = time.monotonic() + PATIENCE_S
    while not answers(f"{url}/health"):
        assert process.poll() is None, log
        assert time.monotonic() < deadline, log
        time.sleep(0.1)
    yield url
    process.kill()
    process.communicate()


@pytest.fixture(scope="session")
def prefect_api(prefect_home: Path) -> Iterator[str]:
    """One API for all commands of this worker: starting it is a third of what a small run costs."""
    with _prefect_api(prefect_home) as url:
        yield url


@pytest.fixture
def almanac(tmp_path: Path, prefect_home: Path, prefect_api: str) -> Almanac:
    """The command on an empty data directory, with the API that all share. What is about starting and ending takes
    `almanac_alone`.
    """
    return Almanac(tmp_path / "data", {"PREFECT_HOME": str(prefect_home), "PREFECT_API_URL": prefect_api})


@pytest.fixture
def almanac_alone(tmp_path: Path, prefect_home: Path) -> Almanac:
    """The command as a shell starts it: it imports what it needs, and starts an API of its own."""
    return Almanac(tmp_path / "data", {"PREFECT_HOME": str(prefect_home)}, fresh=True)


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


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an S3 server. What a client reads first, botocore's descriptions of services, is read once: that
    is most of what a client costs.
    """
    from botocore.loaders import JSONFileLoader

    from tests.loopback.s3 import serve_s3

    described = cache(partial(JSONFileLoader.load_file, JSONFileLoader()))
    with (
        patch.object(JSONFileLoader, "load_file", lambda _, path: described(path)),
        serve_s3(tmp_path_factory.mktemp("s3") / "server.log") as address,
    ):
        yield address


@pytest.fixture
def bucket(s3_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "Bucket":
    """An empty bucket, with what this process needs to reach it in the environment."""
    from tests.loopback.s3 import Bucket

    made = Bucket.make(s3_server, f"test-{short_hash(str(tmp_path))}")
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    return made


@dataclass(frozen=True)
class Example:
    """A knowledge base after its first run."""

    almanac: Almanac
    first_run: Finished  # of a process that a shell would start, as its children are
    connects: Path  # what it and its children looked up and connected to, as tests/network writes it down


@pytest.fixture(scope="session")
def voyago(tmp_path_factory: pytest.TempPathFactory, prefect_home: Path, prefect_api: str, serve: Serve) -> Example:
    """The example agency, crawled from its bundled site and published. Tests that change it put it back."""
    url = serve(ROOT / "examples" / "voyago" / "site")
    data, environment = tmp_path_factory.mktemp("voyago"), {"PREFECT_HOME": str(prefect_home), "VOYAGO_URL": url}
    connects = tmp_path_factory.mktemp("network") / "connects"
    first_run = Almanac(data, {**environment, **watching(connects)}, fresh=True)("run", "voyago", "--json")
    return Example(Almanac(data, {**environment, "PREFECT_API_URL": prefect_api}), first_run, connects)


def watching(connects: Path) -> dict[str, str]:
    """The environment in which a process writes its connects down."""
    return {"CONNECT_LOG": str(connects), "PYTHONPATH": str(ROOT / "tests" / "network")}
