"""Evaluates declared CSS, XPath and JMESPath selectors, and extracts the text of their matches."""

import copy
import re
from bisect import bisect_left
from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate
from typing import Any

import jmespath
import parsel
from jmespath.exceptions import JMESPathError
from jmespath.parser import ParsedResult
from jmespath.visitor import TreeInterpreter
from lxml import etree
from parsel.csstranslator import GenericTranslator, HTMLTranslator

from almanac.schemas.declaration.field_rules import FieldRule, Selector
from almanac.schemas.left_out import LeaveOut, untold
from almanac.spiders.reading.escaped import with_markup_parsed
from almanac.spiders.reading.markup import parse_markup
from almanac.spiders.reading.rewriting import remove
from almanac.spiders.reading.rewritten import rewritten, styles_of_sheets
from almanac.spiders.selecting import prefixes
from almanac.spiders.selecting.current import current_first, current_only
from almanac.spiders.selecting.matches import is_content, keep_visible, why_unseen
from almanac.spiders.selecting.visibility import hidden_in, shown_copy
from almanac.spiders.selecting.xpath_patterns import limit_xpath_patterns

limit_xpath_patterns()

# Block elements: text on either side is separate for a reader, so it is separated by a space.
_BLOCKS = frozenset(
    {
        "address",
        "article",
        "aside",
        "blockquote",
        "body",
        "br",
        "button",
        "caption",
        "center",
        "dd",
        "details",
        "dialog",
        "div",
        "dl",
        "dt",
        "fieldset",
    }
    | {
        "figcaption",
        "figure",
        "footer",
        "form",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "head",
        "header",
        "hgroup",
        "hr",
        "html",
        "legend",
        "li",
        "main",
        "menu",
    }
    | {
        "nav",
        "ol",
        "optgroup",
        "option",
        "p",
        "pre",
        "search",
        "section",
        "select",
        "summary",
        "table",
        "tbody",
        "td",
        "textarea",
        "tfoot",
        "th",
        "thead",
    }
    | {"title", "tr", "ul"}
)
_UNREAD = frozenset({"script", "style", "template"})
# Scrapy's idiom for "all text inside". Taken node by node, the first match would be a fragment of the text.
_WHOLE_TEXT_XPATH = re.compile(r"//text\(\)\s*$")
_SPACES = re.compile(r"\s+")
LAYOUT = " \t\n\f\r"
"""The white space by which markup is laid out (HTML, ASCII whitespace)."""
_LAYOUTS = re.compile(f"[{LAYOUT}]+")
# Elements whose content is raw text to a parser, although serialised markup is escaped.
_RAW_TEXT = re.compile(r"<(/?)(?:xmp|plaintext|listing)(?=[\s>])", re.IGNORECASE)
_WHOLE_NUMBER = re.compile(r"(?<!\d[.,])(?<!\d)\d{2,}(?![.,]?\d)")  # without the decimals of another
_WHOLE_TEXT_CSS = re.compile(r"(?<=\S)\s+(\*)?::text\s*(?=$|,)")


def select(
    scope: Any, where: Selector | FieldRule, *, many: bool = True, hidden: bool = False, leave_out: LeaveOut = untold
) -> list[Any]:
    """The matches of a selector in `scope`, in page order: parsel selectors on markup, at most one plain value in JSON.

    Matches that no visitor sees are left out, except attributes; with `hidden`, those that repeat no other match are
    kept. For numbers and prices, struck ones beside others are left out. Without `many`, matches that are also read
    aloud come before those hidden from screen readers, prices come before struck ones, and a selector for all text
    nodes of an element returns the element, because its first text is meant to be the whole text. `leave_out` is told
    of the matches that are left out.
    """
    if where.json_ is not None:
        json_value = search_json(where.json_, scope)
        return [] if json_value is None else [json_value]
    if not isinstance(scope, parsel.Selector) or isinstance(scope.root, str):
        return []
    matches, xpath = _matches(scope, where, many)
    visible = keep_visible(matches, scope, xpath, many=many, hidden=hidden, leave_out=leave_out)
    if len(visible) < 2:
        return visible
    if not many:
        return current_first(visible, scope, xpath)
    return (
        current_only(visible, scope, xpath, leave_out)
        if isinstance(where, FieldRule) and where.type in ("price", "number", "integer")
        else visible
    )


def unseen(scope: Any, where: Selector | FieldRule, *, many: bool = True) -> str | None:
    """How the first match of a selector on markup that has a text is hidden from visitors: `display: none`; None if no
    match is.
    """
    if where.json_ is not None or not isinstance(scope, parsel.Selector) or isinstance(scope.root, str):
        return None
    matches, xpath = _matches(scope, where, many)
    return why_unseen(matches, scope, xpath)


