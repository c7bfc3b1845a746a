"""Declared expectations: in short form for what is asked most, or by the name that Great Expectations has for them."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, ValidationError, ValidationInfo, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from almanac.schemas.declaration.expressions import Regex, check_regex
from almanac.schemas.declaration.field_rules import FieldRule
from almanac.schemas.declaration.model import DeclaredModel, Finding, Share
from almanac.schemas.declaration.named_expectations import Known, known_expectation, wrong_arguments
from almanac.schemas.declaration.near_words import did_you_mean

Severity = Literal["quarantine", "warn", "refuse"]
Needs = Literal["anything", "number", "text", "length", "number or date"]
# What the values of a field are, or the entries of a list; of what is unknown, only the data says.
Kind = Literal["number", "date", "yes or no", "text", "object", "unknown"]
_SHORT = ("unique", "not_null", "min_length", "max_length", "min", "max", "pattern", "one_of")
_ALWAYS = ("title", "url", "text")  # every item has these
_TYPES = ("str", "int", "float", "bool", "list", "dict")  # those of a field's value
# What those need that cannot judge any value, by parts of their names; the first that fits.
_NEEDED: dict[str, Needs] = {
    "regex": "text", "strftime": "text", "dateutil": "text", "json_parseable": "text", "_lengths_": "length",
    "_mean_": "number", "_median_": "number", "_stdev_": "number", "_sum_": "number", "z_scores": "number",
    "outliers": "number", "quantile": "number",
    "column_values_to_be_between": "number or date", "_min_": "number or date", "_max_": "number or date",
    "increasing": "number or date", "decreasing": "number or date", "greater_than": "number or date",
}  # fmt: skip
# What a need is called, and the kinds that meet it.
_WANTED: dict[str, tuple[str, tuple[Kind, ...]]] = {
    "number": ("numbers (type: integer, number or price)", ("number",)),
    "text": ("texts", ("text", "date")),
    "length": ("texts or lists", ("text", "date", "object")),
    "number or date": ("numbers or dates (type: integer, number, price, date or datetime)", ("number", "date")),
}
_IS = {"number": "a number", "date": "a date", "yes or no": "true or false", "text": "a text", "object": "an object"}


def needs_of(name: str) -> Needs:
    """The values that an expectation of the library can judge; a price counts as its amount."""
    return next((needs for part, needs in _NEEDED.items() if part in name), "anything")


def _plain_values(values: list[Any]) -> list[Any]:
    if not values:
        raise ValueError("must be a list of values")
    if not all(isinstance(value, str | int | float) for value in values):
        raise ValueError("its entries must be texts, numbers, true or false")
    return values


def _with_arguments(schema: dict[str, Any]) -> None:
    """In a JSON Schema: the arguments of a named expectation stand beside its name."""
    schema["additionalProperties"] = True
    schema["if"] = {"required": ["expectation"]}
    schema["else"] = {"propertyNames": {"enum": list(schema["properties"])}}


class Expectation(DeclaredModel):
    """A condition on the items, in one of two forms.

    Short, on a field: `{field: price, min: 0}`. By the name and with the arguments that Great Expectations has for it;
    the column is called `field`, all other arguments keep their names: `{expectation:
    expect_column_values_to_match_regex, field: code, regex: "^TO"}`.

    An expectation on single items rejects those that break it. One on a whole column or table
    (`expect_column_mean_to_be_between`, `expect_table_row_count_to_be_between`) judges what is left to publish, and its
    `severity` says what follows.
    """

    model_config = ConfigDict(json_schema_extra=_with_arguments)

    expectation: str | None = Field(
        None,
        description=(
            "name in Great Expectations, such as `expect_column_values_to_match_regex`; arguments stand beside it"
        ),
    )
    field: str | None = Field(None, description="name of a declared field, `title`, `url` or `text`")
    source: str | None = Field(
        None,
        description=(
            "only the items of this source; default: each source that has the field, and for the number of items "
            "all sources together"
        ),
    )
    severity: Severity | None = Field(
        None,
        description=(
            "what follows where it is broken. quarantine (default on single items): they are left out; "
            "warn: it is reported; refuse (default on a column or table): the gate refuses the version"
        ),
    )
    mostly: Share | None = Field(
        None,
        le=1,
        description=(
            "with severity warn or refuse on single items: the share of those with a value that has to satisfy "
            "it; default: all"
        ),
    )
    unique: bool = Field(False, description="no two items share the value")
    not_null: bool = Field(False, description="the value is there")
    min_length: int | None = Field(None, ge=0, description="characters of a text, or entries of a list, at least")
    max_length: int | None = Field(None, ge=0, description="characters of a text, or entries of a list, at most")
    min: float | None = Field(None, allow_inf_nan=False, description="smallest number")
    max: float | None = Field(None, allow_inf_nan=False, description="largest number")
    pattern: Regex | None = Field(None, description="regular expression that the text matches from its start")
    one_of: Annotated[list[Any], AfterValidator(_plain_values)] | None = Field(None, description="allowed values")
    arguments: dict[str, Any] = Field(
        {},
        description="gathered from the keys beside `expectation` that are none of these: its arguments, listed below",
    )

    @model_validator(mode="before")
    @classmethod
    def _gather_arguments(cls, data: Any) -> Any:
        """Without a name, unknown keys stay where they are, and are reported as such."""
        if not isinstance(data, dict) or data.get("expectation") is None:
            return data
        own = {key: value for key, value in data.items() if key in cls.model_fields}
        return {
            **own,
            "arguments": {
                **(own.get("arguments") or {}),
                **{key: value for key, value in data.items() if key not in own},
            },
        }

    @model_validator(mode="after")
    def _asks_for_something(self, info: ValidationInfo) -> Self:
        """Readers of what is published judge nothing, and need no library for it."""
        short = self._short
        if self.expectation is None:
            _require(self.arguments == {}, "arguments", "go with expectation: NAME")
            _require(self.field is not None, "", "field is required")
        else:
            alone = "goes without `expectation`: declare it as an expectation of its own"
            _require(not short, short[0] if short else "", alone)
            if not (info.context or {}).get("to_read"):
                self._check_named(self.expectation)
        lenient = self.severity in ("warn", "refuse")
        _require(
            self.mostly is None or lenient,
            "mostly",
            "goes with severity: warn or refuse; otherwise each item that breaks the expectation is rejected",
        )
        for low, high in (("min", "max"), ("min_length", "max_length")):
            least, most = getattr(self, low), getattr(self, high)
            _require(least is None or most is None or least <= most, high, f"is below {low}")
        return self

    def _check_named(self, name: str) -> None:
        try:
            known = known_expectation(name)
        except ValueError as error:
            raise _problems_at([(("expectation",), str(error))]) from None
        if known.fields == ("column",):
            _require(self.field is not None, "", "field is required")
        else:
            names = " and ".join(known.fields)
            finding = f"goes into {names} here" if names else "this one is about all items, and takes no field"
            _require(self.field is None, "field", finding)
        problems = [*wrong_arguments(name, self.arguments)] or [*_unjudgeable(needs_of(name), self.arguments)]
        if problems:
            raise _problems_at([((key,) if key else (), message) for key, message in problems])
        if known.level != "row":
            _require(self.severity != "quarantine", "severity", "no single item breaks this one: warn, or refuse")
            _require(self.mostly is None, "mostly", "goes with expectations on single items")

    @property
    def known(self) -> Known | None:
        """The library's expectation of that name; None for the short form."""
        return None if self.expectation is None else known_expectation(self.expectation)

    @property
    def fields(self) -> dict[str, str]:
        """The fields that it names, by the key that names each: `field`, `column_A`, `column_list.0`."""
        if self.field is not None:
            return {"field": self.field}
        named = {key: self.arguments[key] for key in (self.known.fields if self.known is not None else ())}
        if "column_list" in named:
            return {f"column_list.{place}": name for place, name in enumerate(named["column_list"])}
        return named

    @property
    def is_empty(self) -> bool:
        """Whether it asks for nothing: `{field: price}`."""
        return self.expectation is None and not self._short

    @property
    def _short(self) -> list[str]:
        return [key for key in _SHORT if getattr(self, key) is not None and getattr(self, key) is not False]

    @property
    def needs(self) -> Needs:
        """What the values have to be."""
        if self.expectation is not None:
            return needs_of(self.expectation)
        return "anything" if self.min is None and self.max is None else "number"

    def misfit(self, key: str, kind: Kind, *, is_list: bool) -> tuple[str, str] | None:
        """(key, message) for what cannot be judged on the values of the field that `key` names, whatever the data may
        be.
        """
        needs, name = self.needs, self.fields[key]
        if kind == "unknown" or (is_list and needs == "length"):
            return None
        wanted, kinds = _WANTED.get(needs, ("", tuple(_IS)))
        if kind not in kinds:
            return key, f"{self.expectation or self._short[0]} needs {wanted}; '{name}' is {_IS[kind]}"
        given = {
            bound: [self.arguments[bound]]
            for bound in ("min_value", "max_value")
            if needs == "number or date" and self.arguments.get(bound) is not None
        }
        given |= {"value_set": self.arguments.get("value_set") or [], "one_of": self.one_of or []}
        for place, values in given.items():
            for value in values:
                if (like := _like(kind)) and not like[1](value):
                    return place, f"must be {like[0]}, as '{name}' is {_IS[kind]}; found {value!r}"
        return None


