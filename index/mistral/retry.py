"""When a request that failed is worth another try, and after how long."""

import random
from dataclasses import dataclass

from almanac.core.retry_after import read_retry_after


@dataclass(frozen=True, slots=True)
class Retry:
    """How often and how patiently. A server's Retry-After is honoured up to `retry_after_cap_s`: some say an hour, some say `inf`."""

    attempts: int = 6
    malformed_attempts: int = 3  # an answer that makes no sense seldom mends
    base_s: float = 0.5
    cap_s: float = 30.0
    retry_after_cap_s: float = 60.0

    def delay_s(self, attempt: int, retry_after: str | None = None) -> float:
        """Seconds to wait after attempt number `attempt`, from 0. Half of it is chance: clients that failed together must not come back together."""
        own = min(self.cap_s, self.base_s * 2.0 ** min(attempt, 30)) * random.uniform(0.5, 1)
        told = read_retry_after(retry_after)
        return own if told is None else max(own, min(told, self.retry_after_cap_s))
