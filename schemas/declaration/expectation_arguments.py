"""Checks the arguments of a named expectation, as far as that is possible without data."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from math import isfinite
from typing import Any

from almanac.schemas.declaration.expectation_catalog import Argument, Known
from almanac.schemas.declaration.expressions import check_regex
from almanac.schemas.declaration.nearest import nearest

_TYPES = ("str", "int", "float", "bool", "list", "dict")  # those of a field's value
_CHOICES: dict[str, tuple[str, ...]] = {
    "match_on": ("any", "all"),
    "method": ("iqr", "std"),
    "missing_pair": ("both_values_are_missing", "either_value_is_missing", "neither"),
    "missing_any": ("all_values_are_missing", "any_value_is_missing", "never"),
}


def did_you_mean(name: str, names: Mapping[str, Any] | list[str]) -> str:
    """`; did you mean X` if a name is close, else an empty text."""
    close = nearest(name, names)
    return f"; did you mean {close}" if close else ""


def is_moment(value: Any) -> bool:
    """Whether a value is a date or a time in ISO 8601."""
    try:
        return isinstance(value, str) and bool(datetime.fromisoformat(value))
    except ValueError:
        return False


def wrong_arguments(known: Known, arguments: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields (argument, what is wrong with it) for each problem; an empty argument where several are concerned."""
    takes = dict(known.arguments)
    if known.over == "pair":
        takes |= {"column_A": "text", "column_B": "text"}
    elif known.over == "fields":
        takes |= {"column_list": "fields"}
    for name in arguments.keys() - takes.keys():
        yield name, "a field is named by `field` here" if name == "column" else _unknown(name, takes)
    given = {name: value for name, value in arguments.items() if name in takes and value is not None}
    for name in [
        *known.required,
        *(("column_A", "column_B") if known.over == "pair" else ("column_list",) if known.over == "fields" else ()),
    ]:
        if name not in given:
            yield name, "is required"
    if known.some_of and not given.keys() & set(known.some_of):
        yield "", f"at least one of {' and '.join(known.some_of)} is required"
    for name, value in given.items():
        if problem := problem_of(takes[name], value):
            yield name, f"{problem}; found {value!r}"
    low, high = given.get("min_value"), given.get("max_value")
    if low is not None and high is not None:
        if isinstance(low, str) != isinstance(high, str):
            yield "max_value", "min_value and max_value must both be numbers, or both dates"
        elif low > high:
            yield "max_value", f"is below min_value: no value is between {low!r} and {high!r}"
    if known.over == "pair" and "column_A" in given and given["column_A"] == given.get("column_B"):
        yield "column_B", f"is column_A: '{given['column_B']}' would be compared with itself"


def _unknown(name: str, takes: Mapping[str, Argument]) -> str:
    return f"unknown argument{did_you_mean(name, takes)}" + (
        f"; it takes {', '.join(takes)}" if takes else "; it takes none"
    )


