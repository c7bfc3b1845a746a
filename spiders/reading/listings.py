"""Removes what a highlighter puts beside code: line numbers, copy buttons, and the table that holds them. The code
becomes one block.
"""

import re
from typing import Any

from almanac.spiders.reading.rewriting import class_names, remove

# Classes of line numbers: Pygments, Rouge, Chroma, GitHub and GitLab, highlight.js, Prism, SyntaxHighlighter,
# CodeMirror, Monaco, VitePress, Doxygen, cgit.
_NUMBERS = frozenset(
    {
        "linenos",
        "lineno",
        "linenodiv",
        "linenos-cell",
        "rouge-gutter",
        "gutter",
        "gl",
        "lnt",
        "ln",
        "lnlinks",
        "blob-num",
        "lines-num",
        "line-numbers-rows",
    }
    | {
        "hljs-ln-numbers",
        "hljs-ln-n",
        "CodeMirror-linenumber",
        "CodeMirror-gutter-wrapper",
        "CodeMirror-gutters",
        "cm-gutters",
        "cm-gutterElement",
    }
    | {
        "line-number",
        "line-numbers-wrapper",
        "linenumbers",
        "linenumber",
        "line-num",
        "diff-line-num",
        "file-line-num",
        "react-line-number",
        "ace_gutter-cell",
    }
    | {
        "margin-view-overlays",
        "src-line-numbers",
        "react-syntax-highlighter-line-number",
        "crayon-nums",
        "codehilite-lineno",
        "ec-line-number",
        "rouge-line-number",
    }
)
# each element inside is a line of code
_EDITORS = frozenset({"CodeMirror-code", "cm-content", "view-lines", "ace_text-layer", "fragment"})
_IS_NUMBER = re.compile(r"[\d\s.:|​-]*")
_COPY = re.compile(
    r"cop(?:y|ier|iar|ia|ié|ied|iado)\b|kopier|clipboard|复制|複製|コピー|복사|копировать|sao chép|kopyala|העתק",
    re.IGNORECASE,
)
_COPY_CLASS = re.compile(
    r"(?:^|[-_\s])(?:cop(?:y|ybtn)|clipboard|btn-?copy|zeroclipboard)(?:$|[-_\s])|copy-?(?:btn|button|code)|clipboard",
    re.IGNORECASE,
)
_BUTTONS = ("button", "clipboard-copy", "a", "span", "div")
_SECTIONS = frozenset({"body", "main", "article", "section", "li", "td"})
_MAX_BUTTON = 40  # characters


def write_listings(root: Any) -> None:
    """Rewrites the code of a tree in place: each listing is a `<pre>` with its own line breaks and spaces, and nothing
    beside it.
    """
    tables = []
    for element in list(root.iter()):
        if element is root or not isinstance(element.tag, str) or element.getparent() is None:
            continue
        if _is_line_number(element):
            table = next(element.iterancestors("table"), None)
            if table is not None and table not in tables and (element.tag in ("td", "th") or _cell_is_number(element)):
                tables.append(table)
            _remove_number(element)
    for table in tables:
        _make_table_code(table)
    for element in list(root.iter("div")):
        if class_names(element) & _EDITORS and element is not root:
            _join_lines(element)
    _remove_buttons(root)


def _is_line_number(element: Any) -> bool:
    names = class_names(element)
    is_marked = bool(names & _NUMBERS) or (
        "data-line-number" in element.attrib and element.tag in ("td", "span", "a", "div")
    )
    return (is_marked or _links_to_line(element)) and _IS_NUMBER.fullmatch("".join(element.itertext())) is not None


def _links_to_line(element: Any) -> bool:
    """Whether an element in code is a link to the line whose number it shows, such as `<a href="#L12"
    id="L12">12</a>`.
    """
    number, named = (element.text or "").strip(), element.get("id") or element.get("name") or ""
    if element.tag != "a" or not number.isdecimal() or not named.endswith(number) or element.get("href") != f"#{named}":
        return False
    return next(element.iterancestors("pre"), None) is not None


