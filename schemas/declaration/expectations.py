"""Declared expectations: in short form for what is asked most, or by the name that Great Expectations has for them."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from almanac.schemas.declaration.expectation_arguments import did_you_mean, is_moment, problem_of, wrong_arguments
from almanac.schemas.declaration.expectation_catalog import CATALOG, NOT_TAKEN, Known
from almanac.schemas.declaration.expressions import Regex
from almanac.schemas.declaration.fields import FieldRule
from almanac.schemas.declaration.model import DeclaredModel, Finding, Share

Severity = Literal["quarantine", "warn", "refuse"]
# What the values of a field are, or the entries of a list; of what is unknown, only the data says.
Kind = Literal["number", "date", "yes or no", "text", "object", "unknown"]
_SHORT = ("unique", "not_null", "min_length", "max_length", "min", "max", "pattern", "one_of")
_FINE: dict[str, frozenset[str]] = {
    "anything": frozenset({"number", "date", "yes or no", "text", "object"}),
    "number": frozenset({"number"}),
    "text": frozenset({"text", "date"}),
    "length": frozenset({"text", "date", "object"}),
    "number or date": frozenset({"number", "date"}),
}


def _values(value: list[Any]) -> list[Any]:
    if problem := problem_of("values", value):
        raise ValueError(problem)
    return value


class Expectation(DeclaredModel):
    """A condition on the items, in one of two forms.

    Short, on a field: `{field: price, min: 0}`. By the name and with the arguments that Great Expectations has for it;
    the column is called `field`, all other arguments keep their names: `{expectation:
    expect_column_values_to_match_regex, field: code, regex: "^TO"}`.

    An expectation on single items quarantines those that break it. One on a whole column or table
    (`expect_column_mean_to_be_between`, `expect_table_row_count_to_be_between`) judges what is left to publish, and its
    `severity` says what follows.
    """

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
        description="what follows where it is broken. quarantine (the default on single items): the items are left "
        "out; "
        "warn: it is reported; "
        "refuse (the default on a whole column or table): the gate refuses the version",
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
    one_of: Annotated[list[Any], AfterValidator(_values)] | None = Field(None, description="allowed values")
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
    def _asks_for_something(self) -> Self:
        short = self._short
        if self.expectation is None:
            _require(self.arguments == {}, "arguments", "go with expectation: NAME")
            _require(self.field is not None, "", "field is required")
        else:
            _require(
                not short,
                short[0] if short else "",
                "goes without `expectation`: declare it as an expectation of its own",
            )
            self._check_named(_known(self.expectation))
        lenient = self.severity in ("warn", "refuse")
        _require(
            self.mostly is None or lenient,
            "mostly",
            "goes with severity: warn or refuse; otherwise each item that breaks the expectation is quarantined",
        )
        for low, high in (("min", "max"), ("min_length", "max_length")):
            least, most = getattr(self, low), getattr(self, high)
            _require(least is None or most is None or least <= most, high, f"is below {low}")
        return self

    def _check_named(self, known: Known) -> None:
        if known.over == "field":
            _require(self.field is not None, "", "field is required")
        else:
            names = {"pair": "column_A and column_B", "fields": "column_list"}.get(known.over)
            _require(
                self.field is None,
                "field",
                f"goes into {names} here" if names else "this one is about all items, and takes no field",
            )
        problems = list(wrong_arguments(known, self.arguments))
        if problems:
            raise _problems_at(
                "Expectation",
                [
                    ((name,), message) if name in self.arguments else ((), f"{name} {message}".strip())
                    for name, message in problems
                ],
            )
        if known.level != "row":
            _require(self.severity != "quarantine", "severity", "no single item breaks this one: warn, or refuse")
            _require(self.mostly is None, "mostly", "goes with expectations on single items")

    @property
    def known(self) -> Known | None:
        """The library's expectation of that name; None for the short form."""
        return None if self.expectation is None else CATALOG[self.expectation]

    @property
    def fields(self) -> dict[str, str]:
        """The fields that it names, by the key that names each: `field`, `column_A`, `column_list.0`."""
        if self.field is not None:
            return {"field": self.field}
        over = self.known.over if self.known is not None else "items"
        if over == "pair":
            return {key: self.arguments[key] for key in ("column_A", "column_B")}
        return (
            {f"column_list.{n}": name for n, name in enumerate(self.arguments["column_list"])}
            if over == "fields"
            else {}
        )

    @property
    def is_empty(self) -> bool:
        """Whether it asks for nothing: `{field: price}`."""
        return self.expectation is None and not self._short

    @property
    def _short(self) -> list[str]:
        return [key for key in _SHORT if getattr(self, key) is not None and getattr(self, key) is not False]

    def misfits(self, key: str, kind: Kind) -> Iterator[tuple[str, str]]:
        """Yields (key, message) for what cannot be judged on the values of the field that `key` names, whatever the
        data may be.
        """
        if kind == "unknown":
            return
        name, needs, arguments = self.fields[key], self.needs, self.arguments
        if kind not in _FINE[needs]:
            yield key, f"{self._asked} needs {_WANTED[needs]}; '{name}' is {_IS[kind]}"
            return
        bounds = {key: arguments[key] for key in ("min_value", "max_value") if arguments.get(key) is not None}
        for bound, limit in bounds.items() if needs == "number or date" else ():
            if problem := _unlike(limit, kind):
                yield bound, f"must be {problem}, as '{name}' is {_IS[kind]}; found {limit!r}"
        for allowed in ("value_set", "one_of"):
            values = arguments.get(allowed) if allowed == "value_set" else self.one_of
            if strange := [(value, problem) for value in values or () if (problem := _unlike(value, kind))]:
                value, problem = strange[0]
                yield allowed, f"must hold {problem}, as '{name}' is {_IS[kind]}; found {value!r}"
        side = {"column_A": 0, "column_B": 1}.get(key)
        for pair in arguments.get("value_pairs_set") or () if side is not None else ():
            if problem := _unlike(pair[side], kind):
                yield "value_pairs_set", f"must hold {problem} for '{name}', which is {_IS[kind]}; found {pair[side]!r}"
                return

    @property
    def _asked(self) -> str:
        return self.expectation or self._short[0]

    @property
    def needs(self) -> str:
        """What the values have to be, as in the catalog."""
        if self.known is not None:
            return self.known.needs
        if self.min is not None or self.max is not None:
            return "number"
        return "anything"


