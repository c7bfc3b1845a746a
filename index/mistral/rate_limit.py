"""A rate limit that all processes of a data directory keep together: a bucket that drains at a steady rate, in a file behind a lock.

Who wants to ask books the next free moment and waits for it without the lock. A process that is killed while it holds the lock loses it at once;
one that is killed while it waits has only wasted its turn.
"""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from almanac.core.durable import write_file

_LONGEST_QUEUE_S = 3600.0  # a moment further off than this was written before the clock was set back


@dataclass(frozen=True, slots=True)
class RateLimit:
    """At most so many requests a second and tokens a minute; None does not limit. `path` is shared by whoever shares the limit."""

    path: Path
    requests_per_second: float | None = None
    tokens_per_minute: float | None = None
    clock: Callable[[], float] = field(default=time.time)  # the same for all processes
    sleep: Callable[[float], None] = field(default=time.sleep)

    def wait(self, tokens: int = 0) -> float:
        """Returns when a request of so many tokens may be sent; says how many seconds that took."""
        cost_s = self._cost_s(tokens)
        if cost_s == 0:
            return 0.0
        with self._locked():
            now = self.clock()
            free = self._read()
            turn = free if now < free <= now + _LONGEST_QUEUE_S else now
            write_file(self.path, repr(turn + cost_s), synced=False)
        if turn > now:
            self.sleep(turn - now)
        return turn - now

    def _cost_s(self, tokens: int) -> float:
        by_request = 1 / self.requests_per_second if self.requests_per_second else 0.0
        by_tokens = 60 * tokens / self.tokens_per_minute if self.tokens_per_minute else 0.0
        return min(max(by_request, by_tokens), _LONGEST_QUEUE_S)

    def _read(self) -> float:
        """The next free moment; the past where nobody has booked one, or the file is torn."""
        try:
            return float(self.path.read_text())
        except (OSError, ValueError):
            return 0.0

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)  # which unlocks
