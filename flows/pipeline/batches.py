"""Batches of a run, done by an executor: by processes of this machine, or by workers of a cluster (flows/cluster.py).

A step does one batch, `step(run, handle, number)`, numbered from 1, and returns how much it was. What it makes is a
file that says by itself that it is done: a batch that runs twice changes nothing, and one that is done is not done
again. Each span of batches has a thread here that waits for it, and an executor of a single process, so that one that
dies takes no batch of another with it.
"""

import logging
import os
import pickle
import platform
import secrets
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, ProcessPoolExecutor, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from contextvars import copy_context
from multiprocessing import connection, get_context
from threading import Event, Thread, local
from typing import TYPE_CHECKING, Any, Protocol

import psutil  # type: ignore[import-untyped]  # ships no types

from almanac.core.durable import remove, write_file
from almanac.core.lifetime import die_with_parent
from almanac.core.processors import processors, said_of_group
from almanac.core.progress import OnProgress, ignore
from almanac.schemas.errors import AlmanacError, OperationalError, as_storage_error
from almanac.schemas.hashing import sha256

if TYPE_CHECKING:
    from almanac.flows.pipeline.run import Run

_DEATHS = 3  # of processes at the same batch, which end the run
_TRIES = 10  # to have a span done, of which processes die at many batches, or before they are at one
_LOOK_S = 1.0  # between two looks after whoever does the batches
# Of work that is left, from which on processes are started: each imports for a second or two.
_WORTH_S = 8.0
_MOST_PROCESSES = 8
_NEEDS = 500 << 20  # bytes that have to be free for each of them; it takes some 250 MB
AGAIN = "almanac run KB goes on from what is written"
Span = tuple[int, int]  # first and last batch, numbered from 1
Step = Callable[["Run", Any, int], int]
Executors = AbstractContextManager[Callable[[], Executor]]


class Batches(Protocol):
    """A handle of `count` batches, and how much they are together."""

    @property
    def count(self) -> int: ...

    @property
    def size(self) -> int: ...


class FanOut(Protocol):
    """Has all batches of a handle done by others."""

    def __call__(self, step: Step, run: "Run", handle: Any, count: int) -> Iterator[int]:
        """Yields what `step` returned, summed up for several batches, in the order in which they end.

        Raises UsageError where a worker has other code or models than the run, OperationalError where three processes
        die at the same batch, or the cluster is gone; and what the step raises.
        """


@contextmanager
def at_batch(run: "Run", name: str) -> Iterator[None]:
    """Notes in the staging folder that this process is at a batch. A note that is left tells of one that died there.

    Raises OperationalError with the name of the batch where three did.
    """
    notes = f"at-{sha256(name)[:16]}-"
    deaths = sum(1 for _ in run.staging.glob(f"{notes}*"))
    if deaths >= _DEATHS:
        hint = f"often a process lacks memory; the log of a worker says how it ended; {AGAIN}"
        raise OperationalError(f"{name} ended {deaths} processes, one after the other", where=run.kb, hint=hint)
    note = run.staging / f"{notes}{secrets.token_hex(8)}"
    write_file(note, name, synced=False)
    try:
        yield
    finally:
        remove(note, synced=False)