def _cell_is_number(element: Any) -> bool:
    cell = next(element.iterancestors("td", "th"), None)
    return cell is not None and _IS_NUMBER.fullmatch("".join(cell.itertext())) is not None


def _remove_number(element: Any) -> None:
    if element.tag in ("td", "th"):
        for inner in list(element):
            element.remove(inner)
        element.text = None
        element.set("class", "")
    else:
        remove(element)


def _make_table_code(table: Any) -> None:
    """Replaces a table of line numbers and code by the code; a table with other cells stays."""
    rows = [
        [cell for cell in row.iterchildren("td", "th") if "".join(cell.itertext()).strip()] for row in table.iter("tr")
    ]
    if any(len(cells) > 1 for cells in rows) or not any(rows) or table.getparent() is None:
        return
    lines = [_code_of(cells[0]) if cells else "" for cells in rows]
    tail = table.tail
    table.clear()
    table.tag, table.tail = "pre", tail
    table.text = "\n".join(line.removesuffix("\n") for line in lines)
    around = next(table.iterancestors("pre"), None)
    if around is not None:  # highlight.js puts its table into the block
        table.tag = "span"


def _code_of(cell: Any) -> str:
    """The code in a cell: preformatted text as it is, else one line for each `<div>` or `<br>`, as SyntaxHighlighter
    writes them.
    """
    for line_break in cell.iter("br"):
        line_break.tail = "\n" + (line_break.tail or "")
    if next(cell.iter("pre"), None) is not None:
        return "\n".join("".join(code.itertext()).strip("\n") for code in cell.iter("pre"))
    lines = [inner for inner in cell.iter("div") if next(inner.iterdescendants("div"), None) is None]
    if lines:
        return "\n".join("".join(line.itertext()) for line in lines).replace("\xa0", " ")
    return "".join(cell.itertext()).strip("\r\n")


def _join_lines(editor: Any) -> None:
    lines = [line for line in editor if isinstance(line.tag, str)]
    if any(
        line.tag not in ("div", "pre") or next(line.iterdescendants("p", "div"), None) is not None for line in lines
    ):
        return
    text = "\n".join("".join(line.itertext()).replace("\u200b", "").strip("\n") for line in lines).replace("\xa0", " ")
    tail = editor.tail
    editor.clear()
    editor.tag, editor.tail, editor.text = "pre", tail, text


def _remove_buttons(root: Any) -> None:
    """Removes buttons that copy code, and any button inside code."""
    for button in [element for element in root.iter(*_BUTTONS) if element is not root and _copies(element)]:
        if button.getparent() is not None and _is_beside_code(button):
            remove(button)


def _copies(element: Any) -> bool:
    """Whether an element is a button, by its tag or class, that says it copies something, or stands in code."""
    is_button = element.tag in ("button", "clipboard-copy")
    classes = element.get("class") or ""
    if not is_button and not _COPY_CLASS.search(classes):
        return False
    text = " ".join("".join(element.itertext()).split())
    if len(text) > _MAX_BUTTON:
        return False
    if (
        _COPY.match(text)
        or element.tag == "clipboard-copy"
        or (is_button and next(element.iterancestors("pre"), None) is not None)
    ):
        return True
    return (
        not text
        and _COPY.search(
            " ".join([classes, *(element.get(name) or "" for name in ("aria-label", "title", "data-tooltip"))])
        )
        is not None
    )


def _is_beside_code(button: Any) -> bool:
    """Whether there is code in one of the three elements around a button."""
    around = button
    for _ in range(3):
        around = around.getparent()
        if around is None or around.tag in _SECTIONS:
            return False
        if around.tag == "pre" or next(around.iterdescendants("pre"), None) is not None:
            return next(button.iterdescendants("pre", "code"), None) is None
    return False
