"""What a block of code takes, with all processes that it starts."""

import resource
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

import psutil  # type: ignore[import-untyped]  # ships no types

GROWTH_MIB = 1536  # memory that hostile input may cost in all processes together, beyond what they have without it


class Usage:
    """Memory of this process and its descendants, twice a second, and their processor time. What forked processes share
    counts once.
    """

    def __enter__(self) -> Self:
        self._process, self._stop, self._peak = psutil.Process(), threading.Event(), 0
        self._before, self._used = self._resident(), self._seconds()
        self._watch = threading.Thread(target=self._look, daemon=True)
        self._watch.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._watch.join()

    @property
    def growth_mib(self) -> int:
        return max(0, self._peak - self._before) >> 20

    @property
    def seconds(self) -> float:
        return self._seconds() - self._used

    def _look(self) -> None:
        while not self._stop.wait(0.5):
            self._peak = max(self._peak, self._resident())

    def _resident(self) -> int:
        total = 0
        for process in [self._process, *self._process.children(recursive=True)]:
            with suppress(psutil.Error):
                total += process.memory_full_info().pss
        return total

    @staticmethod
    def _seconds() -> float:
        used = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(usage.ru_utime + usage.ru_stime for usage in used)