def _like(kind: Kind) -> tuple[str, Callable[[Any], bool]] | None:
    """What a value must be to be compared with values of that kind, and a test of it."""
    match kind:
        case "number":
            return "numbers", lambda value: isinstance(value, int | float) and not isinstance(value, bool)
        case "yes or no":
            return "true or false", lambda value: isinstance(value, bool)
        case "text":
            return "texts", lambda value: isinstance(value, str)
        case "date":
            return "ISO 8601 dates such as 2024-05-03", _is_moment
    return None


def _is_moment(value: Any) -> bool:
    try:
        return isinstance(value, str) and bool(datetime.fromisoformat(value))
    except ValueError:
        return False


def _unjudgeable(needs: Needs, arguments: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields (argument, what is wrong with it) for what the library takes and cannot judge here."""
    bounds = [arguments.get(key) for key in ("min_value", "max_value")]
    for key, value in zip(("min_value", "max_value"), bounds, strict=True):
        if isinstance(value, str) and needs != "number or date":
            yield key, f"must be a number; found {value!r}"
        elif isinstance(value, str) and not _is_moment(value):
            yield key, f"must be a number, or a date such as 2024-05-03; found {value!r}"
    low, high = bounds
    if low is not None and high is not None:
        if isinstance(low, str) != isinstance(high, str):
            yield "max_value", "min_value and max_value must both be numbers, or both dates"
        elif low > high:
            yield "max_value", f"is below min_value: no value is between {low!r} and {high!r}"
    if arguments.get("value_set") == []:
        yield "value_set", "must be a list of values; found []"
    for key in ("regex", "regex_list"):
        patterns = arguments.get(key) or []
        for pattern in patterns if isinstance(patterns, list) else [patterns]:
            try:
                check_regex(pattern)
            except (TypeError, ValueError) as error:
                yield key, f"{error}; found {pattern!r}"
    for key in ("type_", "type_list"):
        types = arguments.get(key) or []
        if not {*(types if isinstance(types, list) else [types])} <= {*_TYPES}:
            yield key, f"must be one of {', '.join(_TYPES)}; found {types!r}"
    if (schema := arguments.get("json_schema")) is not None:
        yield from (("json_schema", problem) for problem in _problems_of_schema(schema))


def _problems_of_schema(schema: dict[str, Any]) -> Iterator[str]:
    """What is wrong with a JSON Schema: also a reference that leads out of it, for which the network or a file would be
    asked while values are judged.
    """
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for

    try:
        validator_for(schema).check_schema(schema)
    except SchemaError as error:
        yield f"not a JSON Schema: {error.message}"
    except RecursionError:
        yield "not a JSON Schema: nested too deeply"
    waiting: list[Any] = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            strange = [
                f"{key}: {node[key]}"
                for key in ("$ref", "$dynamicRef", "$recursiveRef", "$id", "id")
                if isinstance(node.get(key), str) and (key[-2:] == "id" or not node[key].startswith("#"))
            ]
            yield from (
                f"{reference} leads out of the schema, and nothing is fetched: #/$defs/NAME" for reference in strange
            )
        waiting += node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()


def kind_of(rule: FieldRule) -> Kind:
    """What the values of a field are, or the entries of a list; `unknown` where only the data says."""
    if rule.fields is not None:
        return "object"
    if "count" in rule.process:
        return "number"
    if "join" in rule.process:
        return "text"
    match rule.type:
        case "integer" | "number" | "price":
            return "number"
        case "date" | "datetime":
            return "date"
        case "boolean":
            return "yes or no"
        case "text" | "url" | "html":
            return "text"
    return "unknown" if rule.json_ is not None or rule.const is not None or rule.default is not None else "text"


def _require(holds: bool, key: str, message: str) -> None:
    if not holds:
        raise _problems_at([((key,) if key else (), message)])


def _problems_at(problems: list[tuple[tuple[str | int, ...], str]]) -> ValidationError:
    """One error that names the key of each problem, so that it is reported with its line."""
    errors = [
        InitErrorDetails(type=PydanticCustomError("expectation", "{message}", {"message": message}), loc=loc, input={})
        for loc, message in problems
    ]
    return ValidationError.from_exception_data("Expectation", errors)


def unfit_expectations(
    expectations: list[Expectation], sources: Mapping[str, Mapping[str, FieldRule] | None]
) -> Iterator[Finding]:
    """Yields what is wrong with expectations that name a source or field that is not declared, or one of the wrong
    kind.

    Args:
        expectations: `validate.expect`.
        sources: source → its declared fields; None where the fields are those of the file.
    """
    for number, expectation in enumerate(expectations):
        for key, message in _unfit(expectation, sources):
            name, _, place = key.partition(".")
            argument: Any = getattr(expectation, name, None) or expectation.arguments.get(name)
            path: tuple[str | int, ...] = (name, int(place)) if place else (name,)
            yield Finding(("validate", "expect", number, *path), message, argument[int(place)] if place else argument)


def _unfit(
    expectation: Expectation, sources: Mapping[str, Mapping[str, FieldRule] | None]
) -> Iterator[tuple[str, str]]:
    if expectation.source is not None and expectation.source not in sources:
        hint = did_you_mean(expectation.source, sources)
        yield "source", f"no source '{expectation.source}'{hint}; declared: {', '.join(sources)}"
        return
    judged = [rules for name, rules in sources.items() if expectation.source in (None, name)]
    known = sorted({*_ALWAYS}.union(*(rules for rules in judged if rules is not None)))
    for key, name in expectation.fields.items():
        if name not in known and None not in judged:
            yield key, f"no field '{name}'{_hint(name, known, judged)}; declared: {', '.join(known)}"
            return
    if expectation.is_empty:
        names = ", ".join(_SHORT)
        yield (
            "field",
            f"nothing is expected of it: give one of {names}, or expectation: NAME, as Great Expectations does",
        )
    together = [
        rules for rules in judged if rules is not None and {*rules, *_ALWAYS} >= set(expectation.fields.values())
    ]
    if not together and None not in judged:
        yield next(iter(expectation.fields), "source"), f"no source has all of {', '.join(expectation.fields.values())}"
    kinds: dict[str, Kind] = {}
    for key, name in expectation.fields.items():
        for rules in together:
            rule = rules.get(name)
            kinds[key] = "text" if rule is None else kind_of(rule)
            is_list = rule is not None and (rule.many or "split" in rule.process)
            if problem := expectation.misfit(key, kinds[key], is_list=is_list):
                yield problem
                break
    if {*kinds.values()} == {"number", "date"} and expectation.needs == "number or date":
        yield "column_B", f"a number cannot be compared with a date; found {' and '.join(expectation.fields.values())}"


def _hint(name: str, known: list[str], judged: list[Mapping[str, FieldRule] | None]) -> str:
    """What may have been meant by a name that is no field."""
    outer = name.partition(".")[0]
    if outer == name or outer not in known:
        return did_you_mean(name, known)
    if any(rules is not None and outer in rules and rules[outer].type == "price" for rules in judged):
        return f"; '{outer}' counts as its amount"
    return (
        f"; conditions on what is in '{outer}' stand with its own fields, or in "
        "expect_column_values_to_match_json_schema"
    )
