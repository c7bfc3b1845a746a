"""How work grows with its input. A test of speed says that there is no quadratic road; seconds are for benchmarks.

Both sides of a comparison are measured in the same breath, by the thread's processor time, with garbage collection off:
on a slow or busy machine both grow, and what another thread of the process does counts for neither.
"""

import gc
import time
from collections.abc import Callable
from typing import Any

_FLOOR_S = 0.01  # shorter work counts as this long: a millisecond measures caches and the allocator


def assert_linear(work: Callable[[Any], object], make: Callable[[int], Any], count: int, times: int = 6) -> None:
    """Input that is `times` as large takes at most 2.5 × `times` as long; by a quadratic road it would take `times`
    squared.

    `make` gives an input of that many pieces, and is not measured. `count`, of the smaller input, should suffice for
    some 50 ms. Each measurement gets an input of its own, a piece larger or smaller than the last: what the code under
    test remembers of one does not help it with the next.
    """
    limit_s = 2.5 * times * max(_FLOOR_S, min(_seconds(work, make(count + more)) for more in range(3)))
    taken_s = [_seconds(work, make(count * times))]
    # what else the machine does only adds time: one of three will do
    while min(taken_s) > limit_s and len(taken_s) < 3:
        taken_s.append(_seconds(work, make(count * times - len(taken_s))))
    assert min(taken_s) <= limit_s, (
        f"{times} times the input took {min(taken_s):.2f} s, and {limit_s:.2f} s would be {2.5 * times:g} times as long"
    )


def assert_comparable(work: Callable[[Any], object], hostile: Any, plain: Any, times: float = 20) -> None:
    """For input that has no larger kin: it takes at most `times` as long as plain input that is as long, or as large as
    the caller sees fit.
    """
    limit_s = times * max(_FLOOR_S, _seconds(work, plain))
    taken_s = _seconds(work, hostile)
    assert taken_s <= limit_s, (
        f"it took {taken_s:.2f} s, and {limit_s:.2f} s would be {times:g} times as long as plain input"
    )


def _seconds(work: Callable[[Any], object], given: Any) -> float:
    was_on = gc.isenabled()
    gc.disable()
    try:
        began = time.thread_time()
        work(given)
        return time.thread_time() - began
    finally:
        if was_on:
            gc.enable()
