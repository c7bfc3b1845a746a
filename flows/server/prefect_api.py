"""Prefect's server as a child process of one command, used if PREFECT_API_URL names no server.

Prefect's own way, which starts one for whoever needs it, is not used: that one outlives a kill -9 of its parent, and
Ctrl-C stops it before the run has reported its end. This child does neither.
"""

import atexit
import http.client
import os
import shutil
import socket
import sqlite3
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path

from almanac.core.durable import create, temporary_beside, write_file
from almanac.core.settings import DataDir, prefect_databases
from almanac.flows.environment import prepare_prefect
from almanac.flows.server.children import Process, start_prefect
from almanac.schemas.errors import OperationalError, PrefectGone

_START_TIMEOUT_S = 120  # the first start in a data directory also makes the database
_REPLY_TIMEOUT_S = 10  # of a server that is there already
# A command has one client for some seconds: no schedules, automations or pages, and no events, which are three quarters
# of what a run would leave in the database.
_SERVICES = (
    *("CANCELLATION_CLEANUP", "EVENT_PERSISTER", "FOREMAN", "LATE_RUNS", "PAUSE_EXPIRATIONS"),
    *("REPOSSESSOR", "SCHEDULER", "TRIGGERS"),
)
_LEAN = {
    "PREFECT_API_BLOCKS_REGISTER_ON_START": "false",
    "PREFECT_SERVER_UI_ENABLED": "false",
    **{f"PREFECT_SERVER_SERVICES_{name}_ENABLED": "false" for name in _SERVICES},
}
# Of the command: Prefect's client would try each request again for a minute. What Prefect's threads, which send events
# and logs, say about a server that does not answer is said once, in flows/availability.py.
_PATIENCE = {
    "PREFECT_CLIENT_MAX_RETRIES": "1",
    "PREFECT_API_REQUEST_TIMEOUT": "10",
    "PREFECT_LOGGING_INTERNAL_LEVEL": "CRITICAL",
}
_DATABASES = {"PREFECT_API_DATABASE_CONNECTION_URL", "PREFECT_SERVER_DATABASE_CONNECTION_URL"}
_EMPTY = "SELECT NOT EXISTS (SELECT 1 FROM flow)"
Ready = Callable[[], None]


def start_api(data: DataDir) -> Ready:
    """Starts the API and returns a function that waits until the API answers. Import the flow between the two calls.
    The API stops with this process.
    """
    prepare_prefect(data)
    for name, value in _PATIENCE.items():
        os.environ.setdefault(name, value)
    if url := os.environ.get("PREFECT_API_URL"):
        return partial(_require_reply, url.rstrip("/"))
    home = Path(os.environ["PREFECT_HOME"])
    log_path, database = data.prefect_home / "api.log", home / "prefect.db"
    is_new = not any(home.glob("prefect.db*")) and not _DATABASES & os.environ.keys()
    if is_new:
        _take_empty_database(database)
    child, url = start_lean_server(log_path, os.environ)
    os.environ["PREFECT_API_URL"] = url
    # Registered before Prefect is imported, so that it is called after Prefect has sent the last logs and events. It
    # kills: SQLite keeps everything that was committed.
    atexit.register(child.kill)
    # Heartbeats are for a server that outlives the run, and the thread that sends them ends a run up to a second late.
    os.environ.pop("PREFECT_FLOWS_HEARTBEAT_FREQUENCY", None)

    def wait_until_ready() -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not answers(f"{url}/health"):
            if child.poll() is not None or time.monotonic() > deadline:
                tail = log_path.read_text(errors="replace")[-1000:].strip()
                free = f"{shutil.disk_usage(log_path.parent).free / 1e6:,.1f} MB of its disk are free"
                failure = (
                    f"within {_START_TIMEOUT_S} s"
                    if child.returncode is None
                    else f"and ended with code {child.returncode}"
                )
                raise OperationalError(
                    f"Prefect's API did not start {failure}: {tail or 'it said nothing'}",
                    where=str(log_path),
                    hint=f"run again; {free}",
                )
            time.sleep(0.1)
        if is_new and not _kept_database().exists():
            _keep_empty_database(database)
        # Prefect reads its settings when it is imported.
        from almanac.flows.availability import tell_prefect
        from almanac.flows.begun_runs import forget_old_commands, mark_dead_runs

        tell_prefect("runs that were killed", mark_dead_runs)
        tell_prefect("runs of before", forget_old_commands)

    return wait_until_ready


def start_lean_server(log_path: Path, environment: Mapping[str, str]) -> tuple[Process, str]:
    """Starts Prefect's server for one command: the process, and the URL at which its API will answer."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        port = listener.getsockname()[1]
    with create(log_path) as log:
        child = start_prefect(
            *("server", "start", "--host", "127.0.0.1", "--port", str(port)),
            env={**environment, **_LEAN},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    return child, f"http://127.0.0.1:{port}/api"


def _kept_database() -> Path:
    return prefect_databases() / f"{version('prefect')}.db"


def _take_empty_database(place: Path) -> None:
    """Puts a copy of the empty database that is kept in its place, if there is none: Prefect makes one by a hundred
    migrations, which takes four seconds.
    """
    fresh = temporary_beside(place)
    try:
        with closing(sqlite3.connect(f"{_kept_database().as_uri()}?immutable=1", uri=True)) as empty_database:
            if empty_database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]:
                write_file(fresh, empty_database.serialize())
                os.link(fresh, place)  # never over what another command has just made
    except (OSError, sqlite3.Error):
        pass  # Prefect makes it
    finally:
        fresh.unlink(missing_ok=True)


def _keep_empty_database(place: Path) -> None:
    """Keeps the first database that Prefect made on this machine, unless another command has already noted something in
    it.
    """
    with (
        suppress(OSError, sqlite3.Error),  # the next data directory takes four seconds more
        closing(sqlite3.connect(place)) as made,
        closing(sqlite3.connect(":memory:")) as copy,
    ):
        made.backup(copy)
        if copy.execute(_EMPTY).fetchone()[0]:
            write_file(_kept_database(), copy.serialize())


def _require_reply(url: str) -> None:
    """Raises PrefectGone unless something answers at the URL within ten seconds, be it with a refusal."""
    deadline = time.monotonic() + _REPLY_TIMEOUT_S
    while _status(f"{url}/health") is None:
        if time.monotonic() > deadline:
            hint = "start that server, or unset PREFECT_API_URL: the run then starts an API of its own"
            raise PrefectGone("nothing answers at PREFECT_API_URL", where=url, hint=hint)
        time.sleep(0.5)


def answers(url: str) -> bool:
    """Whether a server answers at this URL with success."""
    return _status(url) == 200


def _status(url: str) -> int | None:
    """The status of a server's answer; None if nobody is there, the address is none, or what is there speaks no
    HTTP.
    """
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except (OSError, ValueError, http.client.HTTPException):
        return None
