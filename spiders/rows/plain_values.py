"""Values of databases and functions as JSON."""

import json
import math
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID


def as_line(row: Any) -> bytes:
    """A row as one line of JSON: times by ISO 8601, exact decimals as numbers where a float is equal to them, else as
    texts; what is no number as null. What JSON has no way to write is named instead of the row, so that the row is a
    reject.
    """
    try:
        return json.dumps(_plain(row), ensure_ascii=False, allow_nan=False).encode("utf-8", "surrogatepass")
    except (TypeError, ValueError, RecursionError) as error:
        return json.dumps(f"a row that cannot be written as JSON: {error}").encode()


def _plain(value: Any) -> Any:
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else None
        case Decimal():
            if not value.is_finite():
                return None
            return int(value) if value == int(value) and "." not in str(value) else _exact(value)
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case UUID():
            return str(value)
        case dict():
            return {str(key): _plain(inner) for key, inner in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_plain(inner) for inner in value]
        case bytes() | memoryview():
            raise TypeError("bytes are no text; leave the column out of the query, or decode it there")
    if hasattr(value, "item"):  # NumPy's
        return _plain(value.item())
    raise TypeError(f"{type(value).__name__} {str(value)[:80]!r}")


def _exact(value: Decimal) -> float | str:
    number = float(value)
    return number if Decimal(repr(number)) == value else str(value)
