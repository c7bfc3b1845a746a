"""Metadata filters, resolved to chunk ids by ourselves: Chroma's own `where` takes about a second where this takes milliseconds.

The grammar is Chroma's: `{"field": value}`, `{"field": {"$gte": 3}}`, `{"$and": [...]}`, `{"$or": [...]}`, and `{"$not": {...}}`. Two differences:
a row without the field matches no operator (`$not` turns its filter's answer round), and a dotted name reaches into nested values (`price.amount`;
any entry of a list may match). Amounts are decimal strings: a text that is a number compares with numbers as one.
"""

import operator
from collections.abc import Callable, Sequence
from typing import Any

from schemas.errors import UsageError

Columns = Callable[[str], Sequence[Any]]


def _numeric(value: Any) -> Any:
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def _typed(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def test(found: Any, wanted: Any) -> bool:
        if isinstance(wanted, int | float) and not isinstance(wanted, bool):
            found = _numeric(found)
        try:
            return compare(found, wanted)
        except TypeError:
            return False

    return test


_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": _typed(operator.eq),
    "$gt": _typed(operator.gt),
    "$gte": _typed(operator.ge),
    "$lt": _typed(operator.lt),
    "$lte": _typed(operator.le),
    "$in": lambda found, wanted: any(_OPERATORS["$eq"](found, one) for one in wanted),
    "$contains": lambda found, wanted: isinstance(found, str) and str(wanted) in found,
}
_NEGATED = {"$ne": "$eq", "$nin": "$in"}


def matching_rows(where: Any, column: Columns, size: int, names: Sequence[str]) -> list[bool]:
    """A mask over the version's rows. `column` gives a field's values, None where a row lacks it; `names` are the fields there are."""
    if not isinstance(where, dict) or not where:
        raise UsageError(f'a filter is an object such as {{"field": value}}; found {where!r}', where="--where")
    masks = [_clause(key, wanted, column, size, names) for key, wanted in where.items()]
    return [all(row) for row in zip(*masks, strict=True)]


def _clause(key: str, wanted: Any, column: Columns, size: int, names: Sequence[str]) -> list[bool]:
    if key in ("$and", "$or"):
        if not isinstance(wanted, list) or not wanted:
            raise UsageError(f"{key} takes a list of filters; found {wanted!r}", where="--where")
        masks = [matching_rows(part, column, size, names) for part in wanted]
        combine = all if key == "$and" else any
        return [combine(row) for row in zip(*masks, strict=True)]
    if key == "$not":
        return [not matches for matches in matching_rows(wanted, column, size, names)]
    if key.startswith("$"):
        raise UsageError(f"unknown operator {key}", where="--where", hint="at this place: $and, $or, $not, or a field's name")
    if key.partition(".")[0] not in names:
        raise UsageError(f"no field '{key}' in this version", where="--where", hint=f"fields: {', '.join(names) or 'none'}")
    tests = wanted if isinstance(wanted, dict) else {"$eq": wanted}
    values = [_reach(value, key.split(".")[1:]) for value in column(key.partition(".")[0])]
    masks = [[_test(name, value, limit) for value in values] for name, limit in tests.items()]
    return [all(row) for row in zip(*masks, strict=True)] if masks else [True] * size


def _test(name: str, value: Any, wanted: Any) -> bool:
    if name not in _OPERATORS and name not in _NEGATED:
        raise UsageError(f"unknown operator {name}", where="--where", hint=f"use one of {', '.join([*_OPERATORS, *_NEGATED])}")
    if name in ("$in", "$nin") and not isinstance(wanted, list):
        raise UsageError(f"{name} takes a list; found {wanted!r}", where="--where")
    if value is None:
        return False
    if name in _NEGATED:
        return not _any(_OPERATORS[_NEGATED[name]], value, wanted)
    return _any(_OPERATORS[name], value, wanted)


def _any(test: Callable[[Any, Any], bool], value: Any, wanted: Any) -> bool:
    """A list matches when one of its entries does."""
    return any(test(v, wanted) for v in value) if isinstance(value, list) else test(value, wanted)


def _reach(value: Any, path: list[str]) -> Any:
    for number, key in enumerate(path):
        if isinstance(value, list):
            found = [_reach(entry, path[number:]) for entry in value]
            return [f for f in found if f is not None] or None
        value = value.get(key) if isinstance(value, dict) else None
    return value
