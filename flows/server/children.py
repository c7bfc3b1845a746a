"""Prefect's commands as child processes, and the runs that its worker starts: how they all end."""

import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]  # ships no types

from almanac.core.lifetime import uninterrupted

_TIMEOUT_S = 30
Process = subprocess.Popen[bytes]


def start_prefect(*arguments: str, **options: Any) -> Process:
    """Starts `prefect ARGUMENTS` in a session of its own: Ctrl-C does not reach it. It ends with this process, however
    that ends. `options` are those of Popen.
    """
    # -P: no file in the current folder shadows a library.
    command = [sys.executable, "-P", "-m", "almanac.core.lifetime", "prefect", "--no-prompt", *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True, **options)


class Children:
    """Processes of Prefect in a project's folder that end together. What they say goes to stderr."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[Process] = []

    def start(self, *arguments: str, **options: Any) -> Process:
        """Starts `prefect ARGUMENTS`."""
        with uninterrupted():  # none is started that is not in the list
            streams = {"stdout": sys.stderr.fileno(), "stderr": subprocess.STDOUT}
            self._started.append(start_prefect(*arguments, **{"cwd": self._folder, **streams, **options}))
        return self._started[-1]

    def stop(self) -> None:
        """Ends all of them, the last one first: the server takes what a run reports at its end, and a worker would kill
        its runs before they report.
        """
        for child in reversed([child for child in self._started if child.poll() is None]):
            with suppress(psutil.NoSuchProcess):
                process = psutil.Process(child.pid)
                _end(process.children())
                _end([process])
            child.wait()


def _end(processes: Iterable[psutil.Process]) -> None:
    """Ends processes by SIGTERM, since SIGINT is ignored where a shell started us in the background, and those that
    stay by SIGKILL.
    """
    processes = list(processes)
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    for process in psutil.wait_procs(processes, timeout=_TIMEOUT_S)[1]:
        with suppress(psutil.NoSuchProcess):
            process.kill()


@contextmanager
def children(folder: Path) -> Iterator[Children]:
    """Yields what starts Prefect's commands in a project's folder, and ends them all with the block."""
    started = Children(folder)
    try:
        yield started
    finally:
        with uninterrupted():
            started.stop()
