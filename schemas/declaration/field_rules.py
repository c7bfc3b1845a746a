"""Declared selectors and field rules: where a value is found on a page, and how it is converted and validated."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from almanac.schemas.declaration.expressions import Css, JmesPath, Regex, XPath
from almanac.schemas.declaration.field_values import check_format, instead, never_equal, unlike
from almanac.schemas.declaration.model import DeclaredModel

FieldType = Literal["text", "integer", "number", "price", "date", "datetime", "boolean", "url", "html"]
Calendar = Literal["gregorian", "buddhist", "japanese", "jalali", "minguo"]
Process = Literal["lower", "upper", "title", "split", "first", "last", "unique", "sort", "count", "join"]


class Script(DeclaredModel):
    """Data embedded in a script on the page: `{script: "window.data"}`."""

    script: str = Field(
        min_length=1,
        description=(
            "the variable that data is assigned to, or the id of a script element that holds data (`__NEXT_DATA__`)"
        ),
    )


def _origin_kind(value: Any) -> str:
    return "script" if isinstance(value, dict | Script) else "name"


_Named = Literal["body", "json-ld", "microdata", "opengraph"]
Origin = Annotated[Annotated[_Named, Tag("name")] | Annotated[Script, Tag("script")], Discriminator(_origin_kind)]
_JSON = "JMESPath expression over the item's JSON (a JSON body, a JSONL line), or over what `from` names"
_FROM = (
    "what `json` reads in. body: the item's own JSON, else the page's. json-ld, microdata: one thing that the page "
    "describes, the same for all fields of a record: the one that holds most of them; an expression that begins with a "
    "list, `[?\"@type\"=='Event'] | [0].name`, reads all things. opengraph: the page's properties. "
    '{script: "window.data"}: what a script assigns to that variable'
)
_HIDDEN = (
    "read also what no visitor sees; else hidden text counts only where a control of the page opens it. Attributes are "
    "always read"
)


class Selector(DeclaredModel):
    """A selector: exactly one of css, xpath and json. Matches that no visitor sees are left out, unless `hidden`."""

    css: Css | None = Field(None, description="CSS selector; `::text` and `::attr(name)` work too")
    xpath: XPath | None = Field(
        None,
        description=(
            "XPath 1.0 expression; `re:test`, `re:match` and `re:replace` take regular expressions, `has-class` a class"
        ),
    )
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

    def __str__(self) -> str:
        """The selector in short form for reports: `css: main`."""
        name, value = next(
            (n, v) for n, v in (("css", self.css), ("xpath", self.xpath), ("json", self.json_)) if v is not None
        )
        return f"{name}: {value}" + (f" @{self.attr}" if self.attr else "") + _from(self)


class FieldRule(DeclaredModel):
    """How one field is extracted: by exactly one of css, xpath, json, url and const, or by `each` with `fields` for
    nested values.
    """

    css: Css | None = Field(None, description="CSS selector; `::text` and `::attr(name)` work too")
    xpath: XPath | None = Field(
        None,
        description=(
            "XPath 1.0 expression; `re:test`, `re:match` and `re:replace` take regular expressions, `has-class` a class"
        ),
    )
    json_: JmesPath | None = Field(None, alias="json", description=_JSON)
    from_: Origin = Field("body", alias="from", description=_FROM)
    url: Regex | None = Field(None, description="regular expression on the page's URL; its first group is the value")
    const: Any = Field(None, description="the same value for every item")
    attr: str | None = Field(None, description="take this attribute of the element, not its text")
    hidden: bool = Field(False, description=_HIDDEN)
    each: Selector | None = Field(None, description="containers that `fields` are read in")
    many: bool = Field(
        False,
        description=("keep every match, in page order, as a list; otherwise the first one"),
    )
    fields: dict[str, "FieldRule"] | None = Field(None, description="nested fields, read inside each match")
    pattern: Regex | None = Field(
        None,
        description=(
            "regular expression on the text; its first group is kept. No match is no value; more than 1 s "
            "rejects the item"
        ),
    )
    type: FieldType | None = Field(
        None,
        description=(
            "what the text becomes, by the notation of the language; an item where that fails is "
            "rejected. Of a range of prices the first one counts, no struck one; `$60K` and `1,2 "
            "Millionen` are written in full. A `<time>` element is read by its `datetime`. 03/04/2024 is "
            "read by language and region, plain `en` as en-US. Default: text, and JSON values as they are"
        ),
    )
    format: str | None = Field(
        None,
        description=(
            "strptime format of a date or datetime, such as `%d/%m/%Y`, with month names of the language or "
            "English; or `unix`, `unix_ms`: seconds, milliseconds since 1970 in UTC"
        ),
    )
    calendar: Calendar | None = Field(
        None,
        description=(
            "date or datetime: calendar of its years. buddhist: 2567 is 2024; japanese: 令和8年, R8.12.3; "
            "jalali (Solar Hijri): 1402/12/11; minguo: 民國115年. Default: gregorian"
        ),
    )
    times: float | None = Field(
        None,
        gt=0,
        allow_inf_nan=False,
        description=("number, integer or price: what a value is multiplied by, such as 1000 for a table in thousands"),
    )
    yes: list[Annotated[str, Field(min_length=1)]] = Field(
        [],
        description=(
            "boolean: texts that say yes, such as `Auf Lager`; a count or a remark may follow. Known are "
            "`true`, `yes`, `1`, `on`, `in stock`, `available`, ✓ and their like"
        ),
    )
    no: list[Annotated[str, Field(min_length=1)]] = Field(
        [], description="boolean: texts that say no, such as `Ausverkauft`"
    )
    process: list[Process] = Field(
        [],
        description=("steps, in order; split (at commas, semicolons, bars, lines) comes before the type"),
    )
    label: str | None = Field(
        None,
        min_length=1,
        description=(
            "what stands before the value where a record is shown; default: the name in words, `Departure date` "
            "for departure_date"
        ),
    )
    default: Any = Field(None, description="the value where nothing matched")
    required: bool = Field(False, description="an item without it is rejected")
    one_of: list[Any] | None = Field(None, description="allowed values; an item with another one is rejected")

    @model_validator(mode="after")
    def _one_source_of_value(self) -> Self:
        given = [name for name, value in self._origins().items() if value is not None]
        if self.each is not None and self.fields is None:
            raise ValueError("'each' needs 'fields' to read in each match")
        if len(given) != 1:
            raise ValueError(
                "takes exactly one of css, xpath, json, url, const (or each with fields); found "
                f"{', '.join(given) or 'none'}"
            )
        _check_json_keys(self)
        self._check_nested()
        return self

    @model_validator(mode="after")
    def _can_hold(self) -> Self:
        """Rejects rules that can never succeed when they are loaded, instead of on every page."""
        if self.format is not None:
            if self.type not in ("date", "datetime"):
                raise ValueError("'format' goes with type: date or type: datetime")
            check_format(self.format)
        if self.calendar is not None and (self.type not in ("date", "datetime") or self.format is not None):
            raise ValueError("'calendar' goes with type: date or type: datetime, and without 'format'")
        if (self.yes or self.no) and self.type != "boolean":
            raise ValueError("'yes' and 'no' go with type: boolean")
        if both := {text.casefold() for text in self.yes} & {text.casefold() for text in self.no}:
            raise ValueError(f"{min(both)!r} cannot say both 'yes' and 'no'")
        if self.times is not None and self.type not in ("number", "integer", "price"):
            raise ValueError("'times' goes with type: number, integer or price")
        for key, value in (("default", self.default), ("const", self.const)):
            values = value if isinstance(value, list) else [value]
            if self.one_of is not None and (strange := [v for v in values if v is not None and v not in self.one_of]):
                raise ValueError(f"{key}: {strange[0]!r} is not one of {', '.join(map(repr, self.one_of))}")
        for entry in self.default if isinstance(self.default, list) else [self.default]:
            if (
                self.type is not None
                and not self.process
                and entry not in (None, "")
                and (wanted := unlike(entry, self.type))
            ):
                raise ValueError(f"default: type: {self.type} needs {wanted}; found {entry!r}")
        self._check_allowed()
        return self

    def _check_allowed(self) -> None:
        """Rejects allowed values that no value of the rule can equal; the default is not converted, and may have
        another type.
        """
        kind = self._kind_of_values()
        if kind is None:
            return
        defaults = [
            (type(default), default) for default in (self.default if isinstance(self.default, list) else [self.default])
        ]
        for entry in self.one_of or ():
            if entry is not None and (type(entry), entry) not in defaults and (wanted := never_equal(entry, kind)):
                origin = (
                    f"type: {kind} gives"
                    if kind == self.type
                    else f"process: {self.process[-1]} gives"
                    if self.process
                    else "without a type, it is"
                )
                raise ValueError(f"one_of: {origin} {wanted}; found {entry!r}{instead(entry, kind)}")

    def _kind_of_values(self) -> FieldType | None:
        """The type of the values that `one_of` is compared with; None where that is not known, as with JSON values as
        they are.
        """
        if reduced := [step for step in self.process if step in ("count", "join")]:
            return "integer" if reduced[-1] == "count" else "text"
        if self.type is not None or self.fields is not None or self.json_ is not None or self.const is not None:
            return self.type
        return "text"

    def _check_nested(self) -> None:
        if self.fields is None:
            return
        if self.url is not None or self.const is not None:
            raise ValueError("'fields' are read inside matches of each, css, xpath or json; url and const have none")
        if lost := [key for key in ("pattern", "type", "attr") if getattr(self, key) is not None]:
            raise ValueError(f"'{lost[0]}' goes on the rules inside 'fields', not beside them")

    def _origins(self) -> dict[str, Any]:
        return {
            "css": self.css,
            "xpath": self.xpath,
            "json": self.json_,
            "url": self.url,
            "const": self.const,
            "each": self.each,
        }

    @property
    def parts(self) -> "Mapping[str, FieldRule | None]":
        """Names inside the value, or inside each entry of a list, that the declaration proves; with the rule of each,
        None for a value without parts.
        """
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
        """What mapping requires of a value, as declared, by the key that requires it: `{"required": "required: true",
        "type": "type: price"}`.
        """
        declared = {
            "type": self.type if self.type != "html" else None,
            "pattern": self.pattern,
            "required": self.required or None,
            "one_of": self.one_of,
        }
        return {
            key: f"{key}: {'true' if value is True else value}" for key, value in declared.items() if value is not None
        }

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
        return f"{name}: {value}" + (f" @{self.attr}" if self.attr else "") + _from(where)


def _from(where: Selector | FieldRule) -> str:
    origin = where.from_.script if isinstance(where.from_, Script) else where.from_
    return f" from {origin}" if origin != "body" else ""


def _check_json_keys(where: Selector | FieldRule) -> None:
    if where.json_ is None and where.from_ != "body":
        raise ValueError("'from' goes with json, a JMESPath expression over that data")
    if where.json_ is not None and where.attr is not None:
        raise ValueError("'attr' goes with css or xpath; json has none")
    if where.hidden and where.css is None and where.xpath is None:
        raise ValueError("'hidden' goes with css or xpath; other data is never hidden")
