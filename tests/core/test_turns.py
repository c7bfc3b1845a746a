"""So much goes on at once, and who waits for something else lets others have its turn."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from almanac.core.given_up import GivenUp, unless
from almanac.core.turns import Turns, for_several, others_first
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
        doing = [
            pool.submit(work.whole, str(number), (lambda: time.sleep(0.003)) if number % 2 else None)
            for number in range(60)
        ]
        for one in doing:
            one.result(PATIENCE_S)
    assert work.most == turns
    assert sorted(work.ended, key=int) == [str(number) for number in range(60)]


@pytest.mark.parametrize(
    ("for_s", "ended"), [(PATIENCE_S, ["holder", "late", "first"]), (0.0, ["holder", "first", "late"])]
)
def test_others_begin_while_one_waits_and_for_a_while_before_it_goes_on(
    for_s: float, ended: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("almanac.core.turns._BEGINNING_S", for_s)
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
    assert work.ended == ended


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


class _Several:
    """Two works that could go on, and one that does something for `waiting` others, at most `most` at once."""

    def __init__(self, turns: Turns, waiting: int, most: int = 8) -> None:
        self.turns, self.waiting, self.most = turns, waiting, most
        self._away, self._may_come_back, self._may_do = threading.Semaphore(0), threading.Event(), threading.Event()
        self.is_done, self.order = threading.Event(), list[str]()

    def go_on(self) -> None:
        with self.turns.taken():
            with others_first():
                self._away.release()
                self._may_come_back.wait(PATIENCE_S)
            self.order.append("one")

    def do(self) -> None:
        with self.turns.taken(), others_first():
            self._away.release()
            self._may_do.wait(PATIENCE_S)
            with for_several(lambda: self.waiting, self.most):
                self.order.append("several, beside" if self.turns._free or not self.turns._is_crowded else "several")
                self.is_done.set()

    @contextmanager
    def begun(self) -> Iterator[None]:
        """In the block, all turns are taken, two works could go on, and the third is about to do its thing."""
        with ThreadPoolExecutor(3) as pool:
            doing = [pool.submit(one) for one in (self.go_on, self.go_on, self.do)]
            assert all(self._away.acquire(timeout=PATIENCE_S) for _ in doing)
            with self.turns.taken():
                self._may_come_back.set()
                _until(lambda: len(self.turns._going_on) == 2)
                self._may_do.set()
                yield
            for one in doing:
                one.result(PATIENCE_S)


def test_what_is_done_for_several_waits_until_as_many_wait_as_could_go_on() -> None:
    several = _Several(Turns(1), waiting=1)
    with several.begun():
        assert not several.is_done.wait(0.05)
        several.waiting = 2
        assert several.is_done.wait(PATIENCE_S)


def test_what_is_done_for_several_begins_once_others_have_gone_on() -> None:
    several = _Several(Turns(1), waiting=1)
    with several.begun():
        assert not several.is_done.wait(0.05)
    assert several.is_done.is_set()


def test_what_can_be_done_for_no_more_does_not_wait_for_them() -> None:
    several = _Several(Turns(1), waiting=1, most=1)
    with several.begun():
        assert several.is_done.wait(PATIENCE_S)


def test_where_no_processor_is_left_what_is_done_for_several_has_a_turn_after_all_others() -> None:
    several = _Several(Turns(1, is_crowded=True), waiting=8)
    with several.begun():
        assert not several.is_done.wait(0.05)
    assert several.order == ["one", "one", "several"]


@pytest.mark.parametrize(("waiting", "waits"), [(2, True), (1, False), (3, False)])
def test_who_has_just_ended_may_come_again_before_what_is_done_for_several(
    waiting: int, waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that waits alone waits for nobody else, and where as many wait as the last time, nobody is missing."""
    monkeypatch.setattr("almanac.core.turns._COMING_S", PATIENCE_S)
    turns = Turns(1, is_crowded=True)
    _in_turn(turns, 3)
    several = _Several(turns, waiting)
    with ThreadPoolExecutor(1) as pool:
        several._may_do.set()
        doing = pool.submit(several.do)
        assert several.is_done.wait(0.05 if waits else PATIENCE_S) is not waits
        several.waiting = 3
        doing.result(PATIENCE_S)


def _in_turn(turns: Turns, waiting: int) -> None:
    """Something was done for so many, and some of them ended."""
    several = _Several(turns, waiting)
    several._may_do.set()
    several.do()


@contextmanager
def _steady(turns: Turns, work: Callable[[], None]) -> Iterator[list[int]]:
    """In the block, which is given a list that grows with each, six clients have some work done again and again."""
    is_over, ended = threading.Event(), list[int]()

    def again(client: int) -> None:
        while not is_over.is_set():
            with turns.taken():
                work()
            ended.append(client)

    with ThreadPoolExecutor(6) as pool:
        doing = [pool.submit(again, client) for client in range(6)]
        try:
            _until(lambda: len(ended) > 20)
            yield ended
        finally:
            is_over.set()
        for one in doing:
            one.result(PATIENCE_S)


def test_what_is_done_for_several_does_not_wait_as_long_as_others_come_and_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two wait, and three did the last time: those that end meanwhile are no clients of it."""
    monkeypatch.setattr("almanac.core.turns._COMING_S", 0.5)
    turns = Turns(1, is_crowded=True)
    _in_turn(turns, 3)
    several = _Several(turns, waiting=2)
    several._may_do.set()
    with ThreadPoolExecutor(1) as pool:
        with _steady(turns, lambda: time.sleep(0.001)):
            doing = pool.submit(several.do)
            is_done = several.is_done.wait(PATIENCE_S / 10)
        doing.result(PATIENCE_S)
    assert is_done


@pytest.mark.parametrize("is_crowded", [False, True])
def test_what_is_done_for_several_does_not_wait_for_work_that_comes_later_and_waits_for_something_else(
    is_crowded: bool,
) -> None:
    def wait_and_go_on() -> None:
        time.sleep(0.001)
        with others_first():
            time.sleep(0.002)
        time.sleep(0.003)

    turns = Turns(1, is_crowded=is_crowded)
    several = _Several(turns, waiting=1)
    with ThreadPoolExecutor(1) as pool:
        with _steady(turns, wait_and_go_on) as ended:
            doing = pool.submit(several.do)
            assert several._away.acquire(timeout=PATIENCE_S)
            before = len(ended)
            several._may_do.set()
            _until(lambda: several.is_done.is_set() or len(ended) > before + 300)
            meanwhile = len(ended) - before
        doing.result(PATIENCE_S)
    assert meanwhile < 100


def test_without_turns_and_with_one_what_is_done_for_several_is_done_at_once() -> None:
    turns = Turns(1, is_crowded=True)
    with for_several(lambda: 1, 8), turns.taken(), for_several(lambda: 1, 8):
        assert turns._free == 0
    assert turns._free == 1
