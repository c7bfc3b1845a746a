"""Turns at work of which only so much goes on at once, as Python's lock would hold it up.

Who waits for something else lets others have its turn, and so does who begins with something long: what is slow holds up nothing else that has a thread.
"""

import heapq
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import NamedTuple

from almanac.core.given_up import require_wanted

_LOOK_S = 0.1  # between two looks whether the work is still wanted


class _Begun(NamedTuple):
    """Work that has begun: the turns that it takes, and its number, the lower the earlier."""

    turns: "Turns"
    number: int


_own: ContextVar[_Begun | None] = ContextVar("own", default=None)


class Turns:
    """So many turns, taken in the order in which work comes. Work that gave its own away, and goes on, is before all that has not begun, the oldest first.

    Args:
        most: Turns that may be taken at the same time.
    """

    def __init__(self, most: int) -> None:
        self._free = most  # none while somebody waits: a turn goes from one to the next, and nobody comes in between
        self._lock = threading.Lock()
        self._numbers = count()
        self._beginning = deque[threading.Event]()
        self._going_on: list[tuple[int, threading.Event]] = []  # a heap

    @contextmanager
    def taken(self) -> Iterator[None]:
        """The block has a turn. It begins once there is one for it; raises GivenUp instead where nobody waits for the work any more."""
        with self._lock:
            begun, may_begin = _Begun(self, next(self._numbers)), self._free_one()
            if may_begin is not None:
                self._beginning.append(may_begin)
        if may_begin is not None:
            self._wait_to_begin(may_begin)
        token = _own.set(begun)
        try:
            yield
        finally:
            _own.reset(token)
            self._give_back()

    def _wait_to_begin(self, may_begin: threading.Event) -> None:
        try:
            while not may_begin.wait(_LOOK_S):
                require_wanted()
        except BaseException:
            with self._lock:
                is_waiting = may_begin in self._beginning
                if is_waiting:
                    self._beginning.remove(may_begin)
            if not is_waiting:  # it has just been given a turn
                self._give_back()
            raise

    def _take_again(self, number: int) -> None:
        with self._lock:
            may_go_on = self._free_one()
            if may_go_on is not None:
                heapq.heappush(self._going_on, (number, may_go_on))
        if may_go_on is not None:
            may_go_on.wait()

    def _free_one(self) -> threading.Event | None:
        """Takes a free turn; where there is none, what to wait for. The lock is held."""
        if self._free:
            self._free -= 1
            return None
        return threading.Event()

    def _give_back(self) -> None:
        with self._lock:
            if self._going_on:
                heapq.heappop(self._going_on)[1].set()
            elif self._beginning:
                self._beginning.popleft().set()
            else:
                self._free += 1


@contextmanager
def others_first() -> Iterator[None]:
    """In the block, the turn of this thread is others'; afterwards it has one again. Does nothing in a thread that has no turn, or has given it away.

    Not to be entered with a lock that somebody with a turn may wait for: then neither goes on.
    """
    begun = _own.get()
    if begun is None:
        yield
        return
    token = _own.set(None)
    begun.turns._give_back()
    try:
        yield
    finally:
        begun.turns._take_again(begun.number)
        _own.reset(token)
