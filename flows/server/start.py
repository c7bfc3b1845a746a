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
from contextlib import closing
from pathlib import Path

from almanac.core.logs import get_logger
from almanac.core.settings import DataDir, Project, use_project
from almanac.flows.environment import prepare_prefect
from almanac.flows.server.children import Children, Process, children
from almanac.flows.server.deployments import deployed_names, deployment_files
from almanac.flows.server.prefect_api import answers
from almanac.schemas.errors import OperationalError, UsageError

_SLOW_S = "300"  # for one answer of a server that has just started, on a machine that is busy
_WORKER_QUERY_S = "2"
_POOL = "local"
_LOOK_EVERY_S = 0.5
_WORKER_PAUSE_S = 2  # before one that died is started again
_log = get_logger("almanac.server")


def run_server(project: Project, data: DataDir) -> int:
    """Runs server and worker as child processes in the project's folder, until Ctrl-C or SIGTERM. They end with this
    process, however that ends, and runs of the worker with it.

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
    with children(project.root) as started:
        server = started.start("server", "start", "--host", "127.0.0.1", "--port", port)
        while not answers(f"{api}/health"):
            _require_alive(server)
            time.sleep(_LOOK_EVERY_S)
        return _serve(project, data, ui, server, started)


def _serve(project: Project, data: DataDir, ui: str, server: Process, started: Children) -> int:
    import httpx

    patience = os.environ.get("PREFECT_API_REQUEST_TIMEOUT", _SLOW_S)
    of_worker = dict(os.environ)
    os.environ["PREFECT_API_REQUEST_TIMEOUT"] = patience
    # Prefect reads its settings when it is imported.
    from almanac.flows.begun_runs import mark_dead_runs
    from almanac.flows.server.control_room import deployments, ensure_resources, remove_undeclared

    try:
        _carry_out(started, "work-pool", "create", _POOL, "--type", "process", "--overwrite")
        for file in deployment_files(project, data, _POOL):
            if code := _carry_out(started, "deploy", "--all", "--prefect-file", str(file)):
                _require_alive(server)
                return code
        remove_undeclared(deployed_names(project))
        ensure_resources(ui)
        mark_dead_runs(_POOL)
        deployed = deployments()
    except httpx.HTTPError as error:
        _require_alive(server)
        hint = "is the machine busy, or the disk full? start it again"
        raise OperationalError(
            f"the Prefect server lives, and does not answer: {type(error).__name__}: {error}", where=ui, hint=hint
        ) from error

    def start_worker() -> Process:
        return started.start("worker", "start", "--pool", _POOL, "--type", "process", env=of_worker)

    worker = start_worker()
    sys.stderr.write(_guide(ui, deployed))
    while True:
        _require_alive(server)
        if worker.poll() is not None:
            try:
                mark_dead_runs(_POOL)
            except httpx.HTTPError as error:
                _log.warning(
                    "runs of a worker that died cannot be marked yet", error=f"{type(error).__name__}: {error}"
                )
            time.sleep(_WORKER_PAUSE_S)
            worker = start_worker()
        time.sleep(_LOOK_EVERY_S)


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


def _carry_out(started: Children, *arguments: str) -> int:
    """The exit code of a Prefect command. What it says is advice on Prefect, and shown only where it fails."""
    process = started.start(*arguments, stdout=subprocess.PIPE)
    assert process.stdout is not None
    output = process.stdout.read()
    if code := process.wait():
        sys.stderr.write(output.decode(errors="replace"))
    return code


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


def _require_alive(server: Process) -> None:
    """Raises OperationalError if the server has ended."""
    if (code := server.poll()) is not None:
        raise OperationalError(
            f"the Prefect server ended with code {code}",
            where="prefect server start",
            hint="mend what it says above, then start it again",
        )
