"""When a request that failed is worth another try, and after how long."""

import random
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


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


def read_retry_after(header: str | None, now: datetime | None = None) -> float | None:
    """Seconds that a Retry-After header asks for, as a number or a date (RFC 9110, 10.2.3); None where it says nothing that can be meant."""
    if not header:
        return None
    try:
        seconds = float(header)
        return seconds if seconds >= 0 else None  # NaN is not
    except ValueError:
        pass
    try:
        date = parsedate_to_datetime(header)
        return max(0.0, ((date if date.tzinfo else date.replace(tzinfo=UTC)) - (now or datetime.now(UTC))).total_seconds())
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
