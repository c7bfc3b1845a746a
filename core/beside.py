"""Work of a search that another thread does beside the caller."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, TypeVar

_Found = TypeVar("_Found")


class Beside(Protocol):
    """Begins some work in another thread, as soon as one is free; gives what gives its result, and ends when the work has."""

    def __call__(self, work: Callable[[], _Found]) -> AbstractContextManager[Callable[[], _Found]]: ...


class Threads:
    """A `Beside` of a number of threads, which start when they are needed. Safe to share among threads.

    Searching many vectors and words takes milliseconds, in which faiss and tantivy leave Python's lock to others.

    Args:
        count: Number of the threads; with none, the caller does all work.
    """

    def __init__(self, count: int) -> None:
        self._count, self._pool = count, _pool_of(count)
        self._lock = threading.Lock()

    @contextmanager
    def __call__(self, work: Callable[[], _Found]) -> Iterator[Callable[[], _Found]]:
        """Context manager with what gives the result of some work.

        Work that no thread has begun when its result is asked for, the caller does. The work is over when the block is, also after an error: whoever closes
        what it reads then has it closed.
        """
        if (doing := self._begun(work)) is None:
            yield work
            return
        try:
            yield lambda: work() if doing.cancel() else doing.result()
        finally:
            if not doing.cancel():
                wait([doing])

    def _begun(self, work: Callable[[], _Found]) -> "Future[_Found] | None":
        with self._lock:
            try:
                return self._pool.submit(work) if self._pool is not None else None
            except RuntimeError:  # the system gives no further thread, or Python is ending; the pool has queued the work all the same
                if self._pool is not None:
                    self._pool.shutdown(wait=False, cancel_futures=True)
                    self._pool = _pool_of(self._count)
                return None

    def close(self) -> None:
        """Lets the threads end with what they do; from now on, callers do all work."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False)


def _pool_of(count: int) -> ThreadPoolExecutor | None:
    return ThreadPoolExecutor(count, thread_name_prefix="almanac-beside") if count else None
