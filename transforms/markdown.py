"""Writes blocks of a page as Markdown, from unstructured's elements or directly from a tree that is too large for unstructured.

Headings become `## …`, list items `- …` or `1. …` with two spaces per level, table rows `a | b`, code is fenced, everything else is a paragraph.
"""

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from parsel import Selector

if TYPE_CHECKING:
    from unstructured.documents.elements import Element

_NUMBERED = re.compile(r"\d{1,6}\. ")
_ITEM = re.compile(r" *(?:- |\d{1,6}\. )")
_FENCES = re.compile(r"^\s*(`{3,})", re.MULTILINE)
_HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}
_MAX_LEVEL = 8
_LISTS = frozenset({"ul", "ol", "menu", "dir"})
_CELLS = frozenset({"td", "th"})
_PARTING = frozenset(
    {"address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "details", "dialog", "div", "dl", "dt", "fieldset"}
    | {"figcaption", "figure", "footer", "form", "header", "hgroup", "hr", "html", "legend", "li", "main", "menu", "nav", "ol", "optgroup", "option"}
    | {"p", "section", "summary", "table", "tbody", "tfoot", "thead", "tr", "ul"}
) | frozenset(_HEADINGS)


def write_elements(elements: "Iterable[Element]") -> str:
    """The elements found by unstructured as Markdown, in order."""
    return _joined((element.category == "ListItem", _block(element)) for element in elements)


def _joined(blocks: Iterable[tuple[bool, str]]) -> str:
    """Joins (is list item, block) pairs: an empty line between blocks, a line break between list items."""
    parts: list[str] = []
    after_item = False
    for is_item, block in blocks:
        if not block:
            continue
        parts.append(("\n" if is_item and after_item else "\n\n") + block)
        after_item = is_item
    return "".join(parts).strip("\n")


def _block(element: "Element") -> str:
    text = element.text.strip()
    match element.category:
        case "Title" if element.metadata.category_depth is not None:
            return f"{'#' * (element.metadata.category_depth + 1)} {one_line(text)}" if text else ""
        case "ListItem":
            return list_item(text, (element.metadata.category_depth or 1) - 1)
        case "Table" if element.metadata.text_as_html:
            return _rows(element.metadata.text_as_html)
        case "CodeSnippet":
            return fenced(element.text)
        case "PageBreak" | "Image":
            return ""
        case _:
            return text


def one_line(text: str) -> str:
    """The text on one line, with white space normalised."""
    return " ".join(text.split())


def list_item(text: str, level: int = 0) -> str:
    """A list item; `level` 0 is the outermost. A number that the text begins with serves as its mark."""
    line = one_line(text)
    return _indent(level) + (line if _NUMBERED.match(line) else f"- {line}") if line else ""


def _indent(level: int) -> str:
    return "  " * min(max(level, 0), _MAX_LEVEL)


def fenced(code: str) -> str:
    """Code between fences longer than any inside it, otherwise unchanged; empty if there is only white space."""
    if not code.strip():
        return ""
    code = code.strip("\n") if code.count("\n") else code.strip()
    fence = "`" * max(3, 1 + max((len(found) for found in _FENCES.findall(code)), default=0))
    return f"{fence}\n{code}\n{fence}"


def _rows(table: str) -> str:
    rows = (" | ".join(one_line(cell.xpath("string(.)").get(default="")) for cell in row.xpath("./td|./th")) for row in Selector(text=table).xpath("//tr"))
    return "\n".join(row for row in rows if row.strip(" |"))


def write_tree(root: Any, skipped: frozenset[str] = frozenset()) -> str:
    """All text of a tree in one pass, without the elements whose tags are in `skipped`: headings, items, rows, code and paragraphs."""
    return _joined((bool(_ITEM.match(block)) or " | " in block, block) for block in _blocks_of(root, skipped))


def _blocks_of(root: Any, skipped: frozenset[str]) -> Iterator[str]:
    from lxml import etree

    words: list[str] = []
    mark = ""
    level = -1
    walk = etree.iterwalk(root, events=("start", "end"))
    for event, element in walk:
        tag = element.tag
        if event == "start" and (tag in skipped or tag == "pre"):
            walk.skip_subtree()
            yield _marked(mark, one_line("".join(words)))
            words, mark = [], ""
            if tag == "pre":
                yield fenced("".join(element.itertext()))
        elif tag in _PARTING:
            level += (tag in _LISTS) * (1 if event == "start" else -1)
            text = one_line("".join(words)).strip("| ")
            yield _marked(mark, text)
            words, mark = [], _mark(tag, level) if event == "start" else ""
        elif tag in _CELLS and event == "end":
            words.append(" | ")
        if event == "start" and tag not in skipped and tag != "pre":
            words.append(" " if tag == "br" else element.text or "")
        elif event == "end" and element is not root:
            words.append(element.tail or "")
    yield _marked(mark, one_line("".join(words)))


def _mark(tag: str, level: int) -> str:
    return _HEADINGS.get(tag) or (_indent(level) + "- " if tag == "li" else "")


def _marked(mark: str, text: str) -> str:
    if not text:
        return ""
    return mark.removesuffix("- ") + text if _NUMBERED.match(text) else mark + text