def spans_of(first: int, last: int, most: int) -> list[Span]:
    """The batches from `first` to `last` in `most` spans at most, which are as long as each other."""
    size = max(1, -(-(last + 1 - first) // most))
    return [(number, min(number + size - 1, last)) for number in range(first, last + 1, size)]


def span_name(what: str, span: Span) -> str:
    """The name of a task in Prefect: `map batch 3`, `embed checkpoints 1 to 4`."""
    first, last = span
    return f"{what} {first}" if first == last else f"{what}{'es' if what.endswith('ch') else 's'} {first} to {last}"


def share_out(
    step: Step,
    run: "Run",
    handle: Any,
    spans: Sequence[Span],
    executors: Executors,
    *,
    at_once: int,
    killed: type[Exception] = BrokenExecutor,
    wanted: tuple[str, dict[str, str]] | None = None,
    wrap: Callable[[Callable[[Span], int], Span], int] = lambda do, span: do(span),
    look: Callable[[], object] = lambda: None,
) -> Iterator[int]:
    """Yields what `step` returned for each span, in the order in which they end; as FanOut says.

    Args:
        spans: what is to be done
        executors: makes an executor for each thread that waits, and ends them all as it is left
        at_once: how many spans are given out at the same time
        killed: what an executor raises whose process died: the span is done again, by a new executor
        wanted: what a worker has to have, as `worker.require_same_here` takes it; nothing of processes of this machine
        wrap: calls what waits for a span, in its thread
        look: raises where nothing more is to be hoped for; called each second in which no span ends
    """
    work, own, is_over = pickle.dumps((step, run, handle)), local(), Event()
    with ThreadPoolExecutor(at_once, "almanac-batches") as threads, executors as new_executor:

        def have_done(span: Span) -> int:
            for _ in range(_TRIES):
                own.executor = getattr(own, "executor", None) or new_executor()
                try:
                    done: int = own.executor.submit(do_span, wanted, work, *span).result()
                    return done
                except killed:
                    own.executor = None
                    if is_over.is_set():
                        raise
            hint = f"its stderr, or the log of a worker, says how it ends; {AGAIN}"
            name = span_name(step.__name__.replace("_", " "), span)
            raise OperationalError(f"{name} ended {_TRIES} processes", where=platform.node(), hint=hint)

        waiting = {threads.submit(copy_context().run, wrap, have_done, span) for span in spans}
        try:
            while waiting:
                done, waiting = wait(waiting, _LOOK_S, FIRST_COMPLETED)
                for future in done:
                    yield future.result()
                if not done:
                    look()
        finally:
            is_over.set()
            for future in waiting:
                future.cancel()


def do_span(wanted: tuple[str, dict[str, str]] | None, work: bytes, first: int, last: int) -> int:
    """Does the batches from `first` to `last`, in a process of an executor, which has to have what is `wanted`.

    The call itself names next to nothing: a scheduler reads it, and a worker with other code could not read more.
    """
    try:
        if wanted is not None:
            from almanac.flows.pipeline.worker import require_same_here

            require_same_here(*wanted)
        step, run, handle = pickle.loads(work)
        if not run.staging.is_dir():
            hint = "workers share the data directory with the run, under the same path: --data DIR, or ALMANAC_DATA"
            raise OperationalError(f"the worker does not see {run.staging}", where=platform.node(), hint=hint)
        with as_storage_error(run.data.root):
            return sum(step(run, handle, number) for number in range(first, last + 1))
    except AlmanacError:
        raise
    except Exception:  # a defect; not every exception can be sent, nor does one keep its traceback
        raise RuntimeError(traceback.format_exc()) from None


def do_all(
    step: Step,
    run: "Run",
    batches: Batches | None,
    workers: FanOut | None = None,
    on_progress: OnProgress = ignore,
) -> int:
    """Has workers do all batches, or this machine; tells how much is done, and returns it: 0 of None."""
    done = 0
    if batches is None:
        return done
    for more in (workers or do_here)(step, run, batches, batches.count):
        done += more
        on_progress(done, batches.size)
    return done


def do_here(step: Step, run: "Run", handle: Any, count: int) -> Iterator[int]:
    """As FanOut says, in this process, and from where that pays in as many as there are processors and room for."""
    began = time.monotonic()
    for number in range(1, count + 1):
        yield step(run, handle, number)
        left_s = (time.monotonic() - began) / number * (count - number)
        if left_s > _WORTH_S and (processes := _processes()) > 1:
            rest = spans_of(number + 1, count, count)
            yield from share_out(step, run, handle, rest, _children(), at_once=processes)
            return


def _processes() -> int:
    """How many may work: as many as there are cores that a container may use, and room for."""
    free = int(psutil.virtual_memory().available)
    most, used = said_of_group("memory.max").strip(), said_of_group("memory.current").strip()
    if most.isdigit() and used.isdigit():
        free = min(free, int(most) - int(used))
    return max(1, min(processors(), _MOST_PROCESSES, free // _NEEDS))


@contextmanager
def _children() -> Iterator[Callable[[], Executor]]:
    """Yields what makes an executor of one process, which ends with the block or with this process, however that
    ends.
    """
    spawn, made, is_safe = get_context("spawn"), list[Executor](), "PYTHONSAFEPATH" in os.environ
    theirs, ours = spawn.Pipe(duplex=False)

    def new() -> Executor:
        made.append(ProcessPoolExecutor(1, spawn, _begin, (theirs,)))
        return made[-1]

    # else a file of the current folder would stand in for a library
    os.environ.setdefault("PYTHONSAFEPATH", "1")
    try:
        yield new
    finally:
        ours.close()  # ends them
        for executor in made:
            executor.shutdown()
        theirs.close()
        if not is_safe:
            del os.environ["PYTHONSAFEPATH"]


def _begin(parents: connection.Connection) -> None:
    """In a child: Ctrl-C is the run's alone, and what is logged is the run's log."""
    from almanac.core.logs import log_through_stdlib
    from almanac.core.settings import quiet_engines

    def end() -> None:
        connection.wait([parents])
        os._exit(1)

    die_with_parent()
    Thread(target=end, name="almanac-parent", daemon=True).start()
    os.setsid()
    quiet_engines()
    log_through_stdlib()
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", datefmt="%H:%M:%S", level=logging.WARNING)
