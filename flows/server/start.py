"""`almanac server`: the Prefect server, a process work pool, the deployments of the project, automations and a worker, until Ctrl-C.

The UI is at http://127.0.0.1:4200 (PREFECT_SERVER_API_PORT moves it). The server has no login of its own: it stays on loopback.
If the worker dies, its dead runs are marked and it is started again.
"""

import os
import signal
import subprocess
import sys
import time

from almanac.core.settings import DataDir, Project, use_project
from almanac.flows.environment import prepare_prefect
from almanac.flows.server.api import answers
from almanac.flows.server.deployments import deployed_names, deployment_files
from almanac.schemas.errors import OperationalError, UsageError

_START_TIMEOUT_S = 300
_STOP_TIMEOUT_S = 30
_WORKER_QUERY_S = "2"
_POOL = "local"
_LOOK_EVERY_S = 0.5
_WORKER_PAUSE_S = 2  # before one that died is started again


def run_server(project: Project, data: DataDir) -> int:
    """Runs server and worker as child processes in the project's folder, until Ctrl-C. Returns the exit code. Only kill -9 leaves the children behind."""
    port = os.environ.get("PREFECT_SERVER_API_PORT", "4200")
    if not (port.isdecimal() and 0 < int(port) < 65536):
        raise UsageError(f"'{port}' is no port", where="PREFECT_SERVER_API_PORT", hint="a number from 1 to 65535; unset, it is 4200")
    ui = f"http://127.0.0.1:{port}"
    api = f"{ui}/api"
    prepare_prefect(data)
    use_project(project.root)
    os.environ["PYTHONSAFEPATH"] = "1"  # the worker starts runs in the project's folder, and nothing in it stands in for a library
    os.environ.update(PREFECT_API_URL=api, PREFECT_UI_URL=ui, PREFECT_UI_API_URL=api)
    os.environ.update(PREFECT_WORKER_QUERY_SECONDS=_WORKER_QUERY_S, PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL="INFO")
    if answers(f"{api}/health"):
        sys.stderr.write(f"A Prefect server answers at {api} already: use that one, stop it, or choose a port with PREFECT_SERVER_API_PORT\n")
        return 7
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the children end too
    # A shell that starts us in the background has SIGINT ignored; children would inherit that, and Prefect ends its own with it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    children: list[subprocess.Popen[bytes]] = []
    try:
        server = [sys.executable, "-P", "-m", "almanac.flows.server.prefect_server", "server", "start", "--host", "127.0.0.1", "--port", port]
        children.append(subprocess.Popen(server, cwd=project.root))
        _wait_until_ready(children[0], f"{api}/health")
        _prefect(project, "--no-prompt", "work-pool", "create", _POOL, "--type", "process", "--overwrite").wait()
        for file in deployment_files(project, data, _POOL):
            if code := _prefect(project, "--no-prompt", "deploy", "--all", "--prefect-file", str(file)).wait():
                return code
        # Prefect reads its settings when it is imported.
        from almanac.flows.server.control_room import ensure_resources, remove_undeclared
        from almanac.flows.server.zombies import mark_dead_runs

        remove_undeclared(deployed_names(project))
        ensure_resources(ui)
        mark_dead_runs(_POOL)
        children.append(_start_worker(project))
        sys.stderr.write(f"\nWatch at {ui} · start a run: prefect deployment run KB/refresh · Ctrl-C ends server and worker\n")
        while (ended := children[0].poll()) is None:
            if children[1].poll() is not None:
                mark_dead_runs(_POOL)
                time.sleep(_WORKER_PAUSE_S)
                children[1] = _start_worker(project)
            time.sleep(_LOOK_EVERY_S)
        return ended or 1
    except KeyboardInterrupt:
        return 130
    finally:
        for child in reversed(children):
            # A worker takes SIGTERM as "finish what runs"; SIGINT would be ignored where a shell started us in the background.
            child.terminate()
        for child in children:
            try:
                child.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                child.kill()


def _start_worker(project: Project) -> "subprocess.Popen[bytes]":
    return _prefect(project, "worker", "start", "--pool", _POOL, "--type", "process")


def _prefect(project: Project, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-P", "-m", "prefect", *arguments], cwd=project.root)


def _wait_until_ready(server: "subprocess.Popen[bytes]", health: str) -> None:
    """Raises OperationalError if the server exits or does not answer in time; its reason is on stderr."""
    deadline = time.monotonic() + _START_TIMEOUT_S
    while not answers(health):
        if server.poll() is not None or time.monotonic() > deadline:
            found = f"did not start within {_START_TIMEOUT_S} s" if server.poll() is None else f"ended with exit code {server.returncode}"
            raise OperationalError(f"the Prefect server {found}", where=health, hint="is the port taken? PREFECT_SERVER_API_PORT=N chooses another")
        time.sleep(0.5)
