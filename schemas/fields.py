"""Declared selectors and field rules: where a value stands on a page, and what it has to be."""

import re
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from schemas.model import Declared

FieldType = Literal["text", "integer", "number", "price", "date", "datetime", "boolean", "url", "html"]
Process = Literal["lower", "upper", "title", "first", "last", "unique", "sort", "count", "join"]


def _regular_expression(value: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from error
    return value


def _css(value: str) -> str:
    from parsel.csstranslator import HTMLTranslator

    try:
        HTMLTranslator().css_to_xpath(value)
    except Exception as error:  # cssselect raises several unrelated types
        raise ValueError(f"not a CSS selector: {error}") from error
    return value


def _xpath(value: str) -> str:
    from lxml import etree

    try:
        etree.XPath(value, namespaces={"re": "http://exslt.org/regular-expressions"})
    except etree.XPathError as error:
        raise ValueError(f"not an XPath expression: {error}") from error
    return value


def _jmespath(value: str) -> str:
    import jmespath
    from jmespath.exceptions import JMESPathError

    try:
        jmespath.compile(value)
    except JMESPathError as error:
        raise ValueError(f"not a JMESPath expression: {error}") from error
    return value


Regex = Annotated[str, AfterValidator(_regular_expression)]
Css = Annotated[str, AfterValidator(_css)]
XPath = Annotated[str, AfterValidator(_xpath)]
JmesPath = Annotated[str, AfterValidator(_jmespath)]


class Selector(Declared):
    """A place on a page: exactly one of css, xpath and json."""

    css: Css | None = Field(None, description="CSS selector; `::text` and `::attr(name)` work too")
    xpath: XPath | None = Field(None, description="XPath expression")
    json_: JmesPath | None = Field(None, alias="json", description="JMESPath expression over a JSON body")
    attr: str | None = Field(None, description="take this attribute of the element, not its text")

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        given = [n for n, v in (("css", self.css), ("xpath", self.xpath), ("json", self.json_)) if v is not None]
        if len(given) != 1:
            raise ValueError(f"takes exactly one of css, xpath, json; found {', '.join(given) or 'none'}")
        return self


class FieldRule(Declared):
    """How one field is read. Takes one of css, xpath, json, url, const, or `each` with `fields` for nested values."""

    planned: ClassVar[dict[str, tuple[str, ...]]] = {"from": ()}

    css: Css | None = Field(None, description="CSS selector; `::text` and `::attr(name)` work too")
    xpath: XPath | None = Field(None, description="XPath expression")
    json_: JmesPath | None = Field(None, alias="json", description="JMESPath expression over the JSON body or the JSONL line")
    url: Regex | None = Field(None, description="regular expression on the page's URL; its first group is the value")
    const: Any = Field(None, description="the same value for every item")
    attr: str | None = Field(None, description="take this attribute of the element, not its text")
    each: Selector | None = Field(None, description="containers that `fields` are read in")
    many: bool = Field(False, description="keep every match, in page order, as a list; otherwise the first one")
    fields: dict[str, "FieldRule"] | None = Field(None, description="nested fields, read inside each match")
    pattern: Regex | None = Field(None, description="regular expression on the text; its first group is kept, no match is no value")
    type: FieldType | None = Field(
        None, description="what the text is turned into; an item where that fails is quarantined. Default: text, and JSON values as they are"
    )
    format: str | None = Field(None, description="strptime format of a date or datetime, such as `%d/%m/%Y`")
    process: list[Process] = Field([], description="steps from a closed list, applied in order")
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
        if self.format is not None and self.type not in ("date", "datetime"):
            raise ValueError("'format' goes with type: date or type: datetime")
        return self

    def _origins(self) -> dict[str, Any]:
        return {"css": self.css, "xpath": self.xpath, "json": self.json_, "url": self.url, "const": self.const, "each": self.each}

    @property
    def rule(self) -> str:
        """The rule as it was written, for reports: `css: h1`."""
        name, value = next((n, v) for n, v in self._origins().items() if v is not None)
        if isinstance(value, Selector):
            value = value.css or value.xpath or value.json_
        return f"{name}: {value}" + (f" @{self.attr}" if self.attr else "")
