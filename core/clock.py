"""The time format used throughout the package."""

from datetime import UTC, datetime


def utc_now() -> str:
    """Returns the current time in UTC as ISO 8601 text, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
