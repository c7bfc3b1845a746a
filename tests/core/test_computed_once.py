"""A property that threads share is computed once, holds up no other object, and two that need each other's never wait
for ever.
"""

import threading
import time
from collections.abc import Callable

import pytest

from almanac.core.computed_once import computed_once
from tests.conftest import PATIENCE_S


class Shared:
    def __init__(self, wait: Callable[[], object] = lambda: None) -> None:
        self._lock = threading.RLock()
        self.wait, self.computed = wait, 0

    @computed_once
    def value(self) -> int:
        """What it is."""
        self.wait()
        self.computed += 1
        return self.computed

    @computed_once
    def of_value(self) -> int:
        self.wait()
        return 10 * self.value

    @computed_once
    def of_both(self) -> int:
        self.wait()
        return self.value + self.of_value


def _all_at_once(*works: Callable[[], object]) -> None:
    threads = [threading.Thread(target=work, daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def test_it_is_computed_once_by_whichever_thread_comes_first() -> None:
    shared = Shared(lambda: time.sleep(0.02))
    _all_at_once(*[lambda: shared.value] * 5)
    assert (shared.value, shared.computed) == (1, 1)
    assert Shared.value.__doc__ == "What it is."


@pytest.mark.parametrize("turn", range(10))
def test_properties_that_ask_for_each_other_are_computed_by_several_threads(turn: int) -> None:
    shared = Shared(lambda: time.sleep(0.001 * turn))
    _all_at_once(lambda: shared.of_both, lambda: shared.value, lambda: shared.of_value)
    assert (shared.of_both, shared.computed) == (11, 1)


def test_one_object_does_not_wait_for_another() -> None:
    let_go = threading.Event()
    slow = Shared(lambda: let_go.wait(PATIENCE_S))
    waiting = threading.Thread(target=lambda: slow.value)
    waiting.start()
    _all_at_once(lambda: Shared().value)
    let_go.set()
    waiting.join()


def test_after_an_error_it_is_computed_anew() -> None:
    failures = iter([OSError("no file")])

    def fail() -> None:
        for failure in failures:
            raise failure

    shared = Shared(fail)
    with pytest.raises(OSError, match="no file"):
        shared.value  # noqa: B018
    assert shared.value == 1
