"""Batches of a run on a Dask cluster, through the executor that its client gives: each span of batches is a task in
Prefect, which waits for it.

Workers share the data directory with the run, on one host or by a file system, and nothing else. Of a worker that dies,
Dask gives what it had to another one; the notes of batches (flows/pipeline/batches.py) tell at which they died. If the
scheduler is lost, the run ends, and the next one goes on from the files that are written.
"""

import logging
import re
import time
from asyncio import CancelledError as Cancelled
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor
from contextlib import contextmanager, suppress
from typing import Any

from almanac.core.extras import require_extra
from almanac.core.settings import dask_cluster
from almanac.flows.pipeline.batches import AGAIN, FanOut, Span, Step, share_out, span_name, spans_of
from almanac.flows.pipeline.embed import embed_batch
from almanac.flows.pipeline.item_batches import cut_batch
from almanac.flows.pipeline.page_batches import map_batch
from almanac.flows.pipeline.run import Run
from almanac.flows.pipeline.segment_batches import make_segment_of
from almanac.flows.pipeline.worker import SAME, abilities
from almanac.flows.steps import StepTask
from almanac.schemas.declaration import Declaration
from almanac.schemas.errors import AlmanacError, OperationalError, UsageError

_VARIABLE = "ALMANAC_DASK"
_CONNECT_S, _WORKERS_S = 20, 60
_LOOK_S = 0.1  # between two looks whether a worker has come
_HERE: dict[str, Any] = {
    "threads_per_worker": 1,
    "processes": True,
    "host": "127.0.0.1",
    "dashboard_address": None,
    "silence_logs": logging.CRITICAL,
}
_LOCAL = re.compile(r"local\[([1-9]\d*)\]")
_GPU = "GPU"  # what workers declare where they have it: dask worker --resources GPU=1
# Spans of a step, which are tasks in Prefect: for few threads, and for each thread, so that workers end together.
_SPANS, _SPANS_EACH = 40, 6
_TASKS: dict[Step, str] = {
    map_batch: "map batch",
    cut_batch: "cut batch",
    embed_batch: "embed checkpoint",
    make_segment_of: "make segment",
}


@contextmanager
def fan_out_of(declaration: Declaration) -> Iterator[FanOut | None]:
    """Yields what has batches done by the cluster's workers; None with `engine: local`. A run that has no work for them
    needs no cluster.

    Raises UsageError where the extra `dask` is not installed, or ALMANAC_DASK is missing or malformed.
    """
    if declaration.run.engine == "local":
        yield None
        return
    cluster = _Cluster(_address(declaration))
    try:
        yield cluster.fan_out
    finally:
        cluster.close()


def _address(declaration: Declaration) -> str:
    require_extra("dask", "run.engine: dask", str(declaration.path), "engine: local")
    address = dask_cluster()
    hint = f"{_VARIABLE}=tcp://HOST:PORT names a scheduler, {_VARIABLE}=local[2] starts two workers on this machine"
    if address is None:
        raise UsageError(f"run.engine: dask, and {_VARIABLE} names no cluster", where=str(declaration.path), hint=hint)
    if not _LOCAL.fullmatch(address) and not re.fullmatch(r"(tcp|tls)://[^/\s]+:\d+", address):
        raise UsageError("is no address of a Dask cluster", where=f"{_VARIABLE}={address}", hint=hint)
    return address


