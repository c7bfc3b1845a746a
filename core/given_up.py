"""Work that nobody waits for any more, because its time is over or its client has gone: it ends between two steps."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_is_given_up: ContextVar[Callable[[], bool] | None] = ContextVar("is_given_up", default=None)


class GivenUp(Exception):
    """Raised by `require_wanted`. Nobody waits for the result, so nobody is told."""


@contextmanager
def unless(is_given_up: Callable[[], bool]) -> Iterator[None]:
    """In the block, and in this thread, `require_wanted` raises GivenUp as soon as `is_given_up` says so."""
    token = _is_given_up.set(is_given_up)
    try:
        yield
    finally:
        _is_given_up.reset(token)


def require_wanted() -> None:
    """Called before each step of some length. Raises GivenUp where the work is wanted no more."""
    is_given_up = _is_given_up.get()
    if is_given_up is not None and is_given_up():
        raise GivenUp
