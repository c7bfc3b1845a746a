"""Mends cells of a DOCX table that are merged downwards, where python-docx would lose a row or take too long.

It looks for a cell's value in the row above, that row in the one above, and so on: a thousand rows end its recursion,
and a cell that continues none, or one of another width, costs the rest of its row.
"""

from typing import Any

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
MAX_REPEATED = 500  # characters; what is longer is no value of each row but a text beside them all, and stands once
_MAX_ROWS = 20  # of one merged cell; what follows begins anew, with the same value


def mend_merges(root: Any) -> bool:
    """Mends the tables in place; whether there was anything to mend."""
    mended = False
    for table in root.iter(f"{W}tbl"):
        # by column: what has the value, the columns it takes, its rows so far
        above: dict[int, tuple[str | Any, int, int]] = {}
        for row in table.iterfind(f"{W}tr"):
            column, here = _number(row.find(f"{W}trPr/{W}gridBefore"), 0), {}
            for cell in row.iterfind(f"{W}tc"):
                columns, merge = _number(cell.find(f"{W}tcPr/{W}gridSpan"), 1), cell.find(f"{W}tcPr/{W}vMerge")
                if merge is not None:
                    origin, width, rows = above.get(column, (cell, 0, 0))
                    begins = merge.get(f"{W}val", "continue") != "continue"
                    if begins or (width == columns and rows < _MAX_ROWS):
                        here[column] = (cell, columns, 1) if begins else (origin, columns, rows + 1)
                    else:
                        mended = True
                        merge.set(f"{W}val", "restart")
                        if origin is not cell:
                            origin = origin if isinstance(origin, str) else _text_of(origin)
                            _write(cell, origin)
                        here[column] = (origin, columns, 1)
                column += columns
            above = here
    return mended


def _number(element: Any, default: int) -> int:
    value = "" if element is None else element.get(f"{W}val", "").strip()
    return int(value) if value.isdecimal() and len(value) < 9 else default


def _text_of(cell: Any) -> str:
    parts = ("".join(text.text or "" for text in paragraph.iter(f"{W}t")) for paragraph in cell.iter(f"{W}p"))
    text = " ".join(" ".join(parts).split())
    return text if len(text) <= MAX_REPEATED else ""


def _write(cell: Any, text: str) -> None:
    for inner in list(cell):
        if inner.tag != f"{W}tcPr":
            cell.remove(inner)
    paragraph = cell.makeelement(f"{W}p")
    cell.append(paragraph)
    paragraph.append(run_of(cell, text))


def run_of(neighbour: Any, text: str) -> Any:
    """A run with that text, of the same kind of tree as the element `neighbour`."""
    run, written = neighbour.makeelement(f"{W}r"), neighbour.makeelement(f"{W}t")
    written.set("{http://www.w3.org/XML/1998/namespace}space", "preserve")
    written.text = text
    run.append(written)
    return run
