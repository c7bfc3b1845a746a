"""Tables of web pages, books and mails: which of them are grids of values, and the plain form that all who read a grid
share.

Other tables are for layout, or a line: their text is read as that of any block.
"""

from collections.abc import Iterator
from typing import Any

from lxml import etree
from lxml import html as lxml_html

from almanac.core.control_characters import drop_controls
from almanac.core.spanned_cells import own_rows, write_out_spanned
from almanac.core.table_heads import is_name, is_value, joined, kind_of, pipe_table

_GRID = "data-almanac-grid"  # marks a table in plain form
_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
# What begins and ends a line or a box; browsers show all other elements, those that they do not know too, within the
# line.
_BLOCKS = frozenset(
    {
        "address",
        "article",
        "aside",
        "blockquote",
        "br",
        "button",
        "caption",
        "center",
        "dd",
        "details",
        "dialog",
        "dir",
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
        *_HEADINGS,
        "header",
        "hgroup",
        "hr",
        "input",
        "legend",
        "li",
        "listing",
        "main",
        "menu",
        "nav",
        "ol",
    }
    | {
        "optgroup",
        "option",
        "p",
        "plaintext",
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
    | {"tr", "ul", "xmp"}
)
_UNWRAPPED = "almanac-unwrapped"
_SCRIPTS = ("script", "style", "template")
_UNREAD = (*_SCRIPTS, "noscript", "iframe", "object", "embed", "audio", "video", "canvas")
_CELLS = frozenset({"td", "th"})
_ROLES = {"rowgroup": "tbody", "row": "tr", "cell": "td", "gridcell": "td", "columnheader": "th", "rowheader": "th"}
_ITEMS = frozenset({"li", "tr", "dt"})
_ENDS = ".:;,!?…。：；，！？、؛،"
# Without a head, a table with one of these in a cell is for layout.
_SECTIONS = (*_HEADINGS, "table", "form", "nav", "section", "article", "aside", "main", "header", "footer")
_LONG = 500  # characters of a cell in several blocks, which is a text rather than a value
_MOST_RAGGED = 4  # times the cells that a table has, if all of its rows were as long as its longest
_MOST_HEADS = 5  # rows; where a <thead> has more, it says nothing


def _name_tables(root: Any) -> None:
    """Makes tables of the elements that a page calls so for screen readers, `role="table"`: rows and cells of them,
    which style sheets draw, are no blocks.
    """
    for table in root.xpath(".//*[@role = 'table' or @role = 'grid' or @role = 'treegrid'][not(self::table)]"):
        rows = table.xpath(".//*[@role = 'row']")
        if not rows or any(
            _ROLES.get(cell.get("role")) not in _CELLS for row in rows for cell in row.iterchildren(etree.Element)
        ):
            continue
        table.tag = "table"
        for element in list(table.iterdescendants(etree.Element)):
            if (name := _ROLES.get(element.get("role"))) is not None:
                element.tag = name
            elif next(element.iterancestors(*_CELLS), None) is None:
                element.drop_tag()


def write_grids(root: Any) -> None:
    """Rewrites the tables that are grids of values in place: captions, then a row of <th> that names the columns, then
    rows of <td>, all without blocks inside.

    Names of several rows are joined, cells that reach over several columns or rows stand in each, and what stands alone
    above the names is a caption. Where nothing names the columns, the first row is empty. A grid has two rows and two
    columns at least, no role that says layout, and its cells hold values: a table without a head is none if a cell has
    sections or another table, or if most of it is text in paragraphs.
    """
    _name_tables(root)
    tables = list(root.iter("table"))
    if tables:
        drop_controls(root)
    for table in reversed(tables):  # tables inside cells first
        table.attrib.pop(_GRID, None)
        if table.getparent() is not None and _holds_values(table):
            _make_plain(table)


def is_grid(table: Any) -> bool:
    """Whether `write_grids` found a grid of values in the table."""
    return _GRID in table.attrib


def grid_blocks(grid: Any) -> Iterator[str]:
    """Yields a grid as Markdown: its captions as paragraphs, and a pipe table."""
    yield from (text for caption in grid.findall("caption") if (text := _one_line(caption)))
    yield pipe_table([[_one_line(cell) for cell in row] for row in grid.findall("tr")])


def write_on_one_line(cell: Any) -> None:
    """Unwraps what is a block inside a cell: a space stands where one begins or ends, `; ` between the items of a list.
    Links and the like stay.
    """
    if not len(cell):
        return
    for unread in list(cell.iter(*_UNREAD)):
        unread.drop_tree()
    # the last text that is not blank: its element, and whether it is the text or the tail
    last_text: tuple[Any, str] | None = None
    blank: list[tuple[Any, str]] = []  # blank ones since
    blocks = []
    walk = etree.iterwalk(cell, events=("start", "end"))
    for event, element in walk:
        where = "text" if event == "start" else "tail"
        if element is cell and event == "end":
            break
        if element.tag == "svg" and event == "start":
            walk.skip_subtree()
            continue
        if element is not cell and element.tag in _BLOCKS:
            mark = _mark_of(element) if event == "start" else ""
            if event == "start":
                blocks.append(element)
            if mark and last_text is not None and (text := getattr(*last_text).rstrip())[-1] not in _ENDS:
                setattr(*last_text, text)
                for place in blank:
                    setattr(*place, "")
            else:
                mark = ""
            setattr(element, where, f"{mark} {getattr(element, where) or ''}")
        if (getattr(element, where) or "").lstrip(";:").strip():
            last_text, blank = (element, where), []
        elif getattr(element, where):
            blank.append((element, where))
    for block in blocks:
        block.tag = _UNWRAPPED
    etree.strip_tags(cell, _UNWRAPPED)  # all at once: one by one, each looks for its place among thousands


def _mark_of(element: Any) -> str:
    """What parts an element of a cell from the text before it, beside a space."""
    before = element.getprevious()
    is_meaning = element.tag == "dd" and before is not None and before.tag == "dt"
    return ":" if is_meaning else ";" if element.tag in _ITEMS else ""


def _holds_values(table: Any) -> bool:
    rows = list(map(_cells, own_rows(table)))
    cells = [cell for row in rows for cell in row]
    if table.get("role") in ("presentation", "none") or max(map(len, rows), default=0) * len(rows) > _MOST_RAGGED * (
        len(cells) + _LONG
    ):
        return False
    for script in [script for cell in cells for script in cell.iter(*_SCRIPTS)]:
        script.drop_tree()
    if (
        sum(len(row) > 1 and any(map(_says, row)) for row in rows) < 2
        or len({at for row in rows for at, cell in enumerate(row) if _says(cell)}) < 2
    ):
        return False
    size = len(table.text_content())
    inside = sum(len(inner.text_content()) for cell in cells for inner in cell.iter("table") if is_grid(inner))
    if inside > _LONG and 2 * inside > size:
        return False
    if any(cell.tag == "th" and _says(cell) for cell in cells):
        return True
    if any(True for cell in cells for _ in cell.iter(*_SECTIONS)):
        return False
    lengths = {
        cell: len(cell.text_content())
        for cell in cells
        if any(inner.tag in _BLOCKS for inner in cell.iterdescendants())
    }
    return 2 * sum(length for length in lengths.values() if length > _LONG) <= size and not any(
        2 * length > size and _has_paragraphs(cell) for cell, length in lengths.items()
    )


def _has_paragraphs(cell: Any) -> bool:
    """Whether there are paragraphs in a cell, as tags or parted by empty lines."""
    breaks = [line.getprevious() for line in cell.iter("br") if line.getprevious() is not None]
    return (
        any(before.tag == "br" and not (before.tail or "").strip() for before in breaks)
        or sum(1 for _ in cell.iter("p")) > 1
    )


def _make_plain(table: Any) -> None:
    captions = [*(_one_line(caption) for caption in table.findall("caption")), *_beside_cells(table)]
    rows = own_rows(table)
    lone = {row for row in rows if len(_cells(row)) == 1}
    headed = {row for row in rows if row.getparent().tag == "thead"}
    spans = {row: [(_span(cell, "colspan"), _span(cell, "rowspan")) for cell in _cells(row)] for row in rows}
    spread = {
        row: max(rows for _, rows in own)
        for row, own in spans.items()
        if row not in lone and any(columns > 1 for columns, _ in own)
    }
    for cell in (cell for row in rows for cell in _cells(row)):
        write_on_one_line(cell)
    write_out_spanned(table)
    grid = {row: cells for row in rows if any(map(_says, cells := _cells(row)))}
    wide = [row for row, cells in grid.items() if sum(map(_says, cells)) > 1]
    while wide and (row := next(iter(grid))) is not wide[0] and row in lone:
        captions.append(_one_line(next(filter(_says, grid.pop(row)))))
    if len(grid) < 2:
        return
    heads = _heads(grid, headed, spread)
    names = joined([[_one_line(cell) for cell in grid.pop(row)] for row in heads])
    columns = sorted(
        {number for cells in grid.values() for number, cell in enumerate(cells) if _says(cell)}
        | {at for at, name in enumerate(names) if name}
    )
    for child in list(table):
        table.remove(child)
    table.text = None
    table.set(_GRID, "")
    for caption in filter(None, captions):
        etree.SubElement(table, "caption").text = caption
    row = etree.SubElement(table, "tr")
    for number in columns:
        etree.SubElement(row, "th").text = names[number] if number < len(names) else ""
    for cells in grid.values():
        row = etree.SubElement(table, "tr")
        for number in columns:
            cell = cells[number] if number < len(cells) else lxml_html.Element("td")
            cell.tag, cell.tail = "td", None
            row.append(cell)


def _heads(grid: dict[Any, list[Any]], headed: set[Any], spread: dict[Any, int]) -> list[Any]:
    """The rows that name the columns: those of <thead>, else the first ones of <th>, else the first one where its shape
    tells.

    `spread` has the rows with cells over several columns, and how many rows their cells reach over. Below such a head,
    a second row may name the columns.
    """
    rows = list(grid)
    if (heads := [row for row in rows if row in headed]) and len(heads) < len(rows) and len(heads) <= _MOST_HEADS:
        return heads
    heads = []
    for row in rows[:_MOST_HEADS]:
        cells = grid[row]
        if not any(map(_says, cells[1:])) or any(cell.tag != "th" and _says(cell) for cell in cells[1:]):
            break
        heads.append(row)
    heads = heads if len(heads) < len(rows) and len(heads) < _MOST_HEADS else heads[:1]
    texts = [[_one_line(cell) for cell in grid[row]] for row in rows]
    is_spread = rows[0] in spread
    if not heads and _names_by_shape([grid[row] for row in rows], texts, is_spread=is_spread):
        heads = rows[: spread.get(rows[0], 1)]
    if len(heads) == 1 and is_spread and len(rows) > 2 and rows[0] in heads:
        kinds = [[kind_of(text) for text in row] for row in texts[1:]]
        heads += rows[1:2] if is_name(kinds[0], kinds[1:]) else []
    return heads if len(heads) < len(rows) else heads[:1]


def _names_by_shape(rows: list[list[Any]], texts: list[list[str]], *, is_spread: bool) -> bool:
    """Whether the first row names the columns of a table that does not say so: it is filled, and no cell of it is a
    figure above figures.

    Of two columns, the first may name what the second holds: there, the first row has to be bold, or to begin with an
    empty cell.
    """
    first, *below = texts
    named = [text for text in first[1:] if text]
    if not below or len(named) < len(first) - 1 or (len(set(named)) < len(named) and not is_spread):
        return False
    if is_value([kind_of(text) for text in first], [[kind_of(text) for text in row] for row in below]):
        return False
    is_bold = all(map(_is_bold, rows[0])) and not all(_is_bold(cell) for row in rows[1:] for cell in row)
    return is_bold or not first[0] or len(first) > 2


def _span(cell: Any, name: str) -> int:
    """The columns or rows that a cell says to reach over."""
    written = cell.get(name, "")
    return int(written) if written.isascii() and written.isdecimal() and len(written) < 4 else 1


def _is_bold(cell: Any) -> bool:
    return bool(
        "".join(text for bold in cell.iter("b", "strong") for text in bold.itertext()).split()
        == cell.text_content().split()
    )


def _cells(row: Any) -> list[Any]:
    return [cell for cell in row if cell.tag in _CELLS]


def _says(cell: Any) -> bool:
    return bool(cell.text_content().strip())


def _one_line(element: Any) -> str:
    return " ".join(element.text_content().split())


def _beside_cells(table: Any) -> Iterator[str]:
    """Yields the texts that stand in the table but in none of its cells, as those of broken markup."""
    walk = etree.iterwalk(table, events=("start", "end"))
    for event, element in walk:
        is_whole = (
            element.tag == "caption"
            or element.tag in _UNREAD
            or (element.tag in _CELLS and element.getparent().tag == "tr")
        )
        if event == "start" and is_whole:
            walk.skip_subtree()
        text = (
            element.tail
            if event == "end" and element is not table
            else element.text
            if event == "start" and not is_whole
            else None
        )
        if text and text.strip():
            yield " ".join(text.split())
