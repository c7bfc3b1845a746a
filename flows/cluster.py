"""Batches of a run on a Dask cluster, by Prefect's Dask task runner: each span of batches is a task in Prefect, and done by a worker.

Workers share the data directory with the run, on one host or by a file system, and nothing else. As many spans are given out as there are threads, so that a
worker that dies takes no other batch with it than those that it was at. Dask gives these to another worker; one that ends four workers is given up, the
number that the scheduler's `allowed-failures` sets. If the scheduler is lost, the run ends, and the next one goes on from the files that are written.
"""

import logging
import re
import time
from asyncio import CancelledError
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.context import FlowRunContext
from prefect.utilities.annotations import opaque
from prefect.utilities.engine import collect_task_run_inputs_sync

from almanac.core.settings import dask_cluster
from almanac.flows.pipeline.embed import embed_batches
from almanac.flows.pipeline.fan_out import FanOut, Span, span_name
from almanac.flows.pipeline.page_batches import map_batches
from almanac.flows.pipeline.run import Run
from almanac.flows.pipeline.worker import SAME, SEES, Abilities, abilities, answer, require_equal
from almanac.schemas.declaration import Declaration
from almanac.schemas.declaration.embed import Embed
from almanac.schemas.errors import AlmanacError, OperationalError, UsageError

_VARIABLE = "ALMANAC_DASK"
_CONNECT_S, _WORKERS_S = 20, 60
_LOOK_S = 0.02  # between two looks at what has finished
_LOOK_AGAIN_S = 1.0  # after which it is looked who the workers are
_LOCAL = re.compile(r"local\[([1-9]\d*)\]")
_WANTS = {embed_batches: "GPU"}  # the resource that workers declare where they have it: dask worker --resources GPU=1
_AGAIN = "almanac run KB goes on from what is written"
_TASKS = {map_batches: "map batch", embed_batches: "embed checkpoint"}


@contextmanager
def fan_out_of(declaration: Declaration) -> Iterator[FanOut | None]:
    """Yields what has batches done by the cluster's workers; None with `engine: local`. Nothing is connected to before there is work.

    Raises UsageError where the extra `dask` is not installed, or ALMANAC_DASK is missing or malformed.
    """
    if declaration.run.engine == "local":
        yield None
        return
    cluster = _Cluster(_options(declaration))
    try:
        yield cluster.fan_out
    finally:
        cluster.close()


def _options(declaration: Declaration) -> dict[str, Any]:
    """The arguments of DaskTaskRunner."""
    missing = [name for name in ("prefect_dask", "distributed") if find_spec(name) is None]
    if missing:
        hint = "pip install 'almanac[dask]', with requirements.lock as constraints; or engine: local"
        raise UsageError(f"run.engine: dask needs the extra 'dask', and {missing[0]} is not installed", where=str(declaration.path), hint=hint)
    address = dask_cluster()
    hint = f"{_VARIABLE}=tcp://HOST:PORT names a scheduler, {_VARIABLE}=local[2] starts two workers on this machine"
    if address is None:
        raise UsageError(f"run.engine: dask, and {_VARIABLE} names no cluster", where=str(declaration.path), hint=hint)
    if local := _LOCAL.fullmatch(address):
        kept = {"n_workers": int(local[1]), "threads_per_worker": 1, "processes": True, "host": "127.0.0.1", "dashboard_address": None}
        return {"cluster_class": "distributed.LocalCluster", "cluster_kwargs": {**kept, "silence_logs": logging.CRITICAL}}
    if not re.fullmatch(r"(tcp|tls)://[^/\s]+:\d+", address):
        raise UsageError("is no address of a Dask cluster", where=f"{_VARIABLE}={address}", hint=hint)
    return {"address": address, "client_kwargs": {"timeout": _CONNECT_S}}


