"""Retry policy for failed requests: number of attempts and delays.

No library: how often a request is worth another try depends on what failed (`client`), every attempt waits for the
shared rate limit first, and a Retry-After has to be honoured up to a cap. With tenacity, each of these would be a
callback of ours around a loop of four lines.
"""

import random
from dataclasses import dataclass

from almanac.core.retry_after import read_retry_after


@dataclass(frozen=True, slots=True)
class Retry:
    """Attempts and exponential backoff. A server's Retry-After is honoured up to `retry_after_cap_s`: some servers send
    an hour, some `inf`.
    """

    attempts: int = 6
    malformed_attempts: int = 3  # fewer: a malformed response rarely becomes a good one
    base_s: float = 0.5
    cap_s: float = 30.0
    retry_after_cap_s: float = 60.0

    def delay_s(self, attempt: int, retry_after: str | None = None) -> float:
        """Returns the seconds to wait after attempt number `attempt`, counted from 0.

        Half of the backoff is random, so that clients which failed together do not return together. `retry_after` is
        the value of the header.
        """
        own = min(self.cap_s, self.base_s * 2.0 ** min(attempt, 30)) * random.uniform(0.5, 1)
        wait_s = read_retry_after(retry_after)
        return own if wait_s is None else max(own, min(wait_s, self.retry_after_cap_s))
