"""Parses the Retry-After header of HTTP (RFC 9110, 10.2.3)."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def read_retry_after(header: str | None, now: datetime | None = None) -> float | None:
    """Returns the delay in seconds that a header requests, as a number or as a date relative to `now`; None where it is
    missing or invalid.

    The result is never negative and may be infinite.
    """
    if not header:
        return None
    try:
        seconds = float(header)
        return seconds if seconds >= 0 else None  # false for NaN, too
    except ValueError:
        pass
    try:
        date = parsedate_to_datetime(header)
        return max(
            0.0, ((date if date.tzinfo else date.replace(tzinfo=UTC)) - (now or datetime.now(UTC))).total_seconds()
        )
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
