"""Batches of a run on a Dask cluster, by Prefect's Dask task runner: each span of batches is a task in Prefect, and
done by a worker.

Workers share the data directory with the run, on one host or by a file system, and nothing else. As many spans are
given out as there are threads. A worker that dies takes no other batch with it than the one that it was at. Dask gives
its span to another worker; where a batch ends three of them, so does the run, whatever the scheduler's
`allowed-failures` says. If the scheduler is lost, the run ends, and the next one goes on from the files that are
written.
"""

import gc
import logging
import pickle
import re
import time
from asyncio import CancelledError
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from math import ceil
from pathlib import Path
from threading import Event, Thread
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.context import FlowRunContext, SettingsContext
from prefect.events.worker import EventsWorker
from prefect.settings import Settings
from prefect.utilities.annotations import opaque
from prefect.utilities.engine import collect_task_run_inputs_sync
from pydantic import Field

from almanac.core.extras import require_extra
from almanac.core.settings import dask_cluster
from almanac.flows.pipeline.embed import embed_batches
from almanac.flows.pipeline.fan_out import DEATHS, FanOut, Span, Unfinished, most_tasks, span_name
from almanac.flows.pipeline.item_batches import cut_batches
from almanac.flows.pipeline.page_batches import map_batches
from almanac.flows.pipeline.run import Run
from almanac.flows.pipeline.segments import make_segments_of
from almanac.flows.pipeline.worker import SAME, SEES, Abilities, abilities, answer, get_ready, require_equal
from almanac.schemas.declaration import Declaration
from almanac.schemas.declaration.embed import Embed
from almanac.schemas.errors import AlmanacError, OperationalError, UsageError

