"""`almanac server`: the Prefect server, a process work pool, the deployments of the project, automations and a worker,
until Ctrl-C.

The UI is at http://127.0.0.1:4200 (PREFECT_SERVER_API_PORT moves it). The server has no login of its own: it stays on
loopback. If the worker dies, its dead runs are marked and it is started again. A server that is slow to start is waited
for as long as it lives.
"""

import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import IO

from almanac.core.logs import get_logger
from almanac.core.settings import DataDir, Project, use_project
from almanac.flows.environment import prepare_prefect
from almanac.flows.server.api import answers
from almanac.flows.server.children import Children, Process, children_of_project
from almanac.flows.server.deployments import deployed_names, deployment_files
from almanac.schemas.errors import OperationalError, UsageError

_SAY_EVERY_S = 15.0  # while the server is waited for
_SLOW_S = "300"  # for one answer of a server that has just started, on a machine that is busy
_WORKER_QUERY_S = "2"
_POOL = "local"
_LOOK_EVERY_S = 0.5
_WORKER_PAUSE_S = 2  # before one that died is started again
_TAIL = 20  # lines of the server's log in an error
_log = get_logger("almanac.server")


def run_server(project: Project, data: DataDir) -> int:
    """Runs server and worker as child processes in the project's folder, until Ctrl-C or SIGTERM. Only kill -9 leaves
    the children behind.

    Returns the exit code of a deployment that failed. Raises KeyboardInterrupt when it is interrupted, and
    OperationalError if the port is taken, or the server ends by itself.
    """
    port = os.environ.get("PREFECT_SERVER_API_PORT", "4200")
    if not (port.isdecimal() and 0 < int(port) < 65536):
        raise UsageError(
            f"'{port}' is no port", where="PREFECT_SERVER_API_PORT", hint="a number from 1 to 65535; unset, it is 4200"
        )
    ui = f"http://127.0.0.1:{port}"
    api = f"{ui}/api"
    prepare_prefect(data)
    use_project(project.root)
    # the worker starts runs in the project's folder, and nothing in it stands in for a library
    os.environ["PYTHONSAFEPATH"] = "1"
    os.environ.update(PREFECT_API_URL=api, PREFECT_UI_URL=ui, PREFECT_UI_API_URL=api)
    os.environ.update(PREFECT_WORKER_QUERY_SECONDS=_WORKER_QUERY_S, PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL="INFO")
    _require_free(int(port), api)
    # A shell that starts us in the background has SIGINT ignored; children would inherit that, and Prefect ends its own
    # with it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with children_of_project(project) as children:
        server = _Server(children, port)
        server.wait_until_ready(f"{api}/health")
        return _serve(project, data, ui, server, children)


def _serve(project: Project, data: DataDir, ui: str, server: "_Server", children: Children) -> int:
    import httpx

    try:
        with _patience():
            _carry_out(children, "--no-prompt", "work-pool", "create", _POOL, "--type", "process", "--overwrite")
            for file in deployment_files(project, data, _POOL):
                if code := _carry_out(children, "--no-prompt", "deploy", "--all", "--prefect-file", str(file)):
                    server.require_alive()
                    return code
            # Prefect reads its settings when it is imported.
            from almanac.flows.server.control_room import deployments, ensure_resources, remove_undeclared
            from almanac.flows.server.zombies import mark_dead_runs

            remove_undeclared(deployed_names(project))
            ensure_resources(ui)
            mark_dead_runs(_POOL)
            deployed = deployments()
    except httpx.HTTPError as error:
        server.require_alive()
        hint = "is the machine busy, or the disk full? start it again"
        raise OperationalError(
            f"the Prefect server lives, and does not answer: {type(error).__name__}: {error}", where=ui, hint=hint
        ) from error
    worker = _start_worker(children)
    sys.stderr.write(_guide(ui, deployed))
    while True:
        server.require_alive()
        if worker.poll() is not None:
            try:
                mark_dead_runs(_POOL)
            except httpx.HTTPError as error:
                _log.warning(
                    "runs of a worker that died cannot be marked yet", error=f"{type(error).__name__}: {error}"
                )
            time.sleep(_WORKER_PAUSE_S)
            worker = _start_worker(children)
        time.sleep(_LOOK_EVERY_S)


