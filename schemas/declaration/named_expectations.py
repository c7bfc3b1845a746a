"""Asks the classes of Great Expectations which expectations there are, what each judges, and whether arguments fit.

The library is imported with the first question, and takes two seconds for it.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Literal, NamedTuple

from almanac.schemas.declaration.near_words import did_you_mean

# row: judged item by item. column: one value of all items of a source. table: how many items there are. names: which
# fields the items have.
Level = Literal["row", "column", "table", "names"]
_DATABASE = "the library judges it in databases only"
# What cannot be declared, by a part of its name, and why.
_NOT_TAKEN = {
    "like_pattern": f"{_DATABASE}; expect_column_values_to_match_regex judges texts here",
    "query": _DATABASE,
    "unexpected_rows": _DATABASE,
    "other_table": "there is no other table; expect_table_row_count_to_be_between takes limits",
    "column_type_to_be": "it asks how a data frame stores values; expect_column_values_to_be_of_type judges them",
    "kl_divergence": "it compares with a stored distribution; expect_column_quantile_values_to_be_between takes limits",
}
# The conditions of the library on rows are code, `mostly` is a key of ours, and what is judged stands beside these.
_NO_ARGUMENTS = {"row_condition", "condition_parser", "mostly", "library_metadata", "allow_relative_error"}
# What the library does without, and then takes anything for right.
_NEEDED = {"regex", "type_list", "column_list", "column_set"}


class Known(NamedTuple):
    """One expectation of the library.

    Attributes:
        level: what is judged.
        fields: the arguments that name fields: `column`; `column_A` and `column_B`; `column_list`; none.
        arguments: the others that it takes.
        required: those of `arguments` that must be given.
    """

    level: Level
    fields: tuple[str, ...]
    arguments: tuple[str, ...]
    required: tuple[str, ...]


@cache
def known_expectation(name: str) -> Known:
    """What the library says of an expectation. Raises ValueError with the reason where it cannot be declared."""
    from great_expectations.expectations import expectation as kinds

    if name not in _names():
        snake = "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")  # as its class is called
        raise ValueError(f"Great Expectations has no '{name}'{did_you_mean(snake, declarable_expectations())}")
    if reason := _reason_against(name):
        raise ValueError(f"{name} cannot be declared: {reason}")
    model = _class(name)
    of_rows = (kinds.ColumnMapExpectation, kinds.ColumnPairMapExpectation, kinds.MulticolumnMapExpectation)
    level: Level = (
        "row"
        if issubclass(model, of_rows)
        else "column"
        if issubclass(model, kinds.ColumnAggregateExpectation)
        else "table"
        if "row_count" in name
        else "names"
    )
    domain = ("column", "column_A", "column_B", *(["column_list"] if level == "row" else ()))
    own = [key for key in model.__fields__ if key not in kinds.BatchExpectation.__fields__]
    arguments = tuple(key for key in own if key not in {*_NO_ARGUMENTS, *domain})
    required = tuple(key for key in arguments if model.__fields__[key].required or key in _NEEDED)
    return Known(level, tuple(key for key in own if key in domain), arguments, required)


def declarable_expectations() -> list[str]:
    """The names of what can be declared, by what is judged."""
    names = [name for name in _names() if not _reason_against(name)]
    return sorted(names, key=lambda name: ("row", "column", "table", "names").index(known_expectation(name).level))


def refused_expectations() -> dict[str, str]:
    """Name → reason, of what the library has and nobody can declare."""
    return {name: reason for name in _names() if (reason := _reason_against(name))}


def _reason_against(name: str) -> str:
    return next((reason for part, reason in _NOT_TAKEN.items() if part in name), "")


def wrong_arguments(name: str, arguments: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields (argument, what is wrong with it) for each problem; an empty argument where several are concerned."""
    known = known_expectation(name)
    takes = [key for key in (*known.fields, *known.arguments) if key != "column"]
    for key in arguments.keys() - {*takes}:
        if key == "column":
            yield key, "a field is named by `field` here"
        else:
            yield key, f"unknown argument{did_you_mean(key, takes)}; it takes {', '.join(takes) or 'none'}"
    given = {key: value for key, value in arguments.items() if key in takes and value is not None}
    yield from (("", f"{key} is required") for key in (*known.fields, *known.required) if key not in {*given, "column"})
    if "min_value" in takes and not given.keys() & {"min_value", "max_value"}:
        yield "", "at least one of min_value and max_value is required"
        return
    try:
        _class(name)(**given, **{key: "x" for key in known.fields if key == "column"})
    except ValueError as error:  # pydantic's, in the version that the library has of it
        messages_by_key: dict[str, list[str]] = {}
        refusal: Any = error
        for detail in refusal.errors():
            if detail["msg"] != "value is not a valid dict":  # which is the library's form for parameters
                messages_by_key.setdefault(str(detail["loc"][0]), []).append(detail["msg"])
        for key, messages in messages_by_key.items():
            if key in given:
                yield key, f"{'; '.join(dict.fromkeys(messages))}; found {given[key]!r}"
            elif messages != ["field required"]:
                yield "", messages[0]


@cache
def _names() -> tuple[str, ...]:
    import great_expectations.expectations.core  # noqa: F401  # which registers them
    from great_expectations.expectations.registry import list_registered_expectation_implementations

    return tuple(sorted(list_registered_expectation_implementations()))


def _class(name: str) -> Any:
    from great_expectations.expectations.registry import get_expectation_impl

    return get_expectation_impl(name)
