"""Work of a search that another thread does: its result comes, whoever has done it."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from threading import Event, Thread
from typing import Any

import pytest

from almanac.core.beside import begun
from tests.conftest import PATIENCE_S


def test_a_thread_does_the_work_and_the_block_ends_after_it() -> None:
    has_begun, ended = Event(), Event()

    def work() -> str:
        has_begun.set()
        ended.wait(0.05)
        ended.set()
        return threading.current_thread().name

    threads = ThreadPoolExecutor(1, thread_name_prefix="beside")
    with begun(work, threads) as result:
        has_begun.wait()
        assert result().startswith("beside")
    has_begun.clear()
    ended.clear()
    with pytest.raises(ZeroDivisionError), begun(work, threads):
        has_begun.wait()
        raise ZeroDivisionError
    assert ended.is_set(), "also after an error"
    threads.shutdown()
    for given in (threads, None):
        with begun(work, given) as result:
            assert result() == threading.current_thread().name, "no thread: the caller does it"


def test_without_a_further_thread_the_caller_does_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(Thread, "start", refused)
    with begun(lambda: 1, ThreadPoolExecutor(1)) as result:
        assert result() == 1


def test_an_error_of_the_work_comes_with_its_result() -> None:
    def work() -> None:
        raise ValueError("wrong")

    with ThreadPoolExecutor(1) as threads, begun(work, threads) as result, pytest.raises(ValueError, match="wrong"):
        result()


def test_the_caller_does_what_no_thread_has_begun() -> None:
    held, has_begun, done = Event(), Event(), list[str]()

    def hold() -> None:
        has_begun.set()
        held.wait(PATIENCE_S)

    with ThreadPoolExecutor(1) as threads, begun(hold, threads), ExitStack() as given:
        has_begun.wait(PATIENCE_S)
        results = [given.enter_context(begun(partial(done.append, name), threads)) for name in ("first", "second")]
        results[1]()
        held.set()
    assert done == ["second"], "nobody asked for the first"


def test_works_that_many_callers_give_are_done_once_each() -> None:
    done = list[tuple[int, int]]()

    def call(caller: int) -> None:
        for turn in range(100):
            with ExitStack() as given:
                works = [partial(done.append, (caller, 8 * turn + number)) for number in range(8)]
                for result in [given.enter_context(begun(work, threads)) for work in works]:
                    result()

    with ThreadPoolExecutor(2) as threads:
        callers = [Thread(target=call, args=(number,)) for number in range(4)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join(PATIENCE_S)
    assert sorted(done) == [(caller, number) for caller in range(4) for number in range(800)]
