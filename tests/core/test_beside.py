"""Work of a search that another thread does: its result comes, whoever has done it."""

import threading
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