class _Cluster:
    """The connection to a cluster, made when the first batches are there."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options
        self._address = options.get("address") or f"local[{options['cluster_kwargs']['n_workers']}]"
        self._runner: Any = None
        self._workers: dict[str, Any] = {}
        self._looked_at = 0.0

    def fan_out(self, step: Callable[..., Any], run: Run, batches: Any, spans: Sequence[Span], name: Callable[[int, int], str]) -> Iterator[Any]:
        """As FanOut says."""
        if not spans:
            return
        wanted = abilities(run.embed)
        with self._as_operational():
            self._connect(run.embed, wanted, batches.table)
        waiting, running = list(reversed(spans)), dict[Any, _Given]()
        try:
            while waiting or running:
                with self._as_operational():
                    free = self._places(step) - len(running)
                    for span in [waiting.pop() for _ in range(min(free, len(waiting)))]:
                        given = self._give(step, run, batches, span, wanted)
                        running[given.future] = given
                finished = [future for future in running if future.status != "pending"]
                for future in finished:
                    given = running.pop(future)
                    with self._as_operational(partial(name, *given.span)):
                        result = given.read()
                    yield result
                if not finished:
                    time.sleep(_LOOK_S)
        finally:
            for future in running:
                with suppress(Exception, CancelledError):  # a cluster that is gone has nothing to cancel
                    future.cancel()

    def close(self) -> None:
        """Ends the connection, and the workers of `local[N]`."""
        if self._runner is not None:
            with suppress(Exception):  # what was done is written, and a cluster that is gone cannot be told
                self._runner.__exit__(None, None, None)
            self._runner = None

    def _connect(self, embed: Embed, wanted: Abilities, probe: Path) -> None:
        """Connects, once, and asks every worker what it has."""
        if self._runner is not None:
            return
        from prefect_dask.task_runners import DaskTaskRunner

        _quieten()
        self._runner = DaskTaskRunner(**self._options)
        self._runner.__enter__()
        client = self._runner.client
        self._wait_for_a_worker()
        for worker, has in client.run(answer, embed.model_dump_json(), str(probe), on_error="return").items():
            if isinstance(has, BaseException):
                raise UsageError(f"the worker cannot say what it has: {type(has).__name__}: {has}", where=worker, hint=SAME)
            if not has.pop(SEES):
                hint = "workers share the data directory with the run, under the same path: --data DIR, or ALMANAC_DATA"
                raise OperationalError(f"the worker does not see {probe}", where=worker, hint=hint)
            require_equal(f"worker {worker}", has, wanted)

    def _wait_for_a_worker(self) -> None:
        deadline = time.monotonic() + _WORKERS_S
        while not self._look():
            if time.monotonic() > deadline:
                hint = f"start one: dask worker {self._address} --nthreads 1; {_AGAIN}"
                raise OperationalError(f"the Dask cluster has had no worker for {_WORKERS_S} s", where=self._address, hint=hint)
            time.sleep(_LOOK_S)

    def _look(self) -> dict[str, Any]:
        """The workers that there are now, by address."""
        self._workers = self._runner.client.scheduler_info(n_workers=-1)["workers"]
        self._looked_at = time.monotonic()
        return self._workers

    def _places(self, step: Callable[..., Any]) -> int:
        """How many spans workers can be at: as many as they have threads or, where some declare what the step wants, as many as they have of that."""
        if time.monotonic() - self._looked_at > _LOOK_AGAIN_S and not self._look():
            self._wait_for_a_worker()
        workers = self._workers.values()
        return int(sum(worker["resources"].get(_WANTS.get(step), 0) for worker in workers)) or sum(worker["nthreads"] for worker in workers)

    def _give(self, step: Callable[..., Any], run: Run, batches: Any, span: Span, wanted: Abilities) -> "_Given":
        from dask.base import annotate

        wants = _WANTS.get(step)
        is_declared = any(worker["resources"].get(wants) for worker in self._workers.values())
        with annotate(resources={wants: 1}) if is_declared else nullcontext():
            work = _Work(step, (run, batches, *span, wanted))
            if FlowRunContext.get() is None:  # Prefect is gone, and the run goes on
                future = self._runner.client.submit(work.do, pure=False)
                return _Given(span, future, future.result)
            name = span_name(_TASKS[step], span)
            carried = task(name=_TASKS[step], task_run_name=name, cache_policy=NO_CACHE, persist_result=False)(_do)
            taken = collect_task_run_inputs_sync(opaque(batches))
            given = self._runner.submit(carried, {"work": work}, dependencies={"work": taken})
            return _Given(span, given.wrapped_future, given.result)

    @contextmanager
    def _as_operational(self, name: Callable[[], str] | None = None) -> Iterator[None]:
        """Converts what Dask raises. `name` names the batch that is read."""
        from distributed import KilledWorker

        try:
            yield
        except KilledWorker as error:
            finding = f"{name() if name else 'a batch'} ended {error.allowed_failures + 1} workers, one after the other"
            hint = f"the worker's log says how: often it lacked memory; {_AGAIN}"
            raise OperationalError(finding, where=f"worker {error.last_worker.address}", hint=hint) from error
        except CancelledError as error:  # what was given out, when the scheduler is gone
            raise self._lost(error) from error
        except AlmanacError:
            raise
        except Exception as error:
            if self._runner is None or (self._runner._client is not None and self._runner._client.status == "running"):
                raise  # of the step, or a defect
            raise self._lost(error) from error

    def _lost(self, error: BaseException) -> OperationalError:
        told = next(iter(str(error).splitlines()), "") or type(error).__name__
        return OperationalError(f"the Dask cluster does not answer: {told}", where=self._address, hint=f"look after the scheduler, or start another; {_AGAIN}")


class _Work:
    """A call of a step. No dataclass or tuple: Prefect and Dask search these for results of other tasks, and mistake equal numbers for such results."""

    def __init__(self, step: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self._step, self._arguments = step, arguments

    def do(self) -> Any:
        return self._step(*self._arguments)


def _do(work: _Work) -> Any:
    return work.do()


@dataclass(frozen=True)
class _Given:
    """A span that was given to the cluster: Dask's future, and what reads its result or raises its error."""

    span: Span
    future: Any
    read: Callable[[], Any]


def _quieten() -> None:
    """Dask writes what happens to its connections on stderr; what matters of it becomes an error."""
    import distributed  # noqa: F401  # sets the levels that are changed here

    for name in [name for name in logging.root.manager.loggerDict if name.partition(".")[0] in ("distributed", "tornado")]:
        logging.getLogger(name).setLevel(logging.CRITICAL)
