"""Converts HTML to readable lines of text, for fields of type html: Inscriptis lays out the page, after markup unknown
to it has been simplified.
"""

import re
from typing import Any

from inscriptis import Inscriptis
from inscriptis.model.config import ParserConfig
from inscriptis.model.html_document_state import HtmlDocumentState
from inscriptis.model.tag import CustomHtmlTagHandlerMapping

from almanac.core.grids import grid_blocks, is_grid, write_grids
from almanac.core.spanned_cells import write_out_spanned
from almanac.spiders.reading.markup import parse_markup
from almanac.spiders.reading.rewritten import rewritten
from almanac.spiders.selecting.selectors import as_read, normal_space

# Inscriptis treats these as inline.
_UNKNOWN_BLOCKS = frozenset(
    {
        "button",
        "caption",
        "center",
        "dd",
        "details",
        "dialog",
        "dl",
        "dt",
        "fieldset",
        "form",
        "hr",
        "legend",
        "optgroup",
        "option",
        "search",
        "section",
    }
    | {"select", "summary", "textarea"}
)
_TABLE_PARTS = ("table", "caption", "thead", "tbody", "tfoot", "tr", "td", "th")
_KEPT_SPACE = "\uf8f0"  # placeholder for spaces in code and before nested list items, which tidying must not remove
_KEPT_BAR = "\uf8f1"  # placeholder for the bar at the end of a row


def readable_text(markup: str) -> str:
    """The text with lines, lists, tables and code kept; at most one empty line in a row. Nested list items are indented
    by two spaces per level.
    """
    if not markup.strip():
        return ""
    tree = rewritten(as_read(parse_markup(markup).root), asked_for=True)
    _make_plain(tree)
    lines = map(_tidied, Inscriptis(tree, _CONFIG).get_text().split("\n"))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip().replace(_KEPT_SPACE, " ").replace(_KEPT_BAR, "|")


def _tidied(line: str) -> str:
    """A line without layout: indentation of blocks and padding of table columns are noise in text that is embedded."""
    return normal_space(line).rstrip("| ") if "|" in line else normal_space(line)


def _make_plain(tree: Any) -> None:
    write_grids(tree)
    for table in reversed(list(tree.iter("table"))):
        if is_grid(table):
            _write_grid(table)
        elif table.find(".//pre") is not None or next(table.iterancestors("td", "th"), None) is not None:
            for part in table.iter(*_TABLE_PARTS):
                part.tag = "div"
        else:
            write_out_spanned(table)
    for code in list(tree.iter("pre")):
        for line_break in code.iter("br"):
            line_break.tail = "\n" + (line_break.tail or "")
        text = "".join(code.itertext())  # Inscriptis keeps line breaks of a <pre> only directly inside it
        del code[:]
        code.text = text.replace(" ", _KEPT_SPACE)
    for element in tree.iter():
        if element.tag in _UNKNOWN_BLOCKS:
            element.tag = "div"
        # Inscriptis decodes entities a second time, after the parser: a page about HTML would lose its examples.
        if element.text and "&" in element.text:
            element.text = element.text.replace("&", "&amp;")
        if element.tail and "&" in element.tail:
            element.tail = element.tail.replace("&", "&amp;")


def _write_grid(grid: Any) -> None:
    """Makes of a grid of values its Markdown, whose lines Inscriptis keeps."""
    lines = "\n\n".join(grid_blocks(grid)).split("\n")
    for child in list(grid):
        grid.remove(child)
    grid.tag, grid.text = "pre", "\n".join(line[:-1] + _KEPT_BAR if line.endswith("|") else line for line in lines)


def _begin_list(state: HtmlDocumentState, _attributes: Any) -> None:
    state.li_counter.append("* ")


def _begin_numbered_list(state: HtmlDocumentState, attributes: Any) -> None:
    state.li_counter.append(_number(attributes.get("start"), 1))


def _begin_item(state: HtmlDocumentState, attributes: Any) -> None:
    mark = state.li_counter[-1] if state.li_counter else "* "
    if isinstance(mark, int):
        number = _number(attributes.get("value"), mark)
        state.li_counter[-1] = number + 1
        mark = f"{number}. "
    state.tags[-1].list_bullet = _KEPT_SPACE * 2 * (len(state.li_counter) - 1) + mark
    state.tags[-1].write("")


def _number(text: str | None, default: int) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 7 else default


_CONFIG = ParserConfig(
    display_links=False,
    display_images=False,
    table_cell_separator=" | ",
    custom_html_tag_handler_mapping=CustomHtmlTagHandlerMapping(
        start_tag_mapping={"ul": _begin_list, "ol": _begin_numbered_list, "li": _begin_item}, end_tag_mapping={}
    ),
)
