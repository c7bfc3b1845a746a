"""So much goes on at once, and who waits for something else lets others have its turn."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from almanac.core.given_up import GivenUp, unless
from almanac.core.turns import Turns, others_first
from tests.conftest import PATIENCE_S


def _until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.005)


class _Work:
    """Steps of several threads: how many had a turn at once at most, and in which order they ended."""

    def __init__(self, turns: int) -> None:
        self.turns = Turns(turns)
        self._lock = threading.Lock()
        self._now = self.most = 0
        self.ended: list[str] = []

    def step(self) -> None:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
        time.sleep(0.002)
        with self._lock:
            self._now -= 1

    def whole(self, name: str, waits: Callable[[], None] | None = None) -> None:
        with self.turns.taken():
            self.step()
            if waits is not None:
                with others_first():
                    waits()
                self.step()
            self.ended.append(name)


@pytest.mark.parametrize("turns", [1, 3])
def test_never_more_have_a_turn_than_there_are(turns: int) -> None:
    work = _Work(turns)
    with ThreadPoolExecutor(12) as pool:
        doing = [pool.submit(work.whole, str(number), (lambda: time.sleep(0.003)) if number % 2 else None) for number in range(60)]
        for one in doing:
            one.result(PATIENCE_S)
    assert work.most == turns
    assert sorted(work.ended, key=int) == [str(number) for number in range(60)]


def test_others_begin_while_one_waits_and_it_goes_on_before_those_that_have_not_begun() -> None:
    work, let_go, is_held = _Work(1), threading.Event(), threading.Event()

    def hold() -> None:
        with work.turns.taken():
            is_held.set()
            let_go.wait(PATIENCE_S)
            work.ended.append("holder")

    came_back = threading.Event()

    def wait() -> None:
        came_back.wait(PATIENCE_S)

    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(work.whole, "first", wait)
        _until(lambda: work.turns._free == 1 and work.most == 1)  # it waits, and its turn is free
        holding = pool.submit(hold)
        assert is_held.wait(PATIENCE_S)
        late = pool.submit(work.whole, "late")
        _until(lambda: len(work.turns._beginning) == 1)
        came_back.set()
        _until(lambda: len(work.turns._going_on) == 1)
        let_go.set()
        for one in (first, holding, late):
            one.result(PATIENCE_S)
    assert work.ended == ["holder", "first", "late"]


def test_a_turn_comes_back_whatever_ends_the_work() -> None:
    work = _Work(1)

    def fail() -> None:
        raise ValueError

    for _ in range(3):
        with pytest.raises(ValueError), work.turns.taken():
            fail()
        with pytest.raises(ValueError), work.turns.taken(), others_first():
            fail()
    work.whole("last")
    assert work.ended == ["last"]


def test_a_thread_without_a_turn_gives_none_away() -> None:
    work = _Work(1)
    with others_first():
        work.whole("only")
    assert work.turns._free == 1


def test_who_gave_its_turn_away_gives_away_no_other_one() -> None:
    work = _Work(1)
    with work.turns.taken():
        with others_first():
            with others_first():
                assert work.turns._free == 1
            assert work.turns._free == 1, "and has none again before the outer block ends"
        assert work.turns._free == 0
        with others_first():
            assert work.turns._free == 1
    assert work.turns._free == 1


def test_work_that_nobody_waits_for_any_more_leaves_its_place_in_the_line() -> None:
    work, let_go, is_given_up = _Work(1), threading.Event(), threading.Event()

    def hold() -> None:
        with work.turns.taken():
            let_go.wait(PATIENCE_S)

    def wait() -> None:
        with unless(is_given_up.is_set), work.turns.taken():
            work.ended.append("begun all the same")

    with ThreadPoolExecutor(3) as pool:
        holding = pool.submit(hold)
        _until(lambda: work.turns._free == 0)
        waiting = [pool.submit(wait) for _ in range(2)]
        _until(lambda: len(work.turns._beginning) == 2)
        is_given_up.set()
        for one in waiting:
            with pytest.raises(GivenUp):
                one.result(PATIENCE_S)
        assert not work.turns._beginning
        let_go.set()
        holding.result(PATIENCE_S)
    work.whole("last")
    assert work.ended == ["last"]
