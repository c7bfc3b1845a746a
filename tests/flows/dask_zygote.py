"""Forks schedulers and workers of Dask from a process that has imported what they do: `python -m
tests.flows.dask_zygote`.

Importing that is most of what one costs that does a few batches. One request a line on stdin, {module, arguments,
environment, log}; the process id of what was forked, a line on stdout. What is about getting ready, or about other
code, starts its processes anew.
"""

import gc
import json
import os
import runpy
import select
import signal
import subprocess
import sys
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from tests.conftest import ROOT

_IMPORTED = (
    "distributed.cli.dask_scheduler",
    "distributed.cli.dask_worker",
    "tests.flows.dask_worker",
    "almanac.flows.cluster",
)


class Forked:
    """A process that was forked so, as far as a `Popen` is asked for it here."""

    def __init__(self, module: str, arguments: list[str], environment: dict[str, str], log: Path) -> None:
        zygote = _zygote()
        assert zygote.stdin is not None
        assert zygote.stdout is not None
        zygote.stdin.write(
            json.dumps({"module": module, "arguments": arguments, "environment": environment, "log": str(log)}) + "\n"
        )
        zygote.stdin.flush()
        self.pid = int(zygote.stdout.readline())
        self._descriptor = os.pidfd_open(self.pid)

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)

    def wait(self) -> None:
        select.select([self._descriptor], [], [])
        os.close(self._descriptor)


@cache
def _zygote() -> "subprocess.Popen[str]":
    """Ends with this process."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.flows.dask_zygote"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def main() -> None:
    """Serves requests until stdin ends."""
    for name in _IMPORTED:
        import_module(name)
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody has to wait for those that have ended
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            _become(json.loads(line))
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()


def _become(request: dict[str, Any]) -> NoReturn:
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    log = os.open(request["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for number, descriptor in enumerate((os.open(os.devnull, os.O_RDONLY), log, log)):
        os.dup2(descriptor, number)
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = [request["module"], *request["arguments"]]
    sys.modules.pop(request["module"])
    try:
        runpy.run_module(request["module"], run_name="__main__")
    finally:
        os._exit(0)


if __name__ == "__main__":
    main()
