"""Work of a search that a pool's threads do beside the caller."""

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, wait
from contextlib import contextmanager
from typing import TypeVar

_Returned = TypeVar("_Returned")


@contextmanager
def begun(work: Callable[[], _Returned], threads: Executor | None) -> Iterator[Callable[[], _Returned]]:
    """Context manager with what gives the result of some work, which threads may have begun meanwhile.

    Work that no thread has begun when its result is asked for, the caller does, and all where there are no `threads`.
    It is over when the block is, also after an error: whoever closes what it reads then has it closed.
    """
    try:
        doing = None if threads is None else threads.submit(work)
    except RuntimeError:  # the pool is shut down, or the system gives no further thread
        doing = None
    if doing is None:
        yield work
        return
    try:
        yield lambda: work() if doing.cancel() else doing.result()
    finally:
        if not doing.cancel():
            wait([doing])
