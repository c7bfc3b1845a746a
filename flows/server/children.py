"""The child processes of `almanac server`, and the runs that its worker starts: how they all end."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from almanac.core.lifetime import uninterrupted
from almanac.core.settings import Project

_TIMEOUT_S = 30
_LOOK_EVERY_S = 0.1
_PROCESSES = Path("/proc")
Process = subprocess.Popen[bytes]


class Children:
    """Processes in the project's folder, each in a process group of its own: what is sent to one reaches the processes
    that it started.
    """

    def __init__(self, project: Project) -> None:
        self._project = project
        self._started: list[Process] = []

    def start(self, module: str, *arguments: str, output: int | None = None) -> Process:
        """Starts `python -m module`. With `output`, what it writes to stdout and stderr goes there."""
        command = [sys.executable, "-P", "-m", module, *arguments]
        errors = None if output is None else subprocess.STDOUT
        with uninterrupted():  # none is started that is not in the list
            self._started.append(
                subprocess.Popen(command, cwd=self._project.root, start_new_session=True, stdout=output, stderr=errors)
            )
        return self._started[-1]

    def stop(self) -> None:
        """Ends all of them, the last one first: the server takes what a run reports at its end, and a worker would kill
        its runs before they report.
        """
        for child in reversed([one for one in self._started if one.poll() is None]):
            for run in _children_of(child.pid):
                _end(run)
            _end(child.pid, child.poll)
            child.wait()


def _end(group: int, reap: Callable[[], object] = lambda: None) -> None:
    """Ends the processes of a group: by SIGTERM, since SIGINT is ignored where a shell started us in the background,
    and those that stay by SIGKILL.
    """
    for kind in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(group, kind)
        deadline = time.monotonic() + _TIMEOUT_S
        while _is_alive(group) and time.monotonic() < deadline:
            time.sleep(_LOOK_EVERY_S)
            reap()


def _is_alive(group: int) -> bool:
    """Whether a process of the group runs. Where /proc tells, one that has ended and that nobody waited for does not
    count.
    """
    if _PROCESSES.is_dir():
        return any(process.group == group and process.state != "Z" for process in _processes())
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def _children_of(parent: int) -> set[int]:
    """The groups of a process's children that are not in its own group; none where /proc does not tell."""
    return {process.group for process in _processes() if process.parent == parent != process.group}


class _Found(NamedTuple):
    state: str
    parent: int
    group: int


def _processes() -> Iterator[_Found]:
    for path in _PROCESSES.glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            state, parent, group = path.read_text().rpartition(")")[2].split()[:3]
            yield _Found(state, int(parent), int(group))


@contextmanager
def children_of_project(project: Project) -> Iterator[Children]:
    """Yields what starts child processes in the project's folder, and ends them all with the block."""
    children = Children(project)
    try:
        yield children
    finally:
        with uninterrupted():
            children.stop()