_VARIABLE = "ALMANAC_DASK"
_CONNECT_S, _WORKERS_S = 20, 60
_LOOK_S = 0.02  # between two looks whether a worker has come
_WAIT_S = 0.2  # at most, for a span to end
_READ_S = 1.0  # for a result, which is small
_SENT_S = 5.0  # within which workers have sent what Prefect is to know of the run
_LOOK_AGAIN_S = 1.0  # after which it is looked who the workers are
_CANCELLED = re.compile(r"^\S+ cancelled for reason: |\.$")  # with the key of the task, which nobody knows
_LOCAL = re.compile(r"local\[([1-9]\d*)\]")
_GPU = "GPU"  # what workers declare where they have it: dask worker --resources GPU=1
_AGAIN = "almanac run KB goes on from what is written"
# of the short batches that wait, a worker gets its share over so many turns, and from so many to so many at once
_TURNS, _FEW, _MANY = 1.5, 4, 20
_COMING = 2  # places that there will be at least, presumably: workers come one by one
_TASKS = {
    map_batches: "map batch",
    cut_batches: "cut batch",
    embed_batches: "embed checkpoint",
    make_segments_of: "make segment",
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
    cluster = _Cluster(_options(declaration))
    try:
        yield cluster.fan_out
    finally:
        cluster.close()


def prepare_cluster(declaration: Declaration) -> None:
    """Where the run is to have a cluster: imports what reaches it, reads what workers have to have, and has it get
    ready. Raises nothing.
    """
    if declaration.run.engine == "local":
        return
    with suppress(Exception):  # told when the run begins
        import_module("prefect_dask.task_runners")
        if address := _options(declaration).get("address"):
            Thread(target=_get_cluster_ready, args=(address,), name="almanac-cluster", daemon=True).start()
        abilities(declaration.embed)


def _get_cluster_ready(address: str) -> None:
    """Asks scheduler and workers to do what they begin with. The run may end meanwhile: it waits for no cluster that it
    needs nothing of.
    """
    is_asked = False
    with suppress(Exception, CancelledError):
        from distributed import Client

        _quieten()
        with Client(address, timeout=_CONNECT_S, set_as_default=False) as client:  # type: ignore[no-untyped-call]
            client.run(get_ready, on_error="ignore")
            is_asked = True
            client.run_on_scheduler(get_ready)
    if not is_asked:
        # a client that was made halfway would be closed as the process ends, and wait 40 s for its loop, which has
        # ended by then
        gc.collect()


def _options(declaration: Declaration) -> dict[str, Any]:
    """The arguments of DaskTaskRunner."""
    require_extra("dask", "run.engine: dask", str(declaration.path), "engine: local")
    address = dask_cluster()
    hint = f"{_VARIABLE}=tcp://HOST:PORT names a scheduler, {_VARIABLE}=local[2] starts two workers on this machine"
    if address is None:
        raise UsageError(f"run.engine: dask, and {_VARIABLE} names no cluster", where=str(declaration.path), hint=hint)
    if local := _LOCAL.fullmatch(address):
        kept = {
            "n_workers": int(local[1]),
            "threads_per_worker": 1,
            "processes": True,
            "host": "127.0.0.1",
            "dashboard_address": None,
        }
        return {
            "cluster_class": "distributed.LocalCluster",
            "cluster_kwargs": {**kept, "silence_logs": logging.CRITICAL},
        }
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
        self._looked_at = self._had_one_at = 0.0
        self._sent: _SentAlike | None = None

    def fan_out(
        self,
        step: Callable[..., Any],
        run: Run,
        batches: Any,
        spans: Sequence[Span],
        unfinished: Callable[[int, int], Unfinished],
    ) -> Iterator[Any]:
        """As FanOut says."""
        if not spans:
            return
        wanted, wants = abilities(run.embed), _resource_for(step, run)
        least = ceil(len(spans) / most_tasks(run))
        with self._as_operational():
            self._connect(run.embed, wanted, run.staging)
        waiting, running, ended = [(span, DEATHS) for span in reversed(spans)], dict[Any, _Given](), Event()
        try:
            while waiting or running:
                ended.clear()
                finished = [running.pop(future) for future in tuple(running) if future.status != "pending"]
                with self._as_operational():  # first, so that no worker waits until what another one has done is read
                    places = self._places(wants)
                    while waiting and len(running) < places:
                        span, deaths = _taken(
                            waiting, _at_once(len(waiting), places, least, are_short=_is_short(step, run))
                        )
                        given = self._give(step, run, batches, span, wanted, deaths, wants)
                        given.future.add_done_callback(lambda _: ended.set())
                        running[given.future] = given
                for given in finished:
                    try:
                        result = self._read(given)
                    except TimeoutError:
                        running[given.future] = given
                        continue
                    except _KilledError as killed:
                        at = unfinished(*given.span)
                        if at.deaths >= DEATHS:
                            hint = f"the worker's log says how: often it lacked memory; {_AGAIN}"
                            raise OperationalError(
                                f"{at.name} ended {at.deaths} workers, one after the other",
                                where=killed.worker,
                                hint=hint,
                            ) from killed
                        waiting.append((given.span, DEATHS - at.deaths))  # they died at other batches of the span
                        self._looked_at = 0.0
                        continue
                    yield result
                if not finished:
                    ended.wait(_WAIT_S)
        finally:
            for future in running:
                with suppress(Exception, CancelledError):  # a cluster that is gone has nothing to cancel
                    future.cancel()

    def close(self) -> None:
        """Ends the connection, and the workers of `local[N]`."""
        if self._runner is not None:
            self._have_events_sent(_SENT_S)
            with suppress(Exception):  # what was done is written, and a cluster that is gone cannot be told
                self._runner.__exit__(None, None, None)
            self._runner = None

    def _have_events_sent(self, seconds: float) -> None:
        """Waits until workers have sent what Prefect is to know of a run, or so many seconds. Raises nothing: neither
        workers nor Prefect may be there.
        """
        client = self._runner._client
        if client is None or client.status != "running":
            return

        def ask() -> None:
            with suppress(Exception, CancelledError):
                client.run(_send_events, seconds, on_error="ignore")

        asking = Thread(target=ask, name="almanac-events", daemon=True)
        asking.start()
        asking.join(seconds)

    def _connect(self, embed: Embed, wanted: Abilities, probe: Path) -> None:
        """Connects, once, and asks every worker what it has."""
        if self._runner is not None:
            return
        from prefect_dask.task_runners import DaskTaskRunner

        _quieten()
        self._runner = DaskTaskRunner(**self._options)
        self._runner.__enter__()
        client = self._runner.client
        client.register_plugin(_deaths_allowed(), name="almanac-deaths")
        self._had_one_at = time.monotonic()
        while not self._look():
            time.sleep(_LOOK_S)
        self._have_events_sent(_LOOK_S)  # of a run that was killed, to an API that is gone with it
        for worker, has in client.run(answer, embed.model_dump_json(), str(probe), on_error="return").items():
            if isinstance(has, BaseException):
                raise UsageError(
                    f"the worker cannot say what it has: {type(has).__name__}: {has}", where=worker, hint=SAME
                )
            if not has.pop(SEES):
                hint = "workers share the data directory with the run, under the same path: --data DIR, or ALMANAC_DATA"
                raise OperationalError(f"the worker does not see {probe}", where=worker, hint=hint)
            require_equal(f"worker {worker}", has, wanted)

    def _look(self) -> dict[str, Any]:
        """The workers that there are now, by address. Raises OperationalError where there has been none for a
        minute.
        """
        self._workers = self._runner.client.scheduler_info(n_workers=-1)["workers"]
        self._looked_at = time.monotonic()
        if self._workers:
            self._had_one_at = self._looked_at
        elif self._looked_at > self._had_one_at + _WORKERS_S:
            hint = f"start one: dask worker {self._address} --nthreads 1; {_AGAIN}"
            raise OperationalError(
                f"the Dask cluster has had no worker for {_WORKERS_S} s", where=self._address, hint=hint
            )
        return self._workers

    def _places(self, wants: str) -> int:
        """How many spans workers can be at: as many as they have threads or, where some declare the resource that is
        wanted, as many as they have of it.
        """
        if time.monotonic() - self._looked_at > _LOOK_AGAIN_S:
            self._look()
        workers = self._workers.values()
        return int(sum(worker["resources"].get(wants, 0) for worker in workers)) or sum(
            worker["nthreads"] for worker in workers
        )

    def _give(
        self, step: Callable[..., Any], run: Run, batches: Any, span: Span, wanted: Abilities, deaths: int, wants: str
    ) -> "_Given":
        from dask.base import annotate

        is_declared = any(worker["resources"].get(wants) for worker in self._workers.values())
        with annotate(almanac_deaths=deaths), annotate(resources={wants: 1}) if is_declared else nullcontext():
            work = _Work(step, (run, batches, *span, wanted))
            if FlowRunContext.get() is None:  # Prefect is gone, and the run goes on
                future = self._runner.client.submit(work.do, pure=False)
                return _Given(span, future, _itself)
            name = span_name(_TASKS[step], span)
            carried = task(name=_TASKS[step], task_run_name=name, cache_policy=NO_CACHE, persist_result=False)(_do)
            taken = collect_task_run_inputs_sync(opaque(batches))
            with self._settings():
                given = self._runner.submit(carried, {"work": work}, dependencies={"work": taken})
            return _Given(span, given.wrapped_future, _result_of)

    def _settings(self) -> "_SentAlike":
        """Prefect's settings as they are now."""
        now = SettingsContext.get()
        assert now is not None  # there are always the process's own
        if self._sent is None or self._sent.settings is not now.settings:
            self._sent = _SentAlike.of(now)
        return self._sent

    def _read(self, given: "_Given") -> Any:
        """The result of a span that has ended.

        Raises what the step raised, _KilledError where so many workers died that no other gets it, and TimeoutError
        where the worker that had the result died: the span is done again as soon as there is a worker, which may be
        never.
        """
        from distributed import KilledWorker

        status = given.future.status
        try:
            result = given.future.result(timeout=_READ_S)
        except KilledWorker as error:
            raise _KilledError(f"worker {error.last_worker.address}") from error
        except (Exception, CancelledError) as error:
            if status == "error" or isinstance(error, TimeoutError):
                raise
            raise self._lost(error) from error  # then all futures are cancelled
        return given.unwrapped(result)

    @contextmanager
    def _as_operational(self) -> Iterator[None]:
        """Converts what a request to the cluster raises.

        A broken connection shows in the request before the client's status says so.
        """
        try:
            yield
        except AlmanacError:
            raise
        except (OSError, CancelledError) as error:
            raise self._lost(error) from error
        except Exception as error:
            if self._runner is None or (self._runner._client is not None and self._runner._client.status == "running"):
                raise  # a defect
            raise self._lost(error) from error

    def _lost(self, error: BaseException) -> OperationalError:
        told = _CANCELLED.sub("", next(iter(str(error).splitlines()), "")) or type(error).__name__
        hint = f"look after the scheduler, or start another, and its workers, which end with it; {_AGAIN}"
        return OperationalError(f"the Dask cluster does not answer: {told}", where=self._address, hint=hint)


def _is_short(step: Callable[..., Any], run: Run) -> bool:
    """Whether a batch of a step takes a second or less, which a task costs a tenth of in Prefect. To find topics, texts
    are embedded.
    """
    return step is map_batches or (step is cut_batches and run.declaration.chunk.by != "semantic")


def _at_once(waiting: int, places: int, least: int, *, are_short: bool) -> int:
    """How many of the batches that wait are given to a worker as one: in the end its even share, so that workers end
    together.

    Before, it is `least`, or of short batches more: first many, and fewer and fewer. Never so many that workers which
    come later have nothing left to do.
    """
    some = max(_FEW, least, min(_MANY, ceil(waiting / (_TURNS * max(_COMING, places))))) if are_short else least
    return min(some, ceil(waiting / places))


def _taken(waiting: list[tuple[Span, int]], most: int) -> tuple[Span, int]:
    """Takes the next span, and as many of those that follow it as may be given out as one; none is joined to one at
    which workers died.
    """
    (first, last), deaths = waiting.pop()
    for _ in range(most - 1):
        if not waiting or (waiting[-1][0][0], waiting[-1][1], DEATHS) != (last + 1, deaths, deaths):
            break
        (_, last), _ = waiting.pop()
    return (first, last), deaths


def _resource_for(step: Callable[..., Any], run: Run) -> str:
    """The resource that a step wants where workers declare it: a GPU for what embeds, which documents cut by topic are,
    too; else none.
    """
    return _GPU if step is embed_batches or (step is cut_batches and run.declaration.chunk.by == "semantic") else ""


class _SentAlike(SettingsContext):
    """Prefect's settings, which go to workers with each task: taken apart once, and read by each worker once, who
    completes them by its own environment.

    Prefect would do both for each task, which takes forty milliseconds instead of one.
    """

    taken_apart: bytes = Field(repr=False)

    @classmethod
    def of(cls, settings: SettingsContext) -> "_SentAlike":
        return cls(profile=settings.profile, settings=settings.settings, taken_apart=pickle.dumps(settings.serialize()))

    # as Prefect has it, whose tasks carry secrets, too
    def serialize(self, include_secrets: bool = True) -> dict[str, Any]:  # noqa: ARG002
        return {"profile": self.profile, "settings": _TakenApart(self.taken_apart)}


class _TakenApart:
    """What becomes settings where it is unpickled."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def __reduce__(self) -> tuple[Callable[[bytes], Settings], tuple[bytes]]:
        return _put_together, (self._content,)


@lru_cache(maxsize=4)
def _put_together(content: bytes) -> Settings:
    return SettingsContext(**pickle.loads(content)).settings


class _KilledError(Exception):
    """As many workers died while they had a span as may die."""

    def __init__(self, worker: str) -> None:
        super().__init__(worker)
        self.worker = worker


def _deaths_allowed() -> Any:
    """A plugin of the scheduler that gives a task up with the death that its annotation names. Other tasks have what
    `allowed-failures` says.

    A local class: `distributed` is imported only where a run is to have a cluster.
    """
    from distributed import SchedulerPlugin

    class DeathsAllowed(SchedulerPlugin):
        idempotent = True  # one for all runs

        def update_graph(self, scheduler: Any, *, annotations: Any, **_: Any) -> None:
            for key, deaths in annotations.get("almanac_deaths", {}).items():
                scheduler.tasks[key].suspicious = scheduler.allowed_failures + 1 - deaths

    return DeathsAllowed()


class _Work:
    """A call of a step. No dataclass or tuple: Prefect and Dask search these for results of other tasks, and mistake
    equal numbers for such results.
    """

    def __init__(self, step: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self._step, self._arguments = step, arguments

    def do(self) -> Any:
        return self._step(*self._arguments)


def _do(work: _Work) -> Any:
    return work.do()


async def _send_events(patience_s: float) -> None:
    """Sends what Prefect has noted of a run, and ends the connection to the run's API: the next run may have another
    one, and Prefect would keep the first.
    """
    sending: Any = EventsWorker.drain_all(timeout=patience_s, at_exit=False)
    await sending


def _itself(result: Any) -> Any:
    return result


def _result_of(state: Any) -> Any:
    """What a task of Prefect returned; raises what it raised."""
    return state.result(_sync=True)


@dataclass(frozen=True)
class _Given:
    """A span that was given to the cluster: Dask's future, and what makes the step's result of the future's."""

    span: Span
    future: Any
    unwrapped: Callable[[Any], Any]


def _quieten() -> None:
    """Dask writes what happens to its connections on stderr; what matters of it becomes an error."""
    import distributed  # noqa: F401  # sets the levels that are changed here

    for name in [
        name for name in list(logging.root.manager.loggerDict) if name.partition(".")[0] in ("distributed", "tornado")
    ]:
        logging.getLogger(name).setLevel(logging.CRITICAL)
