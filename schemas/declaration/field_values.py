"""What is declared of a field's values: whether a date format is one, and whether values fit the type."""

import math
import re
from datetime import datetime
from typing import Any

UNIX_FORMATS = ("unix", "unix_ms")
_DIRECTIVES = frozenset("aAwdbBmyYHIpMSfzZjUWcxXGuV%")
_NUMBER = re.compile(r"-?\d{1,15}(?:\.\d{1,15})?")
# A format needs one of these directives for each part, to give a complete date.
_DATE_PARTS = {"day": "djcxu", "month": "mbBjcxV", "year": "yYcxG"}


def check_format(text: str) -> None:
    """Raises ValueError for a strptime format that is invalid, or that lacks day, month or year."""
    if text in UNIX_FORMATS:
        return
    written_directives = re.findall(r"%(.?)", text, re.DOTALL)
    for directive in written_directives:
        if directive not in _DIRECTIVES or not directive:
            raise ValueError(
                f"format: %{directive} is no strptime directive; they are %d %m %Y %H %M %S %B …, and %d reads 5 "
                "as well as 05"
            )
    for part, directives in _DATE_PARTS.items():
        if not any(directive in directives for directive in written_directives):
            raise ValueError(f"format: {text!r} has no {part}; a date needs day, month and year")
    try:
        datetime.strptime(datetime(2024, 11, 23, 14, 5).strftime(text), text)
    except ValueError as error:  # directives that contradict each other, such as %G without a week
        raise ValueError(f"format: {error}") from error


def unlike(value: Any, kind: str) -> str:
    """Returns a description of what the type requires where `value` does not fit it, else an empty text."""
    is_number = (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and (isinstance(value, int) or math.isfinite(value))
    )
    match kind:
        case "integer":
            return "" if is_number and value == int(value) else "a whole number"
        case "number":
            return "" if is_number else "a number"
        case "boolean":
            return "" if isinstance(value, bool) else "true or false"
        case "price":
            return (
                ""
                if isinstance(value, dict) and {"amount", "currency"} >= value.keys() >= {"amount"}
                else "{amount: ..., currency: ...}"
            )
        case "date" | "datetime":
            return "" if _is_iso(value) else "an ISO 8601 text such as 2024-05-03"
        case _:
            return "" if isinstance(value, str) else "a text"


def never_equal(value: Any, kind: str) -> str:
    """As `unlike`, of a value that is compared with converted ones, which have one spelling each."""
    match kind:
        case "price":
            whole = (
                isinstance(value, dict) and value.keys() == {"amount", "currency"} and isinstance(value["amount"], str)
            )
            return "" if whole else '{amount: "12.50", currency: €}, the currency as the page writes it or null'
        case "date":
            return (
                ""
                if _is_iso(value) and datetime.fromisoformat(value).date().isoformat() == value
                else "dates such as 2024-05-03"
            )
        case "datetime":
            return (
                ""
                if _is_iso(value) and datetime.fromisoformat(value).isoformat() == value
                else "times such as 2024-05-03T00:00:00"
            )
        case _:
            return unlike(value, kind)


def instead(value: Any, kind: str) -> str:
    """What to write for an allowed value of the wrong type; empty if that is not known."""
    if kind in ("integer", "number") and isinstance(value, str) and _NUMBER.fullmatch(value):
        return f"; write {value}, without quotes"
    if kind == "boolean" and isinstance(value, str) and value.lower() in ("true", "false"):
        return f"; write {value.lower()}, without quotes"
    if kind in ("text", "url", "html") and isinstance(value, bool | int | float):
        return f"; write '{str(value).lower()}', in quotes"
    return ""


def _is_iso(value: Any) -> bool:
    try:
        return bool(datetime.fromisoformat(value))
    except (TypeError, ValueError):
        return False