def undeclared_prefix(scope: Any, where: Selector | FieldRule) -> str | None:
    """As `prefixes.undeclared`, for a selector on markup; None for other rules."""
    if (
        (where.css is None and where.xpath is None)
        or not isinstance(scope, parsel.Selector)
        or isinstance(scope.root, str)
    ):
        return None
    return prefixes.undeclared(scope, _as_xpath(where.css, where.xpath, is_xml=scope.type == "xml", whole=False))


def is_named_otherwise(scope: Any, where: Selector | FieldRule) -> bool:
    """As `prefixes.is_named_otherwise`, for a selector on XML."""
    if undeclared_prefix(scope, where) is None or scope.type != "xml":
        return False
    return prefixes.is_named_otherwise(scope, _as_xpath(where.css, where.xpath, is_xml=True, whole=False))


def _matches(scope: parsel.Selector, where: Selector | FieldRule, many: bool) -> tuple[list[parsel.Selector], str]:
    xpath = _as_xpath(where.css, where.xpath, is_xml=scope.type == "xml", whole=not many)
    try:
        return [match for match in scope.xpath(xpath) if is_content(match.root)], xpath
    # valid, but cannot be evaluated, such as an unknown function or a prefix that the document does not declare
    except ValueError:
        return [], xpath


@lru_cache(maxsize=1024)
def _as_xpath(css: str | None, xpath: str | None, *, is_xml: bool, whole: bool) -> str:
    if css is not None:
        translator = GenericTranslator() if is_xml else HTMLTranslator()  # names in XML are case-sensitive
        return translator.css_to_xpath(_WHOLE_TEXT_CSS.sub("", css) if whole else css)
    if whole and _WHOLE_TEXT_XPATH.search(xpath or ""):
        xpath = _WHOLE_TEXT_XPATH.sub("", xpath or "")
    return xpath or "."


def search_json(expression: str, value: Any, interpreter: TreeInterpreter | None = None) -> Any:
    """The result of a JMESPath expression on a JSON value; None if nothing is found or a function does not accept the
    type found.
    """
    if isinstance(value, parsel.Selector):
        return None
    compiled = _compiled(expression)
    try:
        return compiled.search(value) if interpreter is None else interpreter.visit(compiled.parsed, value)
    except (JMESPathError, RecursionError):
        return None


@lru_cache(maxsize=1024)
def _compiled(expression: str) -> ParsedResult:
    return jmespath.compile(expression)


def text_of(
    match: Any,
    attr: str | None = None,
    *,
    lines: bool = False,
    hidden: bool = False,
    verbatim: bool = False,
    leave_out: LeaveOut = untold,
) -> Any:
    """The text of a match, or of its attribute `attr`, with white space normalised; None if the attribute is missing.

    With `lines`, line breaks and block elements become line ends; with `hidden`, what no visitor sees is read too. JSON
    values are returned unchanged. With `verbatim`, attributes are, too, and of a text only the layout of the markup is
    normalised: no-break and other wide spaces stay. `leave_out` is told of the text that is left out.
    """
    if not isinstance(match, parsel.Selector):
        return match
    if attr is not None:
        attributes = match.attrib if hasattr(match.root, "attrib") else {}
        value = attributes.get(attr)
        return value if value is None or verbatim else normal_space(value)
    if not hasattr(match.root, "iter"):
        return _spaced(str(match.get()), verbatim)
    element = as_read(match.root, hidden=hidden, leave_out=leave_out)
    if element is None:
        return ""
    return (element_lines if lines else element_text)(
        element, verbatim=verbatim, leave_out=_leave_out_of_copy(match.root, leave_out)
    )


def _leave_out_of_copy(root: Any, leave_out: LeaveOut) -> LeaveOut:
    """The same for a copy of the root: what is left out of it is told by its text and its number."""
    return lambda reason, text, number: leave_out(reason, text, (root, text, number))


def markup_of(match: Any, *, hidden: bool = False, asked_for: bool = False, leave_out: LeaveOut = untold) -> str:
    """The outer HTML of a match as `rewritten` writes it, serialised so that parsing it again gives the same content.

    It is without what no visitor sees, unless `hidden`; `leave_out` is told of it. HTML that is the text of an XML
    element is read as such.
    """
    if not isinstance(match, parsel.Selector):
        return str(match)
    if (
        match.type == "xml"
        and hasattr(match.root, "iter")
        and (parsed := with_markup_parsed(match.root)) is not match.root
    ):
        match = parse_markup(etree.tostring(parsed, encoding="unicode", method="html"))
    if hasattr(match.root, "iter"):
        element = as_read(match.root, hidden=hidden, leave_out=leave_out)
        if element is None:
            return ""
        element = rewritten(element, asked_for=asked_for, leave_out=_leave_out_of_copy(match.root, leave_out))
        match = match if element is match.root else parsel.Selector(root=element, type=match.type)
    return _RAW_TEXT.sub(r"<\1pre", str(match.get()))


