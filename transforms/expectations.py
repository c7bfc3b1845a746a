"""Translates declared expectations to data: one row per expectation, in terms of Great Expectations."""

from typing import Any, Literal, NamedTuple

from almanac.schemas.declaration import Declaration
from almanac.schemas.declaration.gate import Expectation
from almanac.schemas.declaration.source import Source


class ColumnExpectation(NamedTuple):
    """One expectation on a field.

    Attributes:
        type: class name in Great Expectations.
        arguments: keyword arguments of that class.
        rule: the rule as declared, for reports.
        aspect: what is checked: the value itself, its length, its number, or its canonical JSON (`key`).
    """

    type: str
    field: str
    arguments: dict[str, Any]
    rule: str
    aspect: Literal["value", "length", "number", "key"] = "value"


def expectations_of(declaration: Declaration, source: Source) -> list[ColumnExpectation]:
    """The expectations on the items of `source`, in declared order: `required` and `one_of` of its fields, then `validate.expect`."""
    found: list[ColumnExpectation] = []
    fields = source.declared_fields()
    for name, rule in fields.items():
        if rule.required:
            found.append(ColumnExpectation("ExpectColumnValuesToNotBeNull", name, {}, "required: true"))
        if rule.one_of is not None:
            found.append(ColumnExpectation("ExpectColumnValuesToBeInSet", name, {"value_set": rule.one_of}, f"one_of: {rule.one_of}"))
    for expectation in declaration.validate_.expect:
        if source.takes_own_fields or expectation.field in {*fields, "title", "url", "text"}:
            found += _declared(expectation)
    return found


def _declared(expectation: Expectation) -> list[ColumnExpectation]:
    column, found = expectation.field, []
    if expectation.not_null:
        found.append(ColumnExpectation("ExpectColumnValuesToNotBeNull", column, {}, "not_null: true"))
    if expectation.unique:
        found.append(ColumnExpectation("ExpectColumnValuesToBeUnique", column, {}, "unique: true", "key"))
    if expectation.one_of is not None:
        found.append(ColumnExpectation("ExpectColumnValuesToBeInSet", column, {"value_set": expectation.one_of}, f"one_of: {expectation.one_of}"))
    if expectation.pattern is not None:
        found.append(ColumnExpectation("ExpectColumnValuesToMatchRegex", column, {"regex": f"^(?:{expectation.pattern})"}, f"pattern: {expectation.pattern}"))
    if expectation.min_length is not None or expectation.max_length is not None:
        found.append(_between(column, "length", {"min_length": expectation.min_length, "max_length": expectation.max_length}))
    if expectation.min is not None or expectation.max is not None:
        found.append(_between(column, "number", {"min": expectation.min, "max": expectation.max}))
    return found


def _between(column: str, aspect: Literal["length", "number"], limits: dict[str, float | None]) -> ColumnExpectation:
    rule = ", ".join(f"{name}: {limit:g}" for name, limit in limits.items() if limit is not None)
    low, high = limits.values()
    return ColumnExpectation("ExpectColumnValuesToBeBetween", column, {"min_value": low, "max_value": high}, rule, aspect)
