"""Translates what is declared of the items to rules in terms of Great Expectations: conditions on fields first, then
`validate.expect`.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from almanac.schemas.declaration import Declaration
from almanac.schemas.declaration.declared_expectations import Expectation, Severity, needs_of
from almanac.schemas.declaration.field_rules import FieldRule
from almanac.schemas.declaration.named_expectations import Known, known_expectation
from almanac.schemas.declaration.source import Source
from almanac.transforms.deduplicate import UNIQUE_ID

# What is judged of a value: the value itself, its type, its length (of none: none, or 0), itself if it is a text, its
# number, its place in time, its canonical JSON, a digest of that, or what mapping, or a regular expression, made of it:
# "met" where it is as declared.
Aspect = Literal[
    "value", "type", "length", "length from 0", "text", "number", "moment", "json", "key", "pattern", "mapped"
]
MET = "met"
# The expectations that judge an item by the others, so that all have to be there at once, by parts of their names.
_WHOLE = ("expect_column_values_to_be_unique", "compound_columns", "increasing", "decreasing", "z_scores", "outliers")
# The library takes a text apart; of one value that is none it makes an error, and of the whole rule with it.
_PARSED = (
    "expect_column_values_to_match_strftime_format",
    "expect_column_values_to_be_dateutil_parseable",
    "expect_column_values_to_be_json_parseable",
)


class Rule(NamedTuple):
    """One declared rule on the items of a source, or of all sources.

    Attributes:
        expectation: name in Great Expectations.
        arguments: its arguments, besides the names of columns.
        fields: what it looks at, in order; one for most, none where it is about the number of items.
        rule: the rule as declared, for reports.
        aspect: what is judged of a value.
        severity: what follows where it is broken.
        mostly: share of the items that has to satisfy it, where it quarantines none.
        by_mapping: whether mapping has rejected the items that break it.
        is_of_source: whether it was declared for its source by name.
    """

    expectation: str
    arguments: dict[str, Any]
    fields: tuple[str, ...]
    rule: str
    aspect: Aspect = "value"
    severity: Severity = "quarantine"
    mostly: float = 1.0
    by_mapping: bool = False
    is_of_source: bool = False

    @property
    def declared(self) -> tuple[str, tuple[str, ...], str]:
        """The same for the rules that come of one expectation in several sources, however their fields are judged."""
        return self.expectation, self.fields, self.rule

    @property
    def known(self) -> Known:
        return known_expectation(self.expectation)

    @property
    def is_whole(self) -> bool:
        """Whether all items have to be there at once."""
        return any(part in self.expectation for part in _WHOLE)

    @property
    def library_call(self) -> tuple[str, dict[str, Any]]:
        """What the library is asked, name and arguments.

        Its expectations on lengths measure the text that a list is printed as, and those on types fail where an object
        stands among other values that break one, and take true for an int: it gets lengths and names of types as
        values. Its regular expressions have no time limit: it gets what came of ours.
        """
        arguments = {key: value for key, value in self.arguments.items() if value is not None}
        if self.aspect == "pattern":
            return "expect_column_values_to_be_in_set", {"value_set": [MET]}
        match self.expectation:
            case "expect_column_value_lengths_to_be_between":
                return "expect_column_values_to_be_between", arguments
            case "expect_column_value_lengths_to_equal":
                return "expect_column_values_to_be_between", dict.fromkeys(
                    ("min_value", "max_value"), arguments["value"]
                )
            case "expect_column_values_to_be_of_type":
                return "expect_column_values_to_be_in_set", {"value_set": [arguments["type_"]]}
            case "expect_column_values_to_be_in_type_list":
                return "expect_column_values_to_be_in_set", {"value_set": arguments["type_list"]}
        return self.expectation, arguments

    @property
    def field(self) -> str:
        """The fields, for reports."""
        return ", ".join(self.fields)


def rules_of(declaration: Declaration, source: Source) -> list[Rule]:
    """The rules on the items of `source`, in declared order: its id, the conditions of its fields, then
    `validate.expect`.
    """
    rules = list(_of_id(source))
    fields = source.declared_fields()
    for name, rule in fields.items():
        rules += _of_field(name, rule)
    for expectation in declaration.validate_.expect:
        is_meant = expectation.source in (None, source.name)
        if (
            is_meant
            and not is_about_all(expectation)
            and (source.takes_own_fields or {*fields, "title", "url", "text"} >= set(expectation.fields.values()))
        ):
            rules += [
                rule._replace(is_of_source=expectation.source is not None) for rule in _declared(expectation, fields)
            ]
    return rules


def rules_of_all(declaration: Declaration) -> list[Rule]:
    """The rules on the items of all sources together: how many there are."""
    return [
        rule
        for expectation in declaration.validate_.expect
        if is_about_all(expectation)
        for rule in _declared(expectation, {})
    ]


def is_about_all(expectation: Expectation) -> bool:
    return expectation.source is None and expectation.known is not None and expectation.known.level == "table"


def _of_id(source: Source) -> Iterator[Rule]:
    if source.id != "url":
        yield Rule("expect_column_values_to_not_be_null", {}, ("id",), f"id: {source.id}", "mapped", by_mapping=True)
        yield Rule("expect_column_values_to_be_unique", {}, ("id",), UNIQUE_ID, "key", by_mapping=True)


def _of_field(name: str, rule: FieldRule) -> Iterator[Rule]:
    """The conditions of a field, then those of the fields in it. Mapping judges them, and presence is looked at again
    after cleaning.
    """
    is_nested = "." in name
    for key, declared in rule.conditions.items():
        if key == "required" and not is_nested:
            yield Rule("expect_column_values_to_not_be_null", {}, (name,), declared, "json", by_mapping=True)
        else:
            yield Rule(
                "expect_column_values_to_be_in_set", {"value_set": [MET]}, (name,), declared, "mapped", by_mapping=True
            )
    for inner, nested in (rule.fields or {}).items():
        yield from _of_field(f"{name}.{inner}", nested)


def _declared(expectation: Expectation, fields: dict[str, FieldRule]) -> Iterator[Rule]:
    if expectation.expectation is not None:
        yield _named(expectation, expectation.expectation, fields)
        return
    name, severity, mostly = expectation.field or "", expectation.severity or "quarantine", expectation.mostly

    def rule(kind: str, arguments: dict[str, Any], declared: str, aspect: Aspect = "value") -> Rule:
        return Rule(kind, arguments, (name,), declared, aspect, severity, 1.0 if mostly is None else mostly)

    if expectation.not_null:
        yield rule("expect_column_values_to_not_be_null", {}, "not_null: true", "json")
    if expectation.unique:
        yield rule("expect_column_values_to_be_unique", {}, "unique: true", "key")
    if expectation.one_of is not None:
        yield rule(
            "expect_column_values_to_be_in_set", {"value_set": expectation.one_of}, f"one_of: {expectation.one_of}"
        )
    if expectation.pattern is not None:
        yield rule(
            "expect_column_values_to_match_regex",
            {"regex": f"^(?:{expectation.pattern})"},
            f"pattern: {expectation.pattern}",
            "pattern",
        )
    for aspect, low, high in (("length from 0", "min_length", "max_length"), ("number", "min", "max")):
        limits = {key: limit for key in (low, high) if (limit := getattr(expectation, key)) is not None}
        if limits:
            arguments = {"min_value": limits.get(low), "max_value": limits.get(high)}
            declared = ", ".join(f"{key}: {limit:g}" for key, limit in limits.items())
            # of the literals above
            yield rule("expect_column_values_to_be_between", arguments, declared, aspect)  # type: ignore[arg-type]


def _named(expectation: Expectation, name: str, fields: dict[str, FieldRule]) -> Rule:
    known = known_expectation(name)
    columns = {key.partition(".")[0] for key in expectation.fields}
    arguments = {key: value for key, value in expectation.arguments.items() if value is not None and key not in columns}
    aspect = _aspect(name, arguments, [fields[field] for field in expectation.fields.values() if field in fields])
    if aspect == "moment":
        arguments = {
            key: moment(value) if key in ("min_value", "max_value") else value for key, value in arguments.items()
        }
    declared = ", ".join(
        [name, *(f"{key}: {value}" for key, value in expectation.arguments.items() if key not in columns)]
    )
    severity = expectation.severity or ("quarantine" if known.level == "row" else "refuse")
    mostly = 1.0 if expectation.mostly is None else expectation.mostly
    return Rule(name, arguments, tuple(expectation.fields.values()), declared, aspect, severity, mostly)


def _aspect(name: str, arguments: dict[str, Any], rules: list[FieldRule]) -> Aspect:
    if ("unique" in name and "within_record" not in name) or "non_null" in name:
        return "key"
    if name in (
        "expect_column_values_to_not_be_null",
        "expect_column_values_to_be_null",
        "expect_column_values_to_match_json_schema",
    ):
        return "json"
    if "regex" in name:
        return "pattern"
    if "type" in name:
        return "type"
    if name in _PARSED:
        return "text"
    needs = needs_of(name)
    if needs in ("length", "number"):
        return needs
    is_date = bool(rules) and all(rule.type in ("date", "datetime") for rule in rules)
    if needs == "number or date":
        return (
            "moment"
            if is_date or any(isinstance(arguments.get(key), str) for key in ("min_value", "max_value"))
            else "number"
        )
    return "value"


def moment(value: str) -> float:
    """Seconds since 1970; a time without an offset counts as UTC. Raises ValueError, TypeError."""
    read = datetime.fromisoformat(value)
    return (read if read.tzinfo is not None else read.replace(tzinfo=UTC)).timestamp()
