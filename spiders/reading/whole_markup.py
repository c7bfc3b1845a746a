"""Prepares the markup of books and mails for unstructured, which passes over some of it: figures, captions, sums of tables, formulas, folded parts."""

import re
from typing import Any

from lxml import etree
from lxml import html as lxml_html

from almanac.core.spanned_cells import write_out_spanned
from almanac.spiders.reading.markup import parse_markup
from almanac.spiders.reading.rewriting import remove
from almanac.spiders.reading.rewritten import rewritten

_AS_BLOCKS = {"figure": "div", "details": "div", "form": "div", "figcaption": "p", "summary": "p", "tfoot": "tbody"}
_PAGE_BREAK = ("pagebreak", "doc-pagebreak")
_HIDING = re.compile(r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden)\s*(?:!\s*important\s*)?(?:;|$)", re.IGNORECASE)
_INLINE = frozenset(
    {"a", "abbr", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em", "font", "i", "ins", "kbd", "mark", "q", "s", "samp", "small", "span"}
    | {"strike", "strong", "sub", "sup", "time", "tt", "u", "var", "wbr"}
)


def whole_markup(markup: str) -> str:
    """The markup, rewritten as that of pages is (`rewritten`), so that unstructured loses no text of it and joins or parts no words.

    What hides itself is left out, such as the teaser in front of a newsletter. Captions come before their tables, sums at the end, and cells that reach over
    several rows stand in each. Page breaks of a printed edition are left out: their numbers would stand within sentences.
    """
    root = parse_markup(markup).root
    for element in list(root.iter("*")):
        if _is_hidden(element) and element.getparent() is not None:
            remove(element)
    root = rewritten(root)
    for element in list(root.iter("*")):
        if element.tag in _AS_BLOCKS:
            element.tag = _AS_BLOCKS[element.tag]
        elif element.get("role") in _PAGE_BREAK or element.get("epub:type") in _PAGE_BREAK:
            remove(element)
    for table in reversed(list(root.iter("table"))):  # tables inside cells first
        _write_table(table)
    return str(lxml_html.tostring(root, encoding="unicode"))


def _is_hidden(element: Any) -> bool:
    return element.get("hidden", "until-found").lower() != "until-found" or _HIDING.search(element.get("style", "")) is not None


def _write_table(table: Any) -> None:
    for caption in table.findall("caption"):
        if table.getparent() is not None:
            caption.tag, caption.tail = "p", None
            table.addprevious(caption)
    for cell in list(table.iter("td", "th")):
        if next(cell.iterdescendants("table"), None) is None:
            text = _text_of(cell)
            for inner in list(cell):
                cell.remove(inner)
            cell.text = text
    write_out_spanned(table)


def _text_of(element: Any) -> str:
    """The text of an element on one line, with a space where a block or a line begins or ends."""
    parts: list[str] = []
    for event, inner in etree.iterwalk(element, events=("start", "end", "comment", "pi")):
        is_tag = isinstance(inner.tag, str)
        if event == "start" and is_tag:
            parts += ["" if inner.tag in _INLINE else " ", inner.text or ""]
        elif inner is not element:
            parts += ["" if not is_tag or inner.tag in _INLINE else " ", inner.tail or ""]
    return " ".join("".join(parts).split())