_WANTED = {
    "number": "numbers (type: integer, number or price)",
    "text": "texts",
    "length": "texts or lists",
    "number or date": "numbers or dates (type: integer, number, price, date or datetime)",
}
_IS: dict[str, str] = {
    "number": "a number",
    "date": "a date",
    "yes or no": "true or false",
    "text": "a text",
    "object": "an object with fields",
}


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


def _unlike(value: Any, kind: Kind) -> str:
    """What a value must be to be compared with values of that kind; empty where it is."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match kind:
        case "number":
            return "" if is_number else "numbers"
        case "yes or no":
            return "" if isinstance(value, bool) else "true or false"
        case "text":
            return "" if isinstance(value, str) else "texts"
        case "date":
            return "" if is_moment(value) else "ISO 8601 dates such as 2024-05-03"
    return ""


def _known(name: str) -> Known:
    if name in CATALOG:
        return CATALOG[name]
    if name in NOT_TAKEN:
        raise _problems_at("Expectation", [(("expectation",), f"{name} cannot be declared: {NOT_TAKEN[name]}")])
    written = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()  # as its class is called
    raise _problems_at(
        "Expectation", [(("expectation",), f"Great Expectations has no '{name}'{did_you_mean(written, CATALOG)}")]
    )


def _require(holds: bool, key: str, message: str) -> None:
    if not holds:
        raise _problems_at("Expectation", [((key,) if key else (), message)])


def _problems_at(title: str, problems: list[tuple[tuple[str | int, ...], str]]) -> ValidationError:
    """One error that names the key of each problem, so that it is reported with its line."""
    errors = [
        InitErrorDetails(type=PydanticCustomError("expectation", "{message}", {"message": message}), loc=loc, input={})
        for loc, message in problems
    ]
    return ValidationError.from_exception_data(title, errors)


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
            path = _path(key)
            yield Finding(("validate", "expect", number, *path), message, _found(expectation, path))


def _found(expectation: Expectation, path: tuple[str | int, ...]) -> Any:
    """The value that a key of the declaration has; keys beside `expectation` that are not its own are arguments."""
    name = str(path[0]) if path else ""
    value = getattr(expectation, name) if name in type(expectation).model_fields else expectation.arguments.get(name)
    return value[path[1]] if len(path) > 1 and value is not None else value


def _path(key: str) -> tuple[str | int, ...]:
    name, _, place = key.partition(".")
    return (name, int(place)) if place else (name,)


def _unfit(
    expectation: Expectation, sources: Mapping[str, Mapping[str, FieldRule] | None]
) -> Iterator[tuple[str, str]]:
    if expectation.source is not None and expectation.source not in sources:
        yield (
            "source",
            f"no source '{expectation.source}'{did_you_mean(expectation.source, dict(sources))}; declared: "
            f"{', '.join(sources)}",
        )
        return
    judged = [rules for name, rules in sources.items() if expectation.source in (None, name)]
    known = sorted({"title", "url", "text"}.union(*(rules for rules in judged if rules is not None)))
    for key, name in expectation.fields.items():
        if name not in known and None not in judged:
            yield key, f"no field '{name}'{_hint(name, known, judged)}; declared: {', '.join(known)}"
            return
    if expectation.is_empty:
        yield (
            "field",
            f"nothing is expected of it: give one of {', '.join(_SHORT)}, or expectation: NAME, as Great "
            "Expectations calls it",
        )
    together = [
        rules
        for rules in judged
        if rules is not None and all(name in {*rules, "title", "url", "text"} for name in expectation.fields.values())
    ]
    if not together and None not in judged:
        yield next(iter(expectation.fields), "source"), f"no source has all of {', '.join(expectation.fields.values())}"
    for key, name in expectation.fields.items():
        for rules in together:
            rule = rules.get(name)
            is_list = rule is not None and (rule.many or "split" in rule.process)
            misfits = (
                []
                if is_list and expectation.needs == "length"
                else list(expectation.misfits(key, "text" if rule is None else kind_of(rule)))
            )
            yield from misfits
            if misfits:
                break
    if (
        expectation.known is not None
        and expectation.known.over == "pair"
        and expectation.known.needs == "number or date"
    ):
        yield from _unlike_pair(expectation, together)


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


def _unlike_pair(expectation: Expectation, together: list[Mapping[str, FieldRule]]) -> Iterator[tuple[str, str]]:
    """A number compared with a date."""
    one, other = expectation.fields.values()
    for rules in together:
        kinds = [kind_of(rules[name]) if name in rules else "text" for name in (one, other)]
        if set(kinds) == {"number", "date"}:
            yield "column_B", f"'{other}' is {_IS[kinds[1]]}, and '{one}' is {_IS[kinds[0]]}"
            return
