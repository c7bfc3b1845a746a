"""Cells of HTML tables that reach over several rows: written out, so that each value stands in its row, under its head."""

from typing import Any

from lxml import html as lxml_html

_MOST_ROWS, _MOST_COLUMNS, _MOST_CELLS = 200, 50, 2000  # that a cell reaches over, and cells of a table that are written out


def write_out_spanned(table: Any) -> None:
    """Repeats each cell that has a `rowspan` in the rows below it, in its column, as text. Cells of tables inside are left alone."""
    carried: dict[int, tuple[Any, int, int]] = {}  # by column: a cell from above, its columns, and the rows that it reaches over from here on
    left = _MOST_CELLS
    for row in [row for row in table.iter("tr") if next(row.iterancestors("table"), None) is table]:
        coming: dict[int, tuple[Any, int, int]] = {}
        column = 0
        for cell in [*(cell for cell in row if cell.tag in ("td", "th")), None]:
            while carried and (column in carried or cell is None):
                column = column if column in carried else min(carried)
                above, width, rows = carried.pop(column)
                if cell is None:
                    row.append(_copied(above))
                else:
                    cell.addprevious(_copied(above))
                if rows > 1:
                    coming[column] = (above, width, rows - 1)
                column += width
            if cell is not None:
                width, rows = _number(cell.get("colspan"), _MOST_COLUMNS), _number(cell.attrib.pop("rowspan", None), _MOST_ROWS)
                if rows > 1 and left > 0:
                    coming[column] = (cell, width, rows - 1)
                    left -= rows - 1
                column += width
        carried = coming


def _copied(cell: Any) -> Any:
    copy = lxml_html.Element(cell.tag)
    copy.text = cell.text_content()
    if "colspan" in cell.attrib:
        copy.set("colspan", cell.get("colspan"))
    return copy


def _number(written: str | None, most: int) -> int:
    return max(1, min(int(written), most)) if written and written.isascii() and written.isdecimal() and len(written) < 7 else 1
