"""The one way in which moments are written down."""

from datetime import UTC, datetime


def utc_now() -> str:
    """This moment in UTC, ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
