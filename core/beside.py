"""Work of a search that other threads do beside the caller."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, Protocol, TypeVar

_Found = TypeVar("_Found")


class Beside(Protocol):
    """Begins some work in another thread, as soon as one is free; gives what gives its result, and ends when the work
    has.
    """

    def __call__(self, work: Callable[[], _Found]) -> AbstractContextManager[Callable[[], _Found]]: ...


class Threads:
    """A `Beside` of a number of threads, which start when they are needed. Safe to share among threads.

    Searching many vectors and words takes milliseconds, in which faiss and tantivy leave Python's lock to others. What
    was given last is begun first: who gives several works and asks for the result of the first one meets the threads in
    the middle, and what is given meanwhile does not wait behind them.

    Args:
        count: Number of the threads; with none, the caller does all work.
    """

    def __init__(self, count: int) -> None:
        self._count, self._pool = count, _pool_of(count)
        self._lock = threading.Lock()
        self._waiting: dict[Future[Any], Callable[[], Any]] = {}  # in the order in which they were given

    @contextmanager
    def __call__(self, work: Callable[[], _Found]) -> Iterator[Callable[[], _Found]]:
        """Context manager with what gives the result of some work.

        Work that no thread has begun when its result is asked for, the caller does. The work is over when the block is,
        also after an error: whoever closes what it reads then has it closed.
        """
        if (doing := self._given(work)) is None:
            yield work
            return
        try:
            yield lambda: work() if self._taken_back(doing) else doing.result()
        finally:
            if not self._taken_back(doing):
                wait([doing])

    def _given(self, work: Callable[[], _Found]) -> "Future[_Found] | None":
        """The work as threads may do it; None where there is no thread."""
        doing: Future[_Found] = Future()
        with self._lock:
            if self._pool is None:
                return None
            self._waiting[doing] = work
            try:
                self._pool.submit(self._do_newest)
            # the system gives no further thread, or Python is ending; the pool has queued the call all the same
            except RuntimeError:
                self._pool.shutdown(wait=False, cancel_futures=True)
                self._pool = _pool_of(self._count)
                return None if self._taken_back(doing) else doing
        return doing

    def _do_newest(self) -> None:
        with suppress(KeyError):  # none is left: a caller has done it
            doing, work = self._waiting.popitem()
            if doing.set_running_or_notify_cancel():
                try:
                    doing.set_result(work())
                except BaseException as error:
                    doing.set_exception(error)

    def _taken_back(self, doing: "Future[Any]") -> bool:
        """Whether no thread has begun some work, which none does from now on."""
        self._waiting.pop(doing, None)
        return doing.cancel()

    def close(self) -> None:
        """Lets the threads end with what they do; from now on, callers do all work."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False)


def _pool_of(count: int) -> ThreadPoolExecutor | None:
    return ThreadPoolExecutor(count, thread_name_prefix="almanac-beside") if count else None