def as_read(element: Any, *, hidden: bool = False, leave_out: LeaveOut = untold) -> Any:
    """The element as it is read: what a visitor sees of it, in a copy where that differs; None if it is hidden. With
    `hidden`, all of it.

    The one place through which fields, bodies, titles, and questions with their answers pass on the way from the parsed
    page to text. `leave_out` is told of what is hidden.
    """
    for inner, is_whole in () if hidden else hidden_in(element):
        leave_out(
            "hidden",
            "".join(_pieces(inner, " ") if is_whole else (inner.text or "", *(child.tail or "" for child in inner))),
            inner,
        )
    return shown_copy(element, hidden=hidden, styled=styles_of_sheets(element.getroottree().getroot()))


def element_text(element: Any, *, verbatim: bool = False, leave_out: LeaveOut = untold) -> str:
    """All text inside an element, as `rewritten` writes it: inline elements join, block elements and line breaks
    separate, scripts and styles are left out.

    An image gives its text only where there is no other. `verbatim` and `leave_out` are as in `text_of`.
    """
    element = rewritten(element, images=False, asked_for=True, leave_out=leave_out)
    if not len(element) and element.tag not in _UNREAD:
        return _spaced(element.text or "", verbatim)
    return _spaced("".join(_pieces(element, " ")), verbatim)


def without_silent(match: Any) -> parsel.Selector | None:
    """A copy of a match without what screen readers are spared (`aria-hidden`); None where nothing is."""
    if (
        not isinstance(match, parsel.Selector)
        or not hasattr(match.root, "iter")
        or not match.root.xpath(".//*[@aria-hidden='true']")
    ):
        return None
    copied = copy.copy(match.root)
    for silent in copied.xpath(".//*[@aria-hidden='true']"):
        remove(silent)
    return parsel.Selector(root=copied, type=match.type)


def parted_number(match: Any, *, hidden: bool = False) -> str:
    """A number of a match whose digits stand in several elements, the last one or two by themselves: 1299 of
    `<b>12</b><i>99</i>`, or 12.99?

    Or one with something between its digits that no visitor sees. Empty if there is none.
    """
    element = (
        as_read(match.root, hidden=hidden)
        if isinstance(match, parsel.Selector) and hasattr(match.root, "iter")
        else None
    )
    if element is None:
        return ""
    pieces = list(_pieces(rewritten(element, images=False, asked_for=True), " "))
    text, starts = "".join(pieces), list(accumulate(map(len, pieces), initial=0))
    for digits in _WHOLE_NUMBER.finditer(text):
        last = starts[bisect_left(starts, digits.end()) - 1]  # where its last digits begin to stand by themselves
        if digits.start() < last and digits.end() - last <= 2:
            return digits[0]
    with_hidden = text if hidden else text_of(match, hidden=True)
    return next((digits for digits in _WHOLE_NUMBER.findall(text) if digits not in with_hidden), "")


def element_lines(element: Any, *, verbatim: bool = False, leave_out: LeaveOut = untold) -> str:
    """The text of `element_text` with one line per block."""
    element = rewritten(element, images=False, asked_for=True, leave_out=leave_out)
    runs = _LAYOUTS if verbatim else _SPACES
    blocks = "".join(piece if piece == "\0" else runs.sub(" ", piece) for piece in _pieces(element, "\0"))
    return "\n".join(line for block in blocks.split("\0") if (line := _spaced(block, verbatim)))


def _pieces(element: Any, parting: str) -> Iterator[str]:
    walk = etree.iterwalk(element, events=("start", "end", "comment", "pi"))
    for event, node in walk:
        tag = node.tag if event in ("start", "end") else ""
        if event == "start" and tag in _UNREAD and not (node is element and tag == "template"):
            walk.skip_subtree()
            continue
        if tag in _BLOCKS:
            yield parting
        if event == "start":
            yield node.text or ""
        elif node is not element:
            yield node.tail or ""


def normal_space(text: str) -> str:
    """The text with every run of white space, no-break spaces included, as one space, and none at the ends."""
    return " ".join(text.split())


def _spaced(text: str, verbatim: bool) -> str:
    return _LAYOUTS.sub(" ", text).strip(LAYOUT) if verbatim else normal_space(text)