def _start_worker(children: Children) -> Process:
    return children.start("prefect", "worker", "start", "--pool", _POOL, "--type", "process")


def _guide(ui: str, deployed: list[str]) -> str:
    """What there is to do now. The command works in any terminal as it stands: without the variable, `prefect` would
    start a server of its own.
    """
    prefect = Path(sys.executable).with_name("prefect")
    started = f"PREFECT_API_URL={ui}/api {shlex.quote(str(prefect))} deployment run"
    lines = [
        f"deployed: {', '.join(deployed) or 'nothing yet'}",
        f"watch at {ui} · Ctrl-C ends server, worker and its runs",
    ]
    if deployed:
        lines.append(f"a run now, from another terminal:\n  {started} {shlex.quote(deployed[0])}")
    return "\n" + "\n".join(lines) + "\n"


def _carry_out(children: Children, *arguments: str) -> int:
    """The exit code of a Prefect command. What it says is advice on Prefect, and shown only where it fails."""
    process = children.start("prefect", *arguments, output=subprocess.PIPE)
    said, _ = process.communicate()
    if process.returncode:
        sys.stderr.write(said.decode(errors="replace"))
    return process.returncode


def _require_free(port: int, api: str) -> None:
    hint = "PREFECT_SERVER_API_PORT=N chooses another port"
    if answers(f"{api}/health"):
        raise OperationalError(
            "a Prefect server answers here already", where=api, hint=f"use that one, stop it, or: {hint}"
        )
    try:
        with closing(socket.create_server(("127.0.0.1", port))):
            pass
    except OSError as error:
        raise OperationalError(
            f"port {port} is not free: {error.strerror}", where=api, hint=f"stop what listens there, or: {hint}"
        ) from error


@contextmanager
def _patience() -> Iterator[None]:
    """Has Prefect's clients that start inside the block wait long for an answer; the worker and its runs, which start
    after it, do not.
    """
    name = "PREFECT_API_REQUEST_TIMEOUT"
    before = os.environ.get(name)
    os.environ.setdefault(name, _SLOW_S)
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]


class _Server:
    """Prefect's server. What it writes is shown as it comes, and its last lines are kept."""

    def __init__(self, children: Children, port: str) -> None:
        arguments = ("server", "start", "--host", "127.0.0.1", "--port", port)
        self._process = children.start("almanac.flows.server.prefect_server", *arguments, output=subprocess.PIPE)
        self._tail: deque[bytes] = deque(maxlen=_TAIL)
        assert self._process.stdout is not None
        self._reader = Thread(target=self._pass_on, args=(self._process.stdout,), daemon=True, name="server-log")
        self._reader.start()

    def _pass_on(self, output: IO[bytes]) -> None:
        with output:
            for line in output:
                self._tail.append(line)
                with suppress(OSError):  # the terminal is closed
                    sys.stderr.buffer.write(line)
                    sys.stderr.flush()

    def wait_until_ready(self, health: str) -> None:
        """Waits for as long as the process lives. Raises OperationalError if it ends."""
        began = said = time.monotonic()
        while not answers(health):
            self.require_alive()
            if time.monotonic() - said > _SAY_EVERY_S:
                said = time.monotonic()
                _log.info("waiting for the Prefect server to answer", url=health, seconds=round(said - began))
            time.sleep(_LOOK_EVERY_S)

    def require_alive(self) -> None:
        """Raises OperationalError with the last lines of its log if the server has ended."""
        if (code := self._process.poll()) is None:
            return
        self._reader.join(1)
        said = b"".join(self._tail).decode(errors="replace").strip()
        raise OperationalError(
            f"the Prefect server ended with code {code}; the end of its log:\n{said or 'nothing'}",
            where="prefect server start",
            hint="mend what it says, then start it again",
        )
