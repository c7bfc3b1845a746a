"""Child processes that receive their job on stdin and end with their parent, however it ends."""

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Any

_PR_SET_PDEATHSIG = 1


def tell_job(process: "subprocess.Popen[Any]", job: str) -> None:
    """Writes the job, one line of JSON, to a child's stdin, which stays open.

    It is not passed in a file, because it may contain secrets and a kill would leave the file behind.
    """
    assert process.stdin is not None
    # The child may have died already; its output shows the reason.
    with suppress(BrokenPipeError), os.fdopen(os.dup(process.stdin.fileno()), "wb") as pipe:
        pipe.write(f"{job}\n".encode())


def job_of_parent() -> str:
    """Reads the job in the child; the counterpart of `tell_job`. From here on the child ends with its parent. Exits if no complete line arrives."""
    _die_with_parent()
    job = sys.stdin.buffer.readline().decode()
    if not job.endswith("\n"):
        sys.exit(1)
    _watch_stdin()
    return job


def end_with_parent() -> None:
    """Makes this process end with its parent: by SIGKILL from the kernel (Linux), and by watching stdin where that is unavailable or was set too late.

    The parent must keep the child's stdin open as a pipe without writing to it any more.
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