class _Cluster:
    """The connection to a cluster, made when the first batches are there."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._client: Any = None
        self._had_worker_at = 0.0

    def fan_out(self, step: Step, run: Run, handle: Any, count: int) -> Iterator[int]:
        """As FanOut says."""
        if not count:
            return
        with self._as_operational():
            workers = self._connect()
            from distributed import KilledWorker

            yield from share_out(
                step,
                run,
                handle,
                spans := spans_of(1, count, max(_SPANS, _SPANS_EACH * sum(worker["nthreads"] for worker in workers))),
                self._executors(_resources(step, run, workers)),
                at_once=len(spans),
                killed=KilledWorker,
                wanted=(run.embed.model_dump_json(), abilities(run.embed)),
                wrap=_as_task(step, handle),
                look=self._require_workers,
            )

    def close(self) -> None:
        """Ends the connection, and the workers of `local[N]`."""
        with suppress(Exception, Cancelled):  # what was done is written, and a cluster that is gone cannot be told
            if self._client is not None:
                self._client.close()

    def _connect(self) -> list[dict[str, Any]]:
        """Connects, once; returns the workers, as soon as there is one."""
        if self._client is None:
            import distributed

            _quieten()
            local = _LOCAL.fullmatch(self._address)
            place = {**_HERE, "n_workers": int(local[1])} if local else {"address": self._address}
            self._client = distributed.Client(**place, timeout=_CONNECT_S, set_as_default=False)  # type: ignore[no-untyped-call]
        self._had_worker_at = time.monotonic()
        while not (workers := self._require_workers()):
            time.sleep(_LOOK_S)
        return workers

    def _require_workers(self) -> list[dict[str, Any]]:
        """The workers that there are now. Raises OperationalError where there has been none for a minute."""
        workers = list(self._client.scheduler_info(n_workers=-1)["workers"].values())
        if workers:
            self._had_worker_at = time.monotonic()
        elif time.monotonic() > self._had_worker_at + _WORKERS_S:
            hint = f"start one: dask worker {self._address} --nthreads 1; {AGAIN}"
            raise OperationalError(
                f"the Dask cluster has had no worker for {_WORKERS_S} s", where=self._address, hint=hint
            )
        return workers

    @contextmanager
    def _executors(self, resources: dict[str, int] | None) -> Iterator[Callable[[], Executor]]:
        executor: Executor = self._client.get_executor(pure=False, resources=resources)
        try:
            yield lambda: executor
        finally:
            with suppress(Exception, Cancelled):  # a cluster that is gone has nothing to cancel
                executor.shutdown(wait=False)

    @contextmanager
    def _as_operational(self) -> Iterator[None]:
        """Converts what a request to the cluster raises, and what a worker that cannot read a call."""
        try:
            yield
        except (AlmanacError, GeneratorExit):
            raise
        except (ImportError, AttributeError) as error:
            raise UsageError(f"a worker cannot read a batch: {error}", where=self._address, hint=SAME) from error
        except (OSError, CancelledError, Cancelled) as error:
            raise self._lost(error) from error
        except Exception as error:
            if self._client is None or self._client.status == "running":
                raise  # a defect
            raise self._lost(error) from error

    def _lost(self, error: BaseException) -> OperationalError:
        message = next(iter(str(error).splitlines()), "") or type(error).__name__
        hint = f"look after the scheduler, or start another, and its workers, which end with it; {AGAIN}"
        return OperationalError(f"the Dask cluster does not answer: {message}", where=self._address, hint=hint)


def _resources(step: Step, run: Run, workers: list[dict[str, Any]]) -> dict[str, int] | None:
    """A GPU, where workers declare one, for what embeds; documents cut by topic are embedded, too."""
    embeds = step is embed_batch or (step is cut_batch and run.declaration.chunk.by == "semantic")
    return {_GPU: 1} if embeds and any(worker["resources"].get(_GPU) for worker in workers) else None


def _as_task(step: Step, handle: Any) -> Callable[[Callable[[Span], int], Span], int]:
    """Has a span be a task of Prefect."""

    def wait_for(have_done: Callable[[Span], int], span: Span) -> int:
        name = _TASKS[step]
        return StepTask(lambda _batches: have_done(span), name=name, task_run_name=span_name(name, span))(handle)

    return wait_for


def _quieten() -> None:
    """Dask writes what happens to its connections on stderr; what matters of it becomes an error."""
    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] in ("distributed", "tornado"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
