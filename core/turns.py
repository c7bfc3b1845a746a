"""Turns at work of which only so much goes on at once, as Python's lock would hold it up. Who waits for something else lets others have its turn."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_own: ContextVar["Turns | None"] = ContextVar("own", default=None)


class Turns:
    """So many turns. Who gave its own away, and wants to go on, is before all who have not begun.

    Args:
        count: Turns that may be taken at the same time.
    """

    def __init__(self, count: int) -> None:
        self._free = count
        self._lock = threading.Lock()
        self._may_begin, self._may_go_on = threading.Condition(self._lock), threading.Condition(self._lock)
        self._going_on = 0  # who waits to go on

    @contextmanager
    def taken(self) -> Iterator[None]:
        """The block has a turn; it begins as soon as one is free."""
        with self._lock:
            while not self._free or self._going_on:
                self._may_begin.wait()
            self._free -= 1
        token = _own.set(self)
        try:
            yield
        finally:
            _own.reset(token)
            self._give_back()

    def _give_back(self) -> None:
        with self._lock:
            self._free += 1
            (self._may_go_on if self._going_on else self._may_begin).notify()

    def _take_again(self) -> None:
        with self._lock:
            self._going_on += 1
            try:
                while not self._free:
                    self._may_go_on.wait()
                self._free -= 1
            finally:
                self._going_on -= 1
                if self._free and not self._going_on:
                    self._may_begin.notify()


@contextmanager
def others_first() -> Iterator[None]:
    """In the block, the turn of this thread is others'; afterwards it has one again. Does nothing in a thread that has no turn."""
    turns = _own.get()
    if turns is None:
        yield
        return
    turns._give_back()
    try:
        yield
    finally:
        turns._take_again()
