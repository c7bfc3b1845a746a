"""Starts the process of Prefect's API. One may be started before its data directory is known: it imports libraries
while the command begins, and waits.
"""

import atexit
import os
import socket
import subprocess
import sys
from typing import NamedTuple

_PROCESS = "almanac.flows.server.api_process"


class ApiProcess(NamedTuple):
    """The process, which waits for its job on stdin, and the port at which its API will answer."""

    child: "subprocess.Popen[bytes]"
    port: int


_waiting: list[ApiProcess] = []


def start_ahead() -> None:
    """Starts the process that `api_process` returns next, unless PREFECT_API_URL names a server."""
    if not _waiting and not os.environ.get("PREFECT_API_URL"):
        _waiting.append(_started())


def api_process() -> ApiProcess:
    """Returns a process that waits for its job: one that was started ahead if there is one. It ends with this process,
    with or without a job.
    """
    while _waiting:
        process = _waiting.pop()
        if process.child.poll() is None:
            return process
    return _started()


def _started() -> ApiProcess:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        # -P: no file in the current folder shadows a library.
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", _PROCESS, str(listener.fileno())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,  # until it has a job, which names its log
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=[listener.fileno()],
        )
        # Registered before Prefect is imported, so that it is called after Prefect has sent the last logs and events.
        atexit.register(_stop, child)
        return ApiProcess(child, listener.getsockname()[1])


def _stop(child: "subprocess.Popen[bytes]") -> None:
    """Kills the API: SQLite keeps everything that was committed."""
    child.kill()
    child.communicate()
