"""Declared selectors and field rules: where a value is found on a page, and how it is converted and validated."""

import math
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from almanac.schemas.declaration.expressions import Css, JmesPath, Regex, XPath
from almanac.schemas.declaration.model import DeclaredModel

FieldType = Literal["text", "integer", "number", "price", "date", "datetime", "boolean", "url", "html"]
Process = Literal["lower", "upper", "title", "split", "first", "last", "unique", "sort", "count", "join"]

_DIRECTIVES = frozenset("aAwdbBmyYHIpMSfzZjUWcxXGuV%")
# A format needs one of these directives for each part, to give a complete date.
_DATE_PARTS = {"day": "djcxu", "month": "mbBjcxV", "year": "yYcxG"}


class Script(DeclaredModel):
    """Data embedded in a script on the page: `{script: "window.data"}`."""

    script: str = Field(min_length=1, description="the variable that data is assigned to, or the id of a script element that holds data (`__NEXT_DATA__`)")


def _origin_kind(value: Any) -> str:
    return "script" if isinstance(value, dict | Script) else "name"


_Named = Literal["body", "json-ld", "microdata", "opengraph"]
Origin = Annotated[Annotated[_Named, Tag("name")] | Annotated[Script, Tag("script")], Discriminator(_origin_kind)]
_JSON = "JMESPath expression over the item's JSON (a JSON body, a JSONL line), or over what `from` names"
_FROM = (
    "what `json` reads in. body: the item's own JSON, else the page's JSON body. json-ld, microdata (in the shape of JSON-LD): the things that the page "
    "describes, and after them what these are about (`mainEntity`); the first that the expression finds something in counts, else the list of all of "
    "them is searched; one thing and a list of one are the same. "
    'opengraph: the page\'s properties, as `"og:title"` and as `title`. {script: "window.data"}: what is assigned to that variable'
)
_HIDDEN = "read also what no visitor sees; otherwise text that is hidden counts only where a control of the page opens it. Attributes are always read"


class Selector(DeclaredModel):
    """A selector: exactly one of css, xpath and json. Matches that no visitor sees are left out, unless `hidden`."""

    css: Css | None = Field(None, description="CSS selector; `::text` and `::attr(name)` work too")
    xpath: XPath | None = Field(None, description="XPath 1.0 expression; `re:test`, `re:match` and `re:replace` take regular expressions, `has-class` a class")
    json_: JmesPath | None = Field(None, alias="json", description=_JSON)
    from_: Origin = Field("body", alias="from", description=_FROM)
    attr: str | None = Field(None, description="take this attribute of the element, not its text")
    hidden: bool = Field(False, description=_HIDDEN)

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        given = [n for n, v in (("css", self.css), ("xpath", self.xpath), ("json", self.json_)) if v is not None]
        if len(given) != 1:
            raise ValueError(f"takes exactly one of css, xpath, json; found {', '.join(given) or 'none'}")
        _check_json_keys(self)
        return self

    @property
    def reads_body(self) -> bool:
        """Whether the selector reads a JSON body, and so cannot match on an HTML page."""
        return self.json_ is not None and self.from_ == "body"


