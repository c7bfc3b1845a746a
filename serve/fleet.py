"""Several processes behind one address: each accepts connections from the socket that all share, and what has to be one
for all of them is kept here.
"""

import faulthandler
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, Self

from pydantic import BaseModel

from almanac.core.lifetime import job_of_parent, tell_job
from almanac.core.logs import get_logger
from almanac.core.settings import DataDir, Project
from almanac.schemas.errors import AlmanacError, OperationalError
from almanac.serve.catalog import Catalog
from almanac.serve.keys import ApiKeys, require_safe_address
from almanac.serve.settings import Settings

_SHORT_S = 10.0  # a worker that ends sooner after its start has hardly answered anything
# workers that end, one after the other, before the server gives up, if none is left that has lived longer
_IN_A_ROW = 5
_CALM_S = 60.0  # a worker that lived longer is replaced at once
_LONGEST_PAUSE_S = 60.0  # before the next worker is started, where those before it ended
_LOOK_S = 0.5  # between two looks at whether all workers are alive
_LONGER_S = 5.0  # that a worker may take to end, beyond what it has for requests in flight
_ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_METRICS = "PROMETHEUS_MULTIPROC_DIR"  # as prometheus_client reads it when it is imported
_SHRUNK = "a file of a version shrank while it was read, as where a backup is copied over it, or its disk failed"
_log = get_logger("almanac.serve")


class Served(BaseModel):
    """What each worker makes its catalog of; arguments as for `Catalog`."""

    data: DataDir
    names: list[str] | None
    env: str | None
    project: Project

    def catalog(self) -> Catalog:
        return Catalog(self.data, self.names, self.env, project=self.project)


class _Job(BaseModel):
    """What a worker is told, by its stdin, since there are keys among the settings. `listening` is a descriptor that it
    inherits.
    """

    served: Served
    settings: dict[str, Any]
    listening: int
    shared: Path
    place: int
    is_replacement: bool

    @classmethod
    def of(
        cls,
        served: Served,
        settings: Settings,
        listening: socket.socket,
        shared: Path,
        place: int,
        *,
        is_replacement: bool,
    ) -> Self:
        told = settings.model_dump() | {"api_keys": settings.api_keys.get_secret_value()}
        return cls(
            served=served,
            settings=told,
            listening=listening.fileno(),
            shared=shared,
            place=place,
            is_replacement=is_replacement,
        )


def serve_by_workers(served: Served, settings: Settings, module: str, tell: Callable[[str], None]) -> None:
    """Serves by `settings.workers` processes until SIGTERM, SIGINT or SIGHUP, then waits until each has answered what
    it works on.

    A worker that dies is replaced by another one, which opens index and model before it accepts connections.
    Connections that nobody has accepted yet wait. Where the next one ends, too, a growing pause precedes each further
    start, and the others answer on.

    Args:
        served: The knowledge bases.
        settings: Address, keys and limits. Rates hold for all workers together, places to work and to wait for each.
        module: Module that a worker runs; it calls `work`.
        tell: Called with the URL as soon as the socket listens.

    Raises:
        UsageError: The address needs API keys, or the keys are malformed.
        OperationalError: The server cannot listen at the address, or workers end as soon as they are started, and none
            is left.
    """
    from almanac.serve.server import listening_at

    require_safe_address(settings.host, ApiKeys.of(settings.api_keys.get_secret_value()))
    with (
        tempfile.TemporaryDirectory(prefix="almanac-serve-") as shared,
        listening_at(settings, tell) as listening,
        _told_to_end() as ending,
    ):
        _keep_alive(served, settings, module, listening, Path(shared), ending)


