"""Which rows of a table can name its columns, told from the kinds of values above and below each other."""

import re
from collections.abc import Sequence

_YEAR = re.compile(r"(?:19|20)\d\d")
_BEGINS_WITH_DIGIT = re.compile(r"[^\w]*\d")
_LONG = 60  # characters; what is longer is a text, also if it begins with a figure
_SAMPLED = 200  # rows

Kinds = Sequence[str]  # of the cells of a row: `text`, `number`, `year` or another; empty where a cell is


def kind_of(text: str) -> str:
    """The kind of a text: `number` where it begins with a figure, such as `9 €` and `8:00-18:00`."""
    if not text or text.isspace():
        return ""
    if _YEAR.fullmatch(text):
        return "year"
    return "number" if len(text) <= _LONG and _BEGINS_WITH_DIGIT.match(text) else "text"


def is_value(row: Kinds, below: Sequence[Kinds]) -> bool:
    """Whether a cell of the row is a number, date or year like those below it, so that it is a value itself."""
    return any(kind not in ("", "text") and _below(below, column) == kind for column, kind in enumerate(row))


def is_name(row: Kinds, below: Sequence[Kinds]) -> bool:
    """Whether a text, year or date of the row stands above values of another kind, so that it is none of them; and no
    cell is a value.
    """
    return not is_value(row, below) and any(
        kind and _below(below, column) not in ("", "text", kind) for column, kind in enumerate(row)
    )


def _below(rows: Sequence[Kinds], column: int) -> str:
    """The kind that more than half of a column's values are of; empty where there is none."""
    kinds = [row[column] for row in rows[:_SAMPLED] if column < len(row) and row[column]]
    return next((kind for kind in set(kinds) if 2 * kinds.count(kind) > len(kinds)), "")


def joined(heads: Sequence[Sequence[str]]) -> list[str]:
    """One name for each column of the rows that name it: `2024` above `Q1` makes `2024 Q1`; what stands in several of
    them stands once.
    """
    names = []
    for column in range(max(map(len, heads), default=0)):
        parts = [head[column] for head in heads if column < len(head) and head[column]]
        names.append(" ".join(dict.fromkeys(parts)))
    return names


def pipe_table(rows: Sequence[Sequence[str]]) -> str:
    """A table of Markdown, of which the first row names the columns."""
    width = max(map(len, rows))
    cells = [[" ".join(cell.split()).replace("|", "\\|") for cell in row] + [""] * (width - len(row)) for row in rows]
    first, *others = ["|" + "".join(f" {cell} |" if cell else " |" for cell in row) for row in cells]
    return "\n".join([first, f"|{' --- |' * width}", *others])
