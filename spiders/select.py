"""Declared selectors applied to HTML, XML and JSON, and the text of what they find."""

import re
from functools import lru_cache
from typing import Any

import jmespath
import parsel
from inscriptis import get_text
from inscriptis.model.config import ParserConfig
from jmespath.exceptions import JMESPathError
from jmespath.parser import ParsedResult
from lxml import etree

from schemas.fields import FieldRule, Selector

# Text on both sides of these is set apart by a reader's eye, so it is set apart by a space.
_BLOCKS = frozenset(
    {"address", "article", "aside", "blockquote", "body", "br", "button", "caption", "center", "dd", "details", "dialog", "div", "dl", "dt", "fieldset"}
    | {"figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "head", "header", "hgroup", "hr", "html", "legend", "li", "main", "menu"}
    | {"nav", "ol", "optgroup", "option", "p", "pre", "search", "section", "select", "summary", "table", "tbody", "td", "textarea", "tfoot", "th", "thead"}
    | {"title", "tr", "ul"}
)
_UNREAD = frozenset({"script", "style", "template"})
_READABLE = ParserConfig(display_links=False, display_images=False, table_cell_separator=" | ")
# "All text inside", as Scrapy users write it. Read node by node, the first one would be a fragment of the text.
_WHOLE_TEXT_XPATH = re.compile(r"//text\(\)\s*$")
_WHOLE_TEXT_CSS = re.compile(r"(?<=\S)\s+(\*)?::text\s*$")


def select(scope: Any, where: Selector | FieldRule, *, many: bool = True) -> list[Any]:
    """What a selector finds in `scope`, in page order: parsel selectors on markup, plain values in JSON.

    Without `many`, a selector for all text nodes inside an element finds the element: its first text is the whole text.
    """
    if where.json_ is not None:
        return _select_json(scope, where.json_)
    if not isinstance(scope, parsel.Selector) or isinstance(scope.root, str):
        return []
    if where.css is not None:
        css = where.css if many else _WHOLE_TEXT_CSS.sub("", where.css)
        return list(scope.css(css))
    xpath = where.xpath or "."
    if not many and _WHOLE_TEXT_XPATH.search(xpath):
        xpath = _WHOLE_TEXT_XPATH.sub("", xpath) or "."
    try:
        return list(scope.xpath(xpath))
    except ValueError:  # a valid expression that cannot be evaluated here, such as one with an unknown function
        return []


def _select_json(scope: Any, expression: str) -> list[Any]:
    if isinstance(scope, parsel.Selector):
        return []
    try:
        found = _compiled(expression).search(scope)
    except JMESPathError:  # a function that does not take the type found here: nothing is found
        return []
    return [] if found is None else [found]


@lru_cache(maxsize=1024)
def _compiled(expression: str) -> ParsedResult:
    return jmespath.compile(expression)


def text_of(found: Any, attr: str | None = None) -> Any:
    """The text of one match (or of its attribute), white space normalised; None where there is no such attribute.

    Values from JSON are handed on as they are.
    """
    if not isinstance(found, parsel.Selector):
        return found
    if attr is not None:
        attributes = found.attrib if hasattr(found.root, "attrib") else {}
        value = attributes.get(attr)
        return None if value is None else normal_space(value)
    return element_text(found.root) if hasattr(found.root, "iter") else normal_space(str(found.get()))


def markup_of(found: Any) -> str:
    """The outer HTML of one match."""
    return str(found.get()) if isinstance(found, parsel.Selector) else str(found)


def element_text(element: Any) -> str:
    """All text inside an element: inline elements join, block elements and line breaks part, scripts are left out."""
    parts: list[str] = []
    walk = etree.iterwalk(element, events=("start", "end", "comment", "pi"))
    for event, node in walk:
        tag = node.tag if event in ("start", "end") else ""
        if event == "start":
            if tag in _UNREAD:
                walk.skip_subtree()
                continue
            if tag in _BLOCKS:
                parts.append(" ")
            parts.append(node.text or "")
        else:
            if tag in _BLOCKS:
                parts.append(" ")
            if node is not element:
                parts.append(node.tail or "")
    return normal_space("".join(parts))


def normal_space(text: str) -> str:
    """Single spaces, no-break spaces included, and none at the ends."""
    return " ".join(text.split())


def readable_text(markup: str) -> str:
    """HTML as a reader sees it: lines, lists and tables; no more than one empty line in a row."""
    if not markup.strip():
        return ""
    # Indents and the padding of table columns are layout; in a text that is embedded they are noise.
    lines = [normal_space(line).strip("| ") if "|" in line else normal_space(line) for line in get_text(markup, _READABLE).split("\n")]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
