"""The process that serves Prefect's API to one command. It may be started before there is a job for it: it imports libraries meanwhile, and waits.

What is imported here is imported before that process starts, and in it before anything else: little.
"""

import atexit
import json
import os
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from almanac.core.lifetime import die_with_parent, job_of_parent, tell_job
from almanac.core.uncollected import uncollected

_PROCESS = "almanac.flows.server.api_process"
_IMPORTED_AHEAD = ("sqlalchemy.ext.asyncio", "fastapi", "docket", "uvicorn")  # by Prefect's server; none reads Prefect's settings or writes a file
_waiting: list["ApiProcess"] = []


@dataclass(frozen=True)
class ApiProcess:
    """A process that waits for its job, and the URL at which it will answer. Requests that come before wait for it."""

    child: "subprocess.Popen[bytes]"
    url: str

    def serve(self, log: Path) -> None:
        """Has it serve by the settings in this process's environment, and write to a file."""
        tell_job(self.child, json.dumps({"environment": dict(os.environ), "log": str(log)}))

    def end(self) -> None:
        """Kills it: SQLite keeps everything that was committed."""
        self.child.kill()
        self.child.communicate()


def start_ahead() -> None:
    """Starts the process that `api_process` returns, unless PREFECT_API_URL names a server. If nobody takes it, it ends with this process."""
    if not _waiting and not os.environ.get("PREFECT_API_URL"):
        _waiting.append(_started())
        atexit.register(_end)


def api_process() -> ApiProcess:
    """A process that waits for its job, one that was started ahead if there is one."""
    return _waiting.pop() if _waiting else _started()


def _started() -> ApiProcess:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        command = [sys.executable, "-P", "-m", _PROCESS, str(listener.fileno())]
        quiet = subprocess.DEVNULL  # until it has its log
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, start_new_session=True, pass_fds=[listener.fileno()])
        return ApiProcess(child, f"http://127.0.0.1:{listener.getsockname()[1]}/api")


def _end() -> None:
    while _waiting:
        _waiting.pop().end()


def _serve(listener: int) -> None:
    """What the process does."""
    die_with_parent()
    with uncollected(), suppress(Exception):  # what fails here fails once more, and is then written to the log
        for name in _IMPORTED_AHEAD:
            import_module(name)
    job = json.loads(job_of_parent())
    with Path(job["log"]).open("ab") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    os.environ.clear()
    os.environ.update(job["environment"])
    from almanac.flows.server.api_app import serve_api

    serve_api(socket.socket(fileno=listener))


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
