"""The time format used throughout the package, and ages that a wrong clock cannot falsify unnoticed.

Times are for people and for limits on age. What comes before what is never decided by them: a clock may be wrong, and
may be set right between two runs.
"""

from datetime import UTC, datetime, timedelta

_SKEW = timedelta(minutes=5)  # by which a clock may have been set back without an age being called unknown


def utc_now() -> str:
    """Returns the current time in UTC as ISO 8601 text, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def age_of(stamp: str) -> timedelta | None:
    """The time since an ISO 8601 stamp (UTC if it names no zone); None if it is unknown: there is none, or the stamp is
    in the future.

    A stamp up to five minutes ahead has the age zero: clocks are adjusted.
    """
    try:
        then = datetime.fromisoformat(stamp)
    except ValueError:
        return None
    age = datetime.now(UTC) - (then if then.tzinfo else then.replace(tzinfo=UTC))
    return max(age, timedelta()) if age >= -_SKEW else None