def _keep_alive(
    served: Served, settings: Settings, module: str, listening: socket.socket, shared: Path, ending: "_Ending"
) -> None:
    """Starts the workers, and others in place of those that die, until the end is told; then ends them all."""
    begun: dict[subprocess.Popen[bytes], float] = {}
    places: dict[subprocess.Popen[bytes], int] = {}
    in_a_row, next_start = 0, 0.0

    def start(*, is_replacement: bool) -> None:
        worker = subprocess.Popen(
            [sys.executable, "-P", "-m", module],
            stdin=subprocess.PIPE,
            pass_fds=[listening.fileno()],
            env={**os.environ, _METRICS: str(shared)},
            start_new_session=True,  # Ctrl-C reaches this process alone, which passes it on
        )
        begun[worker] = time.monotonic()
        places[worker] = min({*range(settings.workers)} - {*places.values()})
        tell_job(
            worker,
            _Job.of(
                served, settings, listening, shared, places[worker], is_replacement=is_replacement
            ).model_dump_json(),
        )

    try:
        for _ in range(settings.workers):
            start(is_replacement=False)
        while not ending.wait(_LOOK_S):
            now = time.monotonic()
            for worker in [one for one in begun if one.poll() is not None]:
                lived_s = now - begun.pop(worker)
                in_a_row = in_a_row + 1 if lived_s < _CALM_S else 0
                pause_s = min(2.0 ** min(in_a_row - 2, 10), _LONGEST_PAUSE_S) if in_a_row > 1 else 0.0
                next_start = now + pause_s
                _close(worker)
                _forget_gauges(shared, worker.pid)
                del places[worker]
                told = {"finding": _SHRUNK} if worker.returncode == -signal.SIGBUS else {}
                _log.warning(
                    "worker_died",
                    pid=worker.pid,
                    exit_code=worker.returncode,
                    lived_s=round(lived_s),
                    next_in_s=round(pause_s),
                    **told,
                )
                if (
                    in_a_row >= _IN_A_ROW
                    and lived_s < _SHORT_S
                    and all(now - since < _SHORT_S for since in begun.values())
                ):
                    raise OperationalError(
                        f"{in_a_row} workers in a row ended, the last within {_SHORT_S:g} s of its start, with "
                        f"exit code {worker.returncode}",
                        where="almanac serve",
                        hint="the log above says why; --workers 1 serves in this process",
                    )
            while len(begun) < settings.workers and now >= next_start and not ending.is_told:
                start(is_replacement=True)
    finally:
        listening.close()  # else who connects from now on would wait until the last worker has ended
        _end(list(begun), settings.shutdown_s)


def _end(workers: list["subprocess.Popen[bytes]"], patience_s: float) -> None:
    """Lets workers finish what they answer, and kills those that take longer than they may."""
    for worker in workers:
        worker.terminate()
    end = time.monotonic() + patience_s + _LONGER_S
    for worker in workers:
        try:
            worker.wait(max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()
        _close(worker)


def _close(worker: "subprocess.Popen[bytes]") -> None:
    assert worker.stdin is not None
    with suppress(BrokenPipeError):
        worker.stdin.close()


class _Ending:
    """Whether the end has been told. A plain flag, since a signal's handler may interrupt whoever holds the lock of a
    `threading.Event`.
    """

    is_told = False

    def wait(self, seconds: float) -> bool:
        if not self.is_told:
            time.sleep(seconds)
        return self.is_told


@contextmanager
def _told_to_end() -> Iterator[_Ending]:
    """What SIGTERM, SIGINT and SIGHUP tell. Under nohup, SIGHUP stays ignored."""
    ending = _Ending()

    def end(_kind: int, _frame: FrameType | None) -> None:
        ending.is_told = True

    before = {kind: signal.signal(kind, end) for kind in _ENDINGS if signal.getsignal(kind) is not signal.SIG_IGN}
    try:
        yield ending
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)


def _forget_gauges(shared: Path, pid: int) -> None:
    """What a dead worker counted stays counted; what it was working on, it is no more."""
    from prometheus_client.multiprocess import mark_process_dead

    mark_process_dead(pid, str(shared))  # type: ignore[no-untyped-call]


def work() -> None:
    """What a worker does, in its own process, until SIGTERM."""
    from almanac.core.settings import quiet_engines
    from almanac.serve.server import serve_at

    faulthandler.enable(2)  # a file that shrinks under its reader ends the process at once: the log says where
    quiet_engines()
    job = _Job.model_validate_json(job_of_parent())
    catalog, settings = job.served.catalog(), Settings(**job.settings)
    if job.is_replacement:
        try:
            catalog.keep_up()  # others answer meanwhile
        except AlmanacError as error:
            _log.warning("not_ready", error=str(error))
    if serve_at(socket.socket(fileno=job.listening), catalog, settings, job.shared, job.place):
        os._exit(0)  # the interpreter would wait for the threads of what was cut off
