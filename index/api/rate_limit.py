"""Rate limit shared by all processes of a data directory: a leaky bucket stored in a file and guarded by a lock.

A caller reserves the next free moment under the lock and waits for it without the lock. A process killed while it has
the lock releases it at once; one killed while it waits wastes only its own turn.
"""

import fcntl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from almanac.core.durable import write_file

# a reserved moment further ahead than this was written before the clock was set back, and is ignored
_LONGEST_QUEUE_S = 3600.0


@dataclass(frozen=True, slots=True)
class RateLimit:
    """Limits requests per second and tokens per minute, each None for no limit. Instances with the same `path` share
    one limit, across processes.
    """

    path: Path
    requests_per_second: float | None = None
    tokens_per_minute: float | None = None
    clock: Callable[[], float] = field(default=time.time)  # not monotonic: processes have to agree on it
    sleep: Callable[[float], None] = field(default=time.sleep)

    def wait(self, tokens: int = 0) -> float:
        """Blocks until a request of `tokens` tokens may be sent; returns the seconds waited."""
        cost_s = self._cost_s(tokens)
        if cost_s == 0:
            return 0.0
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.with_suffix(".lock").open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # until it is closed
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
        """Returns the next free moment in clock seconds; 0.0, which is in the past, where the file is missing or
        damaged.
        """
        try:
            return float(self.path.read_text())
        except (OSError, ValueError):
            return 0.0