class FieldRule(DeclaredModel):
    """How one field is extracted: by exactly one of css, xpath, json, url and const, or by `each` with `fields` for nested values."""

    css: Css | None = Field(None, description="CSS selector; `::text` and `::attr(name)` work too")
    xpath: XPath | None = Field(None, description="XPath 1.0 expression; `re:test`, `re:match` and `re:replace` take regular expressions, `has-class` a class")
    json_: JmesPath | None = Field(None, alias="json", description=_JSON)
    from_: Origin = Field("body", alias="from", description=_FROM)
    url: Regex | None = Field(None, description="regular expression on the page's URL; its first group is the value")
    const: Any = Field(None, description="the same value for every item")
    attr: str | None = Field(None, description="take this attribute of the element, not its text")
    hidden: bool = Field(False, description=_HIDDEN)
    each: Selector | None = Field(None, description="containers that `fields` are read in")
    many: bool = Field(
        False,
        description="keep every match, in page order, as a list, without copies that are hidden from screen readers; otherwise the first one, these last",
    )
    fields: dict[str, "FieldRule"] | None = Field(None, description="nested fields, read inside each match")
    pattern: Regex | None = Field(
        None, description="regular expression on the text; its first group is kept, no match is no value, and one that takes more than 1 s quarantines the item"
    )
    type: FieldType | None = Field(
        None,
        description="what the text is turned into, in the notation of the language; an item where that fails is quarantined. Of a range of prices the first "
        "one counts, no struck one unless the selector names it, and rounded amounts are written in full ($60K–$121K is 60000 $), or "
        "refused without a currency; 03/04/2024 is read by language and region, plain `en` as en-US; of a `<time>` element, `datetime` is read where it has a "
        "whole date, unless `attr`, `format` or `pattern` is set. Default: text, and JSON values as they are",
    )
    format: str | None = Field(None, description="strptime format of a date or datetime, such as `%d/%m/%Y`; month names are those of the language, or English")
    process: list[Process] = Field(
        [],
        description="steps from a closed list, applied in order; split (at commas, semicolons, bars, lines) comes before the type, so that each part is typed",
    )
    label: str | None = Field(
        None,
        min_length=1,
        description="what stands before the value where a record is shown; default: the name in words, `Departure date` for departure_date",
    )
    default: Any = Field(None, description="the value where nothing matched")
    required: bool = Field(False, description="an item without it is quarantined")
    one_of: list[Any] | None = Field(None, description="allowed values; an item with another one is quarantined")

    @model_validator(mode="after")
    def _one_source_of_value(self) -> Self:
        given = [name for name, value in self._origins().items() if value is not None]
        if self.each is not None and self.fields is None:
            raise ValueError("'each' needs 'fields' to read in each match")
        if len(given) != 1:
            raise ValueError(f"takes exactly one of css, xpath, json, url, const (or each with fields); found {', '.join(given) or 'none'}")
        _check_json_keys(self)
        self._check_nested()
        return self

    @model_validator(mode="after")
    def _can_hold(self) -> Self:
        """Rejects rules that can never succeed when they are loaded, instead of on every page."""
        if self.format is not None:
            if self.type not in ("date", "datetime"):
                raise ValueError("'format' goes with type: date or type: datetime")
            _check_format(self.format)
        for key, value in (("default", self.default), ("const", self.const)):
            values = value if isinstance(value, list) else [value]
            if self.one_of is not None and (strange := [v for v in values if v is not None and v not in self.one_of]):
                raise ValueError(f"{key}: {strange[0]!r} is not one of {', '.join(map(str, self.one_of))}")
        for entry in self.default if isinstance(self.default, list) else [self.default]:
            if self.type is not None and not self.process and entry not in (None, "") and (wanted := _unlike(entry, self.type)):
                raise ValueError(f"default: type: {self.type} needs {wanted}; found {entry!r}")
        return self

    def _check_nested(self) -> None:
        if self.fields is None:
            return
        if self.url is not None or self.const is not None:
            raise ValueError("'fields' are read inside matches of each, css, xpath or json; url and const have none")
        if lost := [key for key in ("pattern", "type", "attr") if getattr(self, key) is not None]:
            raise ValueError(f"'{lost[0]}' goes on the rules inside 'fields', not beside them")

    def _origins(self) -> dict[str, Any]:
        return {"css": self.css, "xpath": self.xpath, "json": self.json_, "url": self.url, "const": self.const, "each": self.each}

    @property
    def parts(self) -> "Mapping[str, FieldRule | None]":
        """Names inside the value, or inside each entry of a list, that the declaration proves; with the rule of each, None for a value without parts."""
        if {"count", "join"} & set(self.process):
            return {}
        if self.fields is not None:
            return self.fields
        if self.type == "price":
            return dict.fromkeys(("amount", "currency"))
        held = self.const if isinstance(self.const, dict) else {}
        return {str(name): FieldRule(const=value) if isinstance(value, dict) else None for name, value in held.items()}

    @property
    def looks(self) -> bool:
        """Whether the value depends on the page's content, unlike a constant or a part of the URL."""
        return self.const is None and self.url is None

    @property
    def conditions(self) -> dict[str, str]:
        """What mapping requires of a value, as declared, by the key that requires it: `{"required": "required: true", "type": "type: price"}`."""
        declared = {"type": self.type if self.type != "html" else None, "pattern": self.pattern, "required": self.required or None, "one_of": self.one_of}
        return {key: f"{key}: {'true' if value is True else value}" for key, value in declared.items() if value is not None}

    @property
    def reads_body(self) -> bool:
        """Whether the rule reads a JSON body, and so cannot match on an HTML page."""
        return self.each.reads_body if self.each is not None else self.json_ is not None and self.from_ == "body"

    @property
    def rule(self) -> str:
        """The rule in short form for reports: `css: h1`."""
        name, value = next((n, v) for n, v in self._origins().items() if v is not None)
        where = value if isinstance(value, Selector) else self
        if isinstance(value, Selector):
            value = value.css or value.xpath or value.json_
        origin = where.from_.script if isinstance(where.from_, Script) else where.from_
        return f"{name}: {value}" + (f" @{self.attr}" if self.attr else "") + (f" from {origin}" if origin != "body" else "")


def _check_json_keys(where: Selector | FieldRule) -> None:
    if where.json_ is None and where.from_ != "body":
        raise ValueError("'from' goes with json, a JMESPath expression over that data")
    if where.json_ is not None and where.attr is not None:
        raise ValueError("'attr' goes with css or xpath; json has none")
    if where.hidden and where.css is None and where.xpath is None:
        raise ValueError("'hidden' goes with css or xpath; other data is never hidden")


def _check_format(text: str) -> None:
    """Raises ValueError for a strptime format that is invalid, or that lacks day, month or year."""
    found = re.findall(r"%(.?)", text, re.DOTALL)
    for directive in found:
        if directive not in _DIRECTIVES or not directive:
            raise ValueError(f"format: %{directive} is no strptime directive; they are %d %m %Y %H %M %S %B …, and %d reads 5 as well as 05")
    for part, directives in _DATE_PARTS.items():
        if not any(directive in directives for directive in found):
            raise ValueError(f"format: {text!r} has no {part}; a date needs day, month and year")
    try:
        datetime.strptime(datetime(2024, 11, 23, 14, 5).strftime(text), text)
    except ValueError as error:  # directives that contradict each other, such as %G without a week
        raise ValueError(f"format: {error}") from error


def _unlike(value: Any, kind: FieldType) -> str:
    """Returns a description of what the type requires where `value` does not fit it, else an empty text."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    match kind:
        case "integer":
            return "" if is_number and value == int(value) else "a whole number"
        case "number":
            return "" if is_number else "a number"
        case "boolean":
            return "" if isinstance(value, bool) else "true or false"
        case "price":
            return "" if isinstance(value, dict) and {"amount", "currency"} >= value.keys() >= {"amount"} else "{amount: ..., currency: ...}"
        case "date" | "datetime":
            return "" if _is_iso(value) else "an ISO 8601 text such as 2024-05-03"
        case _:
            return "" if isinstance(value, str) else "a text"


def _is_iso(value: Any) -> bool:
    try:
        return bool(datetime.fromisoformat(value))
    except (TypeError, ValueError):
        return False
