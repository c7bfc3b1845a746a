"""A child process that is told its job by its parent, and ends with it, however that one ends."""

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Any

_PR_SET_PDEATHSIG = 1


def tell_job(process: "subprocess.Popen[Any]", job: str) -> None:
    """Writes the job, one line of JSON, to a child's stdin, which stays open. No file holds it: a job may hold secrets, and a kill leaves files."""
    assert process.stdin is not None
    # It may have died already; whoever reads its output learns why.
    with suppress(BrokenPipeError), os.fdopen(os.dup(process.stdin.fileno()), "wb") as pipe:
        pipe.write(f"{job}\n".encode())


def job_of_parent() -> str:
    """The child's side of `tell_job`. From here on it ends with its parent."""
    _die_with_parent()
    job = sys.stdin.buffer.readline().decode()
    if not job.endswith("\n"):
        sys.exit(1)
    _watch_stdin()
    return job


def end_with_parent() -> None:
    """SIGKILL when the parent dies (Linux), and a watch on stdin where that is not to be had or came too late.

    The parent holds the child's stdin open as a pipe and writes nothing, or nothing more.
    """
    _die_with_parent()
    _watch_stdin()


def _die_with_parent() -> None:
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _watch_stdin() -> None:
    def watch() -> None:
        while os.read(0, 4096):
            pass
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="parent-watch").start()