def problem_of(kind: Argument, value: Any) -> str:
    """What is wrong with a value of that kind; empty where nothing is."""
    if kind in _CHOICES:
        return "" if value in _CHOICES[kind] else f"must be one of {', '.join(_CHOICES[kind])}"
    return _CHECKS[kind](value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _bound(value: Any) -> str:
    return "" if _is_number(value) or is_moment(value) else "must be a number, or a date such as 2024-05-03"


def _number(value: Any) -> str:
    return "" if _is_number(value) else "must be a number"


def _count(value: Any) -> str:
    return (
        ""
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0
        else "must be a whole number, 0 or more"
    )


def _width(value: Any) -> str:
    return "" if _is_number(value) and value >= 0 else "must be a number, 0 or more"


def _share(value: Any) -> str:
    return "" if _is_number(value) and 0 <= value <= 1 else "must be a number from 0 to 1"


def _yes_or_no(value: Any) -> str:
    return "" if isinstance(value, bool) else "must be true or false"


def _text(value: Any) -> str:
    return "" if isinstance(value, str) and value else "must be a text"


def _regex(value: Any) -> str:
    if not isinstance(value, str):
        return "must be a regular expression"
    try:
        check_regex(value)
    except ValueError as error:
        return str(error)
    return ""


def _different(check: Callable[[Any], str]) -> Callable[[Any], str]:
    def checked(value: Any) -> str:
        if problem := check(value):
            return problem
        repeated = [entry for number, entry in enumerate(value) if entry in value[:number]]
        return f"names {repeated[0]!r} twice" if repeated else ""

    return checked


def _each(check: Callable[[Any], str], what: str, least: int = 1) -> Callable[[Any], str]:
    def checked(value: Any) -> str:
        if not isinstance(value, list) or len(value) < least:
            return f"must be a list of {what}" + (f", at least {least}" if least > 1 else "")
        return next((problem for entry in value if (problem := check(entry))), "")

    return checked


def _time_format(value: Any) -> str:
    if problem := _text(value):
        return problem
    try:
        datetime.strptime(datetime(2024, 11, 23, 14, 5).strftime(value), value)
    except ValueError as error:
        return f"not a strptime format: {error}"
    return "" if "%" in value else "not a strptime format: it has no directive such as %d"


def _value(value: Any) -> str:
    return (
        ""
        if isinstance(value, str | bool) or _is_number(value)
        else "its entries must be texts, numbers, true or false"
    )


def _pair(value: Any) -> str:
    return (
        ""
        if isinstance(value, list) and len(value) == 2 and not any(map(_value, value))
        else "its entries must be pairs of values"
    )


def _type(value: Any) -> str:
    return "" if value in _TYPES else f"must be one of {', '.join(_TYPES)}"


def _schema(value: Any) -> str:
    if not isinstance(value, dict) or not value:
        return "must be a JSON Schema"
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for

    try:
        validator_for(value).check_schema(value)
    except SchemaError as error:
        return f"not a JSON Schema: {error.message}"
    except RecursionError:
        return "not a JSON Schema: nested too deeply"
    return _strange_reference(value)


def _strange_reference(schema: dict[str, Any]) -> str:
    """What is wrong with a reference that leads nowhere within the schema: the library would ask the network or a file
    for it while it judges.

    Whatever looks like a reference is taken for one, wherever it stands, since another may lead to that place.
    """
    from referencing import Registry
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012, specification_with

    dialect = schema.get("$schema")
    specification = specification_with(dialect, default=DRAFT202012) if isinstance(dialect, str) else DRAFT202012
    waiting: list[tuple[Any, Any]] = [(schema, Registry().resolver_with_root(specification.create_resource(schema)))]
    while waiting:
        node, resolver = waiting.pop()
        if isinstance(node, dict):
            if node is not schema and isinstance(node.get("$id", node.get("id")), str):
                resolver = resolver.in_subresource(specification.create_resource(node))
            for key in ("$ref", "$dynamicRef", "$recursiveRef"):
                reference = node.get(key)
                try:
                    if isinstance(reference, str):
                        resolver.lookup(reference)
                except (Unresolvable, ValueError, LookupError, TypeError, AttributeError):
                    return (
                        f"{key}: {reference} leads to nothing within the schema, and nothing is fetched; what "
                        "stands under $defs is #/$defs/NAME"
                    )
        entries: Iterable[Any] = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
        waiting += [(entry, resolver) for entry in entries]
    return ""


def _ranges(value: Any) -> str:
    shape = "must be {quantiles: [0.5], value_ranges: [[1, 10]]}, one range for each quantile, null for no limit"
    if not isinstance(value, dict) or value.keys() != {"quantiles", "value_ranges"}:
        return shape
    quantiles, ranges = value["quantiles"], value["value_ranges"]
    if not (isinstance(quantiles, list) and isinstance(ranges, list) and quantiles and len(quantiles) == len(ranges)):
        return shape
    fits = all(
        isinstance(one, list) and len(one) == 2 and all(limit is None or _is_number(limit) for limit in one)
        for one in ranges
    )
    if fits and (empty := next((one for one in ranges if None not in one and one[0] > one[1]), None)):
        return f"no value is between {empty[0]!r} and {empty[1]!r}"
    return "" if fits and not any(map(_share, quantiles)) and quantiles == sorted(quantiles) else shape


_CHECKS: dict[Argument, Callable[[Any], str]] = {
    "bound": _bound,
    "number": _number,
    "count": _count,
    "width": _width,
    "share": _share,
    "yes_or_no": _yes_or_no,
    "text": _text,
    "regex": _regex,
    "regexes": _each(_regex, "regular expressions"),
    "time_format": _time_format,
    "values": _each(_value, "values"),
    "pairs": _each(_pair, "pairs of values"),
    "type": _type,
    "types": _each(_type, "types"),
    "schema": _schema,
    "ranges": _ranges,
    "fields": _different(_each(_text, "fields", 2)),
    "names": _different(_each(_text, "names")),
}
