"""Work of a search that another thread does: its result comes, whoever has done it."""

import threading
from threading import Event, Thread
from typing import Any

import pytest

from almanac.core.beside import Threads


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


def test_without_a_further_thread_the_caller_does_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(Thread, "start", refused)
    with Threads(1)(lambda: "done") as result:
        assert result() == "done"


def test_an_error_of_the_work_comes_with_its_result() -> None:
    def work() -> None:
        raise ValueError("wrong")

    with Threads(1)(work) as result, pytest.raises(ValueError, match="wrong"):
        result()
