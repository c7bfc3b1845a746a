"""Work of a search that another thread does: its result comes, whoever has done it."""

import threading
from contextlib import ExitStack
from functools import partial
from threading import Event, Thread
from typing import Any

import pytest

from almanac.core.beside import Threads
from tests.conftest import PATIENCE_S


def test_a_thread_does_the_work_and_the_block_ends_after_it() -> None:
    begun, ended = Event(), Event()

    def work() -> str:
        begun.set()
        ended.wait(0.05)
        ended.set()
        return threading.current_thread().name

    threads = Threads(1)
    with threads(work) as result:
        begun.wait()
        assert result().startswith("almanac-beside")
    with threads(work):
        pass
    assert ended.is_set()
    threads.close()
    with threads(work) as result:
        assert result() == threading.current_thread().name, "closed: the caller does it"


def test_without_a_further_thread_the_caller_does_the_work_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: Any) -> None:
        raise RuntimeError("can't start new thread")

    threads, done = Threads(1), list[int]()
    with monkeypatch.context() as patched:
        patched.setattr(Thread, "start", refused)
        for number in range(3):
            with threads(partial(done.append, number)) as result:
                result()
    begun = Event()
    with threads(begun.set):
        assert begun.wait(PATIENCE_S), "a thread is to be had again, and comes to what was queued before"
    threads.close()
    assert done == [0, 1, 2]


def test_an_error_of_the_work_comes_with_its_result() -> None:
    def work() -> None:
        raise ValueError("wrong")

    with Threads(1)(work) as result, pytest.raises(ValueError, match="wrong"):
        result()


def test_what_was_given_last_is_begun_first_and_its_caller_does_the_rest() -> None:
    held, begun, is_done, order = Event(), Event(), Event(), list[str]()

    def hold() -> None:
        begun.set()
        held.wait(PATIENCE_S)

    def work(name: str) -> str:
        order.append(name)
        if name == "third":
            is_done.set()
        return threading.current_thread().name

    threads = Threads(1)
    with threads(hold), ExitStack() as given:
        begun.wait(PATIENCE_S)
        results = [given.enter_context(threads(partial(work, name))) for name in ("first", "second", "third")]
        assert results[0]() == threading.current_thread().name
        held.set()
        assert is_done.wait(PATIENCE_S) and results[2]().startswith("almanac-beside")
    threads.close()
    assert order[:2] == ["first", "third"]


def test_work_that_nobody_asked_for_is_not_kept() -> None:
    threads, held = Threads(1), Event()
    with threads(partial(held.wait, PATIENCE_S)):
        for _ in range(3):
            with threads(list):
                pass
        assert not threads._waiting
        held.set()
    threads.close()


def test_works_that_many_callers_give_are_done_once_each() -> None:
    threads, done = Threads(2), list[tuple[int, int]]()

    def call(caller: int) -> None:
        for turn in range(100):
            with ExitStack() as given:
                results = [
                    given.enter_context(threads(partial(done.append, (caller, 8 * turn + number))))
                    for number in range(8)
                ]
                for result in results:
                    result()

    callers = [Thread(target=call, args=(number,)) for number in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(PATIENCE_S)
    threads.close()
    assert sorted(done) == [(caller, number) for caller in range(4) for number in range(800)]
