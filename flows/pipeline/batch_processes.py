"""Batches done on all cores of this machine: by this process, and by children once it turns out that there is enough to
do for them.

A child costs a second or two before its first batch, on a core that is idle meanwhile. This process therefore begins by
itself, and is one of those that work.
"""

import logging
import subprocess
import sys
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any

import psutil  # type: ignore[import-untyped]  # ships no types

from almanac.core.lifetime import end_with_parent, how_it_ended
from almanac.core.logs import get_logger
from almanac.core.processors import processors, said_of_group
from almanac.flows.pipeline.fan_out import DEATHS, Span, Unfinished
from almanac.flows.pipeline.run import Run
from almanac.schemas.errors import AlmanacError, OperationalError
from almanac.spiders.reading.bounded import close_reader

log = get_logger("almanac.batches")
_MODULE = "almanac.flows.pipeline.batch_processes"
_WORTH_S = 6.0  # of work that is left, from which on children are started
_MOST_CHILDREN = 7
_NEEDS = 500 << 20  # bytes that have to be free for each of them; it takes some 250 MB


def do_here(
    step: Callable[..., Any],
    run: Run,
    batches: Any,
    spans: Sequence[Span],
    unfinished: Callable[[int, int], Unfinished],
) -> Iterator[Any]:
    """As FanOut says, in processes of this machine, whose code is that of the run."""
    shared = _Shared(step, run, batches, spans, unfinished)
    try:
        began = time.monotonic()
        for done, span in enumerate(iter(lambda: shared.take(fresh=True), None), start=1):
            yield step(run, batches, *span, {})
            left_s = (time.monotonic() - began) / done * shared.left
            if not shared.has_children and left_s > _WORTH_S:
                shared.start(min(_processes() - 1, shared.left))
            yield from shared.finished()
        yield from shared.rest()
        for span in iter(shared.take, None):  # no child was to be had for these
            yield step(run, batches, *span, {})
    finally:
        shared.close()
        close_reader()


