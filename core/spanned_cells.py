"""Cells of HTML tables that reach over several rows or columns: written out, so that each value stands in its row,
under its head.
"""

from dataclasses import dataclass
from typing import Any

from lxml import html as lxml_html

# that a cell reaches over, and cells of a table that are written out
_MOST_ROWS, _MOST_COLUMNS, _MOST_CELLS = 200, 50, 2000
_ORDER = {"thead": 0, "tfoot": 2}
_LONG = 500  # characters; what is longer is no value of each column but a text beside them all, and stands once


@dataclass(frozen=True, slots=True)
class _Placed:
    """A cell where it stands in a row: of this row, or reaching down from one above."""

    cell: Any
    column: int
    width: int
    is_own: bool


def write_out_spanned(table: Any) -> None:
    """Repeats cells with `rowspan` in the rows below, in their columns, and those with `colspan` in each of their
    columns, as text.

    The first cell of a row that is no head, such as `Total`, stands in the first of its columns alone, the others being
    empty; a head is a row of <th>, or the first with several values. What stands alone in its row is not repeated to
    the right, and nothing is in a column in which no cell begins: there it would part no values. Cells of tables inside
    are left alone.
    """
    rows = _placed(table)
    starts = {placed.column for _, cells in rows for placed in cells}
    left, first = _MOST_CELLS, True
    for row, cells in rows:
        columns_with_text = [placed.column for placed in cells if placed.cell.text_content().strip()]
        is_alone = columns_with_text in ([], [0])
        is_head = first or all(placed.cell.tag == "th" for placed in cells)
        first = first and is_alone
        last = None
        for number, placed in enumerate(cells):
            last = placed.cell if placed.is_own else _put(row, last, placed.cell.tag, placed.cell.text_content())
            columns = [column for column in range(placed.column + 1, placed.column + placed.width) if column in starts]
            if not columns or is_alone or left < len(columns):
                continue
            left -= len(columns)
            text = placed.cell.text_content() if is_head or number else ""
            for _ in columns:
                last = _put(row, last, placed.cell.tag, text if len(text) <= _LONG else "")
    for _, cells in rows:
        for placed in cells:
            placed.cell.attrib.pop("colspan", None)
    _drop_empty_beginnings([row for row, _ in rows])


def own_rows(table: Any) -> list[Any]:
    """The rows of the table itself, heads first and sums last, wherever they stand in the markup."""
    rows = [row for row in table.iter("tr") if next(row.iterancestors("table"), None) is table]
    return sorted(rows, key=lambda row: _ORDER.get(row.getparent().tag, 1))


def _drop_empty_beginnings(rows: list[Any]) -> None:
    """Drops the first column where it has no text, as where it holds pictures: an empty cell at the beginning then says
    that a column has another head.
    """
    cells = [[cell for cell in row if cell.tag in ("td", "th")] for row in rows]
    firsts = [row[0] for row in cells if len(row) > 1]
    if firsts and not any(cell.text_content().strip() for cell in firsts):
        for cell in firsts:
            cell.drop_tree()


def _placed(table: Any) -> list[tuple[Any, list[_Placed]]]:
    """The rows of the table itself, with the cells that stand in each, from left to right. `rowspan` is taken off
    them.
    """
    # by column: a cell from above, its columns, and the rows that it reaches over from here on
    carried: dict[int, tuple[Any, int, int]] = {}
    left = _MOST_CELLS
    placed_rows = []
    for row in own_rows(table):
        coming: dict[int, tuple[Any, int, int]] = {}
        cells: list[_Placed] = []
        column = 0
        for cell in [*(cell for cell in row if cell.tag in ("td", "th")), None]:
            while carried and (column in carried or cell is None):
                column = column if column in carried else min(carried)
                above, width, rows = carried.pop(column)
                cells.append(_Placed(above, column, width, is_own=False))
                if rows > 1:
                    coming[column] = (above, width, rows - 1)
                column += width
            if cell is not None:
                width, rows = (
                    _number(cell.get("colspan"), _MOST_COLUMNS),
                    _number(cell.attrib.pop("rowspan", None), _MOST_ROWS),
                )
                cells.append(_Placed(cell, column, width, is_own=True))
                if rows > 1 and left > 0:
                    coming[column] = (cell, width, rows - 1)
                    left -= rows - 1
                column += width
        carried = coming
        placed_rows.append((row, cells))
    return placed_rows


def _put(row: Any, after: Any, tag: str, text: str) -> Any:
    """A new cell in the row, behind the cell `after`; as its first where that is None."""
    cell = lxml_html.Element(tag)
    cell.text = text
    if after is None:
        row.insert(0, cell)
    else:
        after.addnext(cell)
    return cell


def _number(written: str | None, most: int) -> int:
    return (
        max(1, min(int(written), most))
        if written and written.isascii() and written.isdecimal() and len(written) < 7
        else 1
    )
