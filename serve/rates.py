"""How many requests of a caller there may be in a minute: token buckets, in memory, or in a file that all processes of
a server share.
"""

import fcntl
import math
import mmap
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

# of a bucket: requests left, and time of the last update, by a clock that all processes share; 0 for a caller that has
# not asked yet
_NUMBERS = 2
_SIZE = 8 * _NUMBERS  # bytes of a bucket


class Rates:
    """Token buckets, whose capacity is the limit of one minute.

    Args:
        rate: Requests a minute.
        callers: Names of all callers, in the same order in each process.
        shared: Folder for the file that the processes of a server share. None: this one is alone. To be called from one
            thread of each process.
    """

    def __init__(self, rate: int, callers: Sequence[str], shared: Path | None) -> None:
        self._rate, self._places = rate, {name: _NUMBERS * number for number, name in enumerate(callers)}
        self._file: int | None = None
        size = _SIZE * len(callers)
        if shared is None:
            self._buckets = memoryview(bytearray(size)).cast("d")
        else:
            self._file = os.open(shared / "rates", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            os.ftruncate(self._file, size)  # zeros where there is no bucket yet
            self._buckets = memoryview(mmap.mmap(self._file, size)).cast("d")

    def take(self, caller: str) -> int:
        """Counts a request. Returns 0, or, where the caller's bucket is empty, in how many seconds it no longer is."""
        place, full = self._places[caller], float(self._rate)
        with self._held():
            now = time.monotonic()
            left, since = self._buckets[place], self._buckets[place + 1]
            left = min(full, left + (now - since) * self._rate / 60) if since else full
            self._buckets[place], self._buckets[place + 1] = left - 1 if left >= 1 else left, now
        return 0 if left >= 1 else math.ceil((1 - left) * 60 / self._rate)

    @contextmanager
    def _held(self) -> Iterator[None]:
        """The system frees this lock where a process dies with it."""
        if self._file is None:
            yield
            return
        fcntl.lockf(self._file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN)
