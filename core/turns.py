"""Turns at work of which only so much goes on at once, as Python's lock would hold it up.

Who waits for something else lets others have its turn, and so does who begins with something long: what is slow holds
up nothing else that has a thread.
"""

import heapq
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import count

from almanac.core.given_up import require_wanted

_LOOK_S = 0.1  # between two looks whether the work is still wanted
_BEGINNING_S = 0.02  # for which work begins, one after the other, while other work could go on
_COMING_S = 0.008  # after the end of work within which its client may have asked again
_MORE_S = 0.001  # between two looks whether more have come


@dataclass(slots=True)
class _Begun:
    """Work that has begun: the turns that it takes, its number, the lower the earlier, and whether it has a turn."""

    turns: "Turns"
    number: int
    has_turn: bool = True


_own: ContextVar[_Begun | None] = ContextVar("own", default=None)


class Turns:
    """So many turns, taken in the order in which work comes. Of work that gave its own away, the oldest goes on first.

    Work that has not begun is before it, for 20 ms at most: soon it waits itself, for a model that is passed once for
    all who wait.

    Args:
        most: Turns that may be taken at the same time.
        is_crowded: Whether no processor is left for what is done beside them (`for_several`).
    """

    def __init__(self, most: int, *, is_crowded: bool = False) -> None:
        self._is_crowded = is_crowded
        self._several = 0  # for how many something was done last
        self._went_on_at = self._ended_at = 0.0
        self._free = most  # none while somebody waits: a turn goes from one to the next, and nobody comes in between
        self._lock = threading.Lock()
        self._gone_on = threading.Condition(self._lock)
        self._numbers = count()
        self._beginning = deque[threading.Event]()
        self._going_on: list[tuple[int, threading.Event]] = []  # a heap

    @contextmanager
    def taken(self) -> Iterator[None]:
        """The block has a turn. It begins once there is one for it; raises GivenUp instead where nobody waits for the
        work any more.
        """
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
            self._ended_at = time.monotonic()
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
                if not self._going_on:
                    self._went_on_at = time.monotonic()
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
            now = time.monotonic()
            if self._beginning and (not self._going_on or now < self._went_on_at + _BEGINNING_S):
                self._beginning.popleft().set()
            elif self._going_on:
                heapq.heappop(self._going_on)[1].set()
                self._went_on_at = now
                self._gone_on.notify_all()
            else:
                self._free += 1

    @contextmanager
    def _with_a_turn_after_all(self, waiting: Callable[[], int], most: int) -> Iterator[None]:
        number = next(self._numbers)
        self._take_again(number)
        until = self._ended_at + _COMING_S  # what ends later, and may be of another kind, does not put it off
        while 1 < (now := waiting()) < min(most, self._several) and time.monotonic() <= until:
            self._give_back()
            time.sleep(_MORE_S)
            self._take_again(number)
        self._several = now
        try:
            yield
        finally:
            self._give_back()

    def _wait_for_company(self, waiting: Callable[[], int], most: int) -> None:
        number = next(self._numbers)
        with self._lock:
            while waiting() < min(most, sum(other < number for other, _ in self._going_on)):
                self._gone_on.wait(_MORE_S)


@contextmanager
def others_first() -> Iterator[None]:
    """In the block, the turn of this thread is others'; afterwards it has one again. Does nothing in a thread that has
    no turn, or has given it away.

    Not to be entered with a lock that somebody with a turn may wait for: then neither goes on.
    """
    begun = _own.get()
    if begun is None or not begun.has_turn:
        yield
        return
    begun.has_turn = False
    begun.turns._give_back()
    try:
        yield
    finally:
        begun.turns._take_again(begun.number)
        begun.has_turn = True


@contextmanager
def for_several(waiting: Callable[[], int], most: int) -> Iterator[None]:
    """The block does something at once for those who wait for it and let others go first, such as this thread, while
    more may come; it needs no turn.

    It begins when as many wait as could go on meanwhile, or `most`. Where no processor is left for it, it has a turn
    all the same, after all others, and a few milliseconds later if fewer wait than the last time, and some of them have
    just ended. Others are those that have come before it: of work that waits for something else, there may always be
    some that could go on. Does nothing in a thread that works without turns, or has one.

    Args:
        waiting: Gives how many wait.
        most: For how many it can be done at once.
    """
    begun = _own.get()
    if begun is None or begun.has_turn:
        yield
    elif begun.turns._is_crowded:
        with begun.turns._with_a_turn_after_all(waiting, most):
            yield
    else:
        begun.turns._wait_for_company(waiting, most)
        yield
