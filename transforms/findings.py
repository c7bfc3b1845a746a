"""What the library found on a whole column or table, as values for a report."""

from datetime import UTC, datetime
from typing import Any

from almanac.schemas.hashing import canonical_json
from almanac.schemas.reports import JudgedExpectation
from almanac.transforms.expectations import Rule
from almanac.transforms.library import Finding

_SHOWN = 200  # characters of a value


def with_observed(result: JudgedExpectation, rule: Rule, finding: Finding | None) -> JudgedExpectation:
    """The result with the value that the library found, and the limit that it was held against: the one that is broken, else the first declared."""
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
        if rule.aspect == "moment":
            read = datetime.fromtimestamp(value, UTC)
            return read.date().isoformat() if read.time() == datetime.min.time() else read.isoformat()
        return value if isinstance(value, int) else round(value, 6) if value == value else None
    return str(shown(canonical_json(list(value) if isinstance(value, set | tuple) else value)))


def shown(value: Any) -> Any:
    if isinstance(value, str):
        return f"{value[:_SHOWN]}…" if len(value) > _SHOWN else value
    if isinstance(value, list | dict):
        text = canonical_json(value)
        return value if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    return value
