"""What the library found on a whole column or table, as values for a report."""

from datetime import UTC, datetime, timedelta, timezone
from math import isfinite
from typing import Any

from almanac.schemas.hashing import canonical_json
from almanac.schemas.reports import JudgedExpectation
from almanac.transforms.expectations import Rule
from almanac.transforms.library import Finding

_SHOWN = 200  # characters of a value


def with_observed(result: JudgedExpectation, rule: Rule, finding: Finding | None) -> JudgedExpectation:
    """The result with the value that the library found, and the limit that it was held against: the one that is broken,
    else the first declared.
    """
    result.ok = finding is not None and finding.ok and result.error is None
    if finding is None or result.error is not None:
        return result
    observed = finding.observed
    if hasattr(observed, "item"):  # NumPy's
        observed = observed.item()
    if isinstance(observed, dict):
        observed = observed.get("values", observed)
    result.value = _plain(observed, rule)
    low, high = (rule.arguments.get(key) for key in ("min_value", "max_value"))
    is_above = high is not None and isinstance(observed, int | float) and observed >= high
    limit = high if low is None or is_above else low
    if limit is None:
        limit = next((value for key, value in rule.arguments.items() if key not in ("ties_okay", "exact_match")), None)
    result.limit = _plain(limit, rule)
    return result


def _plain(value: Any, rule: Rule) -> float | int | str | None:
    """A value for a report: numbers as they are, moments as ISO 8601, anything else as JSON."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        if not isfinite(value):
            return None if value != value else str(value)
        if rule.aspect == "moment":
            return _iso(value)
        return value if isinstance(value, int) else round(value, 6)
    return str(shown(canonical_json(list(value) if isinstance(value, set | tuple) else value)))


def _iso(seconds: float) -> str:
    """A moment in UTC; within a day of the years 1 and 9999 in an offset that keeps it between them, where a date may
    lie and UTC has no year for it.
    """
    since = timedelta(seconds=seconds)
    try:
        read = datetime.fromtimestamp(0, UTC) + since
    except OverflowError:
        zone = timezone(timedelta(hours=-23, minutes=-59) if seconds > 0 else timedelta(hours=23, minutes=59))
        return (datetime.fromtimestamp(0, zone) + since).isoformat()
    return read.date().isoformat() if read.time() == datetime.min.time() else read.isoformat()


def shown(value: Any) -> Any:
    """A value for a report, shortened: JSON that any reader takes, so without numbers that are infinite or none."""
    if isinstance(value, str):
        return f"{value[:_SHOWN]}…" if len(value) > _SHOWN else value
    if isinstance(value, list | dict):
        try:
            text = canonical_json(value)
        except (RecursionError, TypeError, ValueError):  # nested too deeply, or with a number of thousands of digits
            return "(not to be written as JSON)"
        return _finite(value) if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    return _finite(value)


def _finite(value: Any) -> Any:
    match value:
        case float():
            return value if isfinite(value) else str(value)
        case list():
            return [_finite(entry) for entry in value]
        case dict():
            return {key: _finite(entry) for key, entry in value.items()}
    return value
