"""Prepares the markup of books and mails for unstructured, which passes over some of it: figures, captions, sums of
tables, formulas, folded parts.
"""

import re
from typing import Any

from lxml import html as lxml_html

from almanac.core.grids import is_grid, write_grids, write_on_one_line
from almanac.core.spanned_cells import write_out_spanned
from almanac.schemas.left_out import LeftOut
from almanac.spiders.reading.markup import parse_markup
from almanac.spiders.reading.rewriting import remove
from almanac.spiders.reading.rewritten import rewritten

_AS_BLOCKS = {"figure": "div", "details": "div", "form": "div", "figcaption": "p", "summary": "p", "tfoot": "tbody"}
_PAGE_BREAK = ("pagebreak", "doc-pagebreak")
_HIDING = re.compile(
    r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden)\s*(?:!\s*important\s*)?(?:;|$)", re.IGNORECASE
)


def whole_markup(markup: str, left_out: LeftOut) -> str:
    """The markup, rewritten as that of pages is (`rewritten`), so that unstructured loses no text of it and joins or
    parts no words.

    What hides itself is left out, such as the teaser in front of a newsletter. Captions come before their tables, sums
    at the end, and cells that reach over several rows stand in each. Page breaks of a printed edition are left out:
    their numbers would stand within sentences. `left_out` tallies it.
    """
    root = parse_markup(markup).root
    for element in list(root.iter("*")):
        is_break = element.tag not in _AS_BLOCKS and (
            element.get("role") in _PAGE_BREAK or element.get("epub:type") in _PAGE_BREAK
        )
        if (is_break or _is_hidden(element)) and element.getparent() is not None:
            if not any(map(_is_hidden, element.iterancestors())):
                left_out.add("page_furniture" if is_break else "hidden", " ".join(element.xpath(".//text()")))
            remove(element)
    root = rewritten(root, leave_out=lambda reason, text, _: left_out.add(reason, text))
    write_grids(root)
    for element in list(root.iter(*_AS_BLOCKS)):
        element.tag = _AS_BLOCKS[element.tag]
    for table in reversed(list(root.iter("table"))):  # tables inside cells first
        _write_table(table)
    return str(lxml_html.tostring(root, encoding="unicode"))


def _is_hidden(element: Any) -> bool:
    return (
        element.get("hidden", "until-found").lower() != "until-found"
        or _HIDING.search(element.get("style", "")) is not None
    )


def _write_table(table: Any) -> None:
    for caption in table.findall("caption"):
        if table.getparent() is not None:
            caption.tag, caption.tail = "p", None
            table.addprevious(caption)
    for cell in list(table.iter("td", "th")):
        if next(cell.iterdescendants("table"), None) is None:
            write_on_one_line(cell)
            text = " ".join(cell.text_content().split())
            for inner in list(cell):
                cell.remove(inner)
            cell.text = text
    if not is_grid(table):
        write_out_spanned(table)
