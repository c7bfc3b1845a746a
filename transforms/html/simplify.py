"""Parses a page and makes its tree plain: after this, every text stands in a block, and lists, tables and code are as
simple as Markdown's.
"""

from collections.abc import Iterator
from typing import Any

import lxml.etree
import lxml.html

from almanac.core.grids import is_grid, write_grids
from almanac.core.spanned_cells import write_out_spanned

# Elements without readable text.
_UNREAD = (
    "script",
    "style",
    "template",
    "noscript",
    "svg",
    "canvas",
    "iframe",
    "object",
    "embed",
    "audio",
    "video",
    "head/meta",
    "head/link",
)
BLOCKS = frozenset(
    {
        "address",
        "article",
        "aside",
        "blockquote",
        "center",
        "dd",
        "details",
        "dialog",
        "dir",
        "div",
        "dl",
        "dt",
        "fieldset",
        "figcaption",
        "figure",
    }
    | {
        "footer",
        "form",
        "frameset",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "header",
        "hgroup",
        "hr",
        "legend",
        "li",
        "main",
        "menu",
        "nav",
        "noframes",
    }
    | {
        "ol",
        "p",
        "plaintext",
        "pre",
        "section",
        "summary",
        "table",
        "tbody",
        "td",
        "tfoot",
        "th",
        "thead",
        "tr",
        "ul",
        "xmp",
    }
)
_IN_LAYOUT = frozenset(
    {
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "ul",
        "ol",
        "dl",
        "pre",
        "table",
        "form",
        "nav",
        "section",
        "article",
        "blockquote",
    }
)
DEFINITIONS = "data-definitions"  # marks lists that were definition lists


def parse_page(html: str) -> Any:
    """The root element of a page, without comments, its grids of values in plain form; None if there is no element."""
    parser = lxml.html.HTMLParser(encoding="utf-8", huge_tree=True, remove_comments=True, remove_pis=True)
    try:
        root = lxml.html.document_fromstring(html.replace("\0", "").encode("utf-8", "replace"), parser=parser)
    except lxml.etree.ParserError:
        return None
    for title in root.xpath("//body//title[not(ancestor::svg)]"):
        title.tag = "p"  # a browser shows it
    for form in list(root.iter("form")):
        if 2 * len(form.text_content()) > len(root.text_content()):
            form.tag = "div"  # some frameworks put the whole page into one, and trafilatura drops forms
    write_grids(root)
    return root


def simplify(root: Any, *, drawings: bool = False) -> None:
    """Rewrites the tree in place: no scripts, code without markup; captions, summaries, definitions, bare text and runs
    of lines as plain blocks.

    With `drawings`, the text of SVG drawings is kept.
    """
    unread = [path for path in _UNREAD if path != "svg" or not drawings]
    for element in [descendant for path in unread for descendant in root.iterfind(f".//{path}")]:
        element.drop_tree()
    for drawing in list(root.iter("svg")):
        _make_drawing_plain(drawing)
    for code in list(root.iter("pre", "xmp", "plaintext", "listing")):
        _make_code_plain(code)
    for table in list(root.iter("table")):
        _make_table_plain(table)
    for definitions in list(root.iter("dl")):
        _make_definitions_a_list(definitions)
    for element in list(
        root.iter("summary", "figcaption", "div", "figure", "details", "fieldset", "form", "dd", "center")
    ):
        _make_block_plain(element)
    for element in list(
        root.iter(
            "body", "main", "article", "section", "aside", "header", "footer", "nav", "blockquote", "address", "hgroup"
        )
    ):
        if has_blocks(element):
            _wrap_bare_text(element)
    for paragraph in list(root.iter("p")):
        _split_at_empty_lines(paragraph)


def _make_drawing_plain(svg: Any) -> None:
    """Replaces a drawing by its text, with spaces between its parts."""
    words = " ".join(svg.itertext())
    del svg[:]
    svg.tag, svg.text = "span", f" {words} "


def _make_code_plain(code: Any) -> None:
    """Replaces markup inside code by its text, with line breaks and spaces kept."""
    for line_break in code.iter("br"):
        line_break.tail = "\n" + (line_break.tail or "")
    text = "".join(code.itertext())
    del code[:]
    code.tag, code.text = "pre", text