def _processes() -> int:
    """How many may work: as many as there are cores that a container may use, and room for."""
    free = int(psutil.virtual_memory().available)
    most, used = said_of_group("memory.max").strip(), said_of_group("memory.current").strip()
    if most.isdigit() and used.isdigit():
        free = min(free, int(most) - int(used))
    return max(1, min(processors(), 1 + _MOST_CHILDREN, 1 + free // _NEEDS))


class _Shared:
    """The spans that are left, shared by this process and its children."""

    def __init__(
        self,
        step: Callable[..., Any],
        run: Run,
        batches: Any,
        spans: Sequence[Span],
        unfinished: Callable[[int, int], Unfinished],
    ) -> None:
        self._call, self._unfinished = (step, run, batches), unfinished
        self._waiting = deque(spans)
        self._taking = Lock()
        self._answers: SimpleQueue[tuple[bool, Any]] = SimpleQueue()
        self._threads: list[Thread] = []
        self._children: set[_Child] = set()
        self._deaths: Counter[Span] = Counter()
        self._open = True

    @property
    def left(self) -> int:
        return len(self._waiting)

    @property
    def has_children(self) -> bool:
        return bool(self._threads)

    def take(self, *, fresh: bool = False) -> Span | None:
        """The next span, if one is left. With `fresh`, none of which a child died: it might take the process of the run
        with it.
        """
        with self._taking:
            # those are the last in line
            if not self._open or not self._waiting or (fresh and self._deaths[self._waiting[0]]):
                return None
            return self._waiting.popleft()

    def start(self, children: int) -> None:
        for _ in range(children):
            thread = Thread(target=self._have_done, daemon=True, name="almanac-batches")
            self._threads.append(thread)
            thread.start()

    def finished(self) -> Iterator[Any]:
        """The results of children that have come; raises the error of one."""
        while not self._answers.empty():
            is_result, answer = self._answers.get()
            if not is_result:
                raise answer
            yield answer

    def rest(self) -> Iterator[Any]:
        """The results that are still to come."""
        for thread in self._threads:
            while thread.is_alive():
                thread.join(0.1)
                yield from self.finished()
        yield from self.finished()

    def close(self) -> None:
        self._open = False
        for child in tuple(self._children):
            child.kill()

    def _have_done(self) -> None:
        """In a thread: has a child do one span after the other, and another child where one died. A child ends with its
        thread.
        """
        child: _Child | None = None
        try:
            while self.left and self._open:
                if child is None and (child := self._new_child()) is None:
                    return
                if (span := self.take()) is None:
                    return
                try:
                    self._answers.put(child.do(*self._call, *span, {}))
                except (EOFError, OSError) as ended:
                    if not self._open:
                        return
                    how, child = self._end(child), None
                    self._deaths[span] += 1
                    if self._deaths[span] >= DEATHS:
                        at = self._unfinished(*span)
                        hint = "often a process lacks memory; almanac run KB goes on from what is written"
                        raise OperationalError(
                            f"{at.name} ended {at.deaths} processes, one after the other", where=how, hint=hint
                        ) from ended
                    self._waiting.append(span)
        except BaseException as error:
            self._answers.put((False, error))
        finally:
            if child is not None:
                self._end(child)

    def _new_child(self) -> "_Child | None":
        """A child that is ready; meanwhile others may do all that is left. None where there is none to be had: the
        others go on without it.
        """
        child: _Child | None = None
        try:
            child = _Child()
            self._children.add(child)
            child.wait()
        except (EOFError, OSError) as error:
            how = str(error) if child is None else self._end(child)
            if self._open:
                log.warning("a process that was to share the work did not start; the others go on", reason=how)
            return None
        return child

    def _end(self, child: "_Child") -> str:
        self._children.discard(child)
        return child.end()


class _Child:
    """A child process that does batches."""

    def __init__(self) -> None:
        self._pipe, theirs = Pipe()
        command = [sys.executable, "-P", "-m", _MODULE, str(theirs.fileno())]
        # Its end of stdin tells the child that this process has died.
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, pass_fds=[theirs.fileno()], start_new_session=True
        )
        theirs.close()

    def wait(self) -> None:
        """Until it has imported what batches need. Raises EOFError or OSError where it ends instead."""
        self._pipe.recv()

    def do(self, *call: Any) -> tuple[bool, Any]:
        """Whether the step returned, and what; or what it raised. Raises EOFError or OSError where the child ends
        instead.
        """
        self._pipe.send(call)
        answer: tuple[bool, Any] = self._pipe.recv()
        return answer

    def kill(self) -> None:
        self._process.kill()

    def end(self) -> str:
        """Kills the child if it still runs, and says how it ended."""
        self._process.kill()
        self._process.communicate()
        self._pipe.close()
        return how_it_ended(self._process.returncode)


def _serve(pipe: Connection) -> None:
    """In the child: says that it is ready, and does what comes until the pipe is closed."""
    with suppress(EOFError):
        pipe.send(None)
        while True:
            step, *arguments = pipe.recv()
            try:
                answer = True, step(*arguments)
            except (AlmanacError, OSError) as error:  # such as a full disk, which the run tells as one
                answer = False, error
            except Exception:  # a defect; not every exception can be sent, nor does one keep its traceback
                answer = False, RuntimeError(traceback.format_exc())
            pipe.send(answer)


if __name__ == "__main__":
    import almanac.flows.pipeline.item_batches
    import almanac.flows.pipeline.page_batches  # noqa: F401  # what batches need
    from almanac.core.logs import log_through_stdlib
    from almanac.core.settings import quiet_engines

    end_with_parent()
    quiet_engines()
    log_through_stdlib()
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", datefmt="%H:%M:%S", level=logging.WARNING)
    _serve(Connection(int(sys.argv[1])))
