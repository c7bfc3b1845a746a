"""What a declaration expects of its items, as plain data: one expectation a row, in the terms of Great Expectations."""

from typing import Any, NamedTuple

from schemas.declaration import Declaration, Expectation
from schemas.sources import Source


class ColumnExpectation(NamedTuple):
    """`type` is the class name in Great Expectations; `column` may be derived: `price#length`, `price#number`, `price#key`."""

    type: str
    column: str
    arguments: dict[str, Any]
    rule: str


def expectations_of(declaration: Declaration, source: Source) -> list[ColumnExpectation]:
    """Everything that the items of `source` must satisfy, in declared order: required and one_of of its fields, then validate.expect."""
    found: list[ColumnExpectation] = []
    fields = source.declared_fields()
    for name, rule in fields.items():
        if rule.required:
            found.append(ColumnExpectation("ExpectColumnValuesToNotBeNull", name, {}, "required: true"))
        if rule.one_of is not None and not rule.many:
            found.append(ColumnExpectation("ExpectColumnValuesToBeInSet", name, {"value_set": rule.one_of}, f"one_of: {rule.one_of}"))
    for expectation in declaration.validate_.expect:
        if expectation.field in {*fields, "title", "url", "text"}:
            found += _declared(expectation)
    return found


def _declared(expectation: Expectation) -> list[ColumnExpectation]:
    column, found = expectation.field, []
    if expectation.not_null:
        found.append(ColumnExpectation("ExpectColumnValuesToNotBeNull", column, {}, "not_null: true"))
    if expectation.unique:
        found.append(ColumnExpectation("ExpectColumnValuesToBeUnique", f"{column}#key", {}, "unique: true"))
    if expectation.one_of is not None:
        found.append(ColumnExpectation("ExpectColumnValuesToBeInSet", column, {"value_set": expectation.one_of}, f"one_of: {expectation.one_of}"))
    if expectation.pattern is not None:
        found.append(ColumnExpectation("ExpectColumnValuesToMatchRegex", column, {"regex": f"^(?:{expectation.pattern})"}, f"pattern: {expectation.pattern}"))
    for suffix, low, high in (("length", expectation.min_length, expectation.max_length), ("number", expectation.min, expectation.max)):
        if low is not None or high is not None:
            arguments = {"min_value": low, "max_value": high}
            names = ("min_length", "max_length") if suffix == "length" else ("min", "max")
            rule = ", ".join(f"{n}: {v}" for n, v in zip(names, (low, high), strict=True) if v is not None)
            found.append(ColumnExpectation("ExpectColumnValuesToBeBetween", f"{column}#{suffix}", arguments, rule))
    return found