def _make_table_plain(table: Any) -> None:
    """Prepares a table that is no grid of values for extraction.

    One that contains headings, lists or tables is for layout: its cells become blocks. In others, captions move in
    front and cells with rowspan are repeated.
    """
    if is_grid(table):
        return
    if any(element.tag in _IN_LAYOUT for element in table.iterdescendants()):
        for element in _own(table, ("tr", "td", "th", "tbody", "thead", "tfoot", "caption", "table")):
            element.tag = "div"
        return
    for caption in table.findall("caption"):
        caption.tag = "p"
        tail, caption.tail = caption.tail, None
        table.addprevious(caption)
        caption.tail = tail
    write_out_spanned(table)


def _own(table: Any, tags: tuple[str, ...]) -> Iterator[Any]:
    """The table's parts and the table itself, without parts of nested tables."""
    for element in list(table.iter(*tags)):
        nearest = element if element.tag == "table" else next(element.iterancestors("table"), None)
        if nearest is table or nearest is None:
            yield element


def _make_definitions_a_list(definitions: Any) -> None:
    """Turns a definition list into a list of `Term: meaning` items; with blocks inside, into paragraphs and blocks."""
    terms = [
        element
        for element in definitions.iterdescendants("dt", "dd")
        if next(element.iterancestors("dl")) is definitions
    ]
    if any(child.tag in BLOCKS for element in terms for child in element.iterdescendants()):
        for element in terms:
            element.tag = "p" if element.tag == "dt" and not has_blocks(element) else "div"
        definitions.tag = "div"
        return
    definitions.tag = "ul"
    definitions.set(DEFINITIONS, "")
    for term, element in zip([None, *terms], terms, strict=False):
        if term is not None and term.tag == "dt" and element.tag == "dd":
            element.text = f"{term.text_content().strip().rstrip(':')}: {(element.text or '').lstrip()}"
            term.drop_tree()
    for element in definitions.iter("dt", "dd"):
        element.tag = "li"


def _make_block_plain(element: Any) -> None:
    """Turns blocks without inner blocks into paragraphs, a <summary> into a heading, and bare text in other blocks into
    paragraphs.
    """
    if element.tag == "summary" and not has_blocks(element):
        element.tag = "h4"
    elif not has_blocks(element) and element.text_content().strip():
        element.tag = "p"
    else:
        element.tag = "div"
        _wrap_bare_text(element)


def _wrap_bare_text(block: Any) -> None:
    """Wraps text between blocks, with its inline elements, in paragraphs."""
    children = list(block)
    paragraph = _paragraph(block.text)
    block.text = None
    if paragraph is not None:
        block.insert(0, paragraph)
    for child in children:
        if child.tag in BLOCKS or has_blocks(child):
            paragraph = _paragraph(child.tail)
            child.tail = None
            if paragraph is not None:
                child.addnext(paragraph)
        elif paragraph is not None:
            paragraph.append(child)
        elif (child.tail or "").strip() or (child.text_content().strip() and child.tag != "a"):
            paragraph = lxml.html.Element("p")
            child.addprevious(paragraph)
            paragraph.append(child)


def _split_at_empty_lines(paragraph: Any) -> None:
    """Splits a paragraph at two or more `<br>` in a row, with which some editors part paragraphs."""
    part, after_break = paragraph, False
    for child in list(paragraph):
        if child.tag == "br" and after_break:
            if part is paragraph or len(part) or (part.text or "").strip():
                following = lxml.html.Element("p")
                part.addnext(following)
                part = following
            part.text, child.tail = child.tail, None
            child.getparent().remove(child)
            after_break = not (part.text or "").strip()
        else:
            if part is not paragraph:
                part.append(child)
            after_break = child.tag == "br" and not (child.tail or "").strip()


def _paragraph(text: str | None) -> Any:
    if not text or not text.strip():
        return None
    paragraph = lxml.html.Element("p")
    paragraph.text = text
    return paragraph


def has_blocks(element: Any) -> bool:
    """Whether the element contains a block element."""
    return any(child.tag in BLOCKS for child in element.iterdescendants())
