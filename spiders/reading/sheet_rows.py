"""The rows of a sheet as a person sees them: without what is hidden, values by their formats, merged cells in each of their rows."""

import datetime as dt
import re
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from almanac.schemas.left_out import LeftOut
from almanac.spiders.reading.docx_merges import MAX_REPEATED
from almanac.spiders.reading.number_formats import EAST_ASIAN_DATES, date_text, number_text, text_text
from almanac.spiders.reading.number_sections import Marks
from almanac.spiders.reading.raised import Standing, raised_in

_MAX_COLUMNS = 16_384
_ESCAPED_CONTROL = re.compile(r"_x00[01][0-9A-Fa-f]_")  # `_x000D_` for the end of a line: XML has no control characters
_DATE = "yyyy-mm-dd hh:mm:ss"
_STANDING: dict[str | None, Standing] = {"superscript": "sup", "subscript": "sub"}

Row = dict[int, str]  # texts by column; what is empty has none


class _Merged(NamedTuple):
    """A merged cell: its columns, the last of its rows, the first of its columns that is not hidden, and its text."""

    first: int
    last: int
    end: int
    shown: int | None
    text: str


def visible_rows(book: Any, sheet: Any, marks: Marks, count: Callable[[int], None], left_out: LeftOut) -> Iterator[Row]:
    """Yields the rows from top to bottom, and an empty one for rows without values between them.

    A merged cell has its value in each of its rows, in the first of its columns; a row with nothing else is left out. `count` is told how many cells were read,
    `left_out` what hidden rows and columns hold.
    """
    from openpyxl.worksheet._reader import WorkSheetParser  # type: ignore[import-untyped]  # ships no types

    write = _Writer(book, marks)
    with sheet._get_source() as source:
        parser = WorkSheetParser(
            source,
            sheet._shared_strings,
            data_only=True,
            epoch=book.epoch,
            date_formats=write.date_styles,
            timedelta_formats=book._timedelta_formats,
            rich_text=True,
        )
        rows: list[tuple[int, Row]] = []
        for number, cells in parser.parse():
            texts = {cell["column"]: text for cell in cells if (text := write(cell))}
            count(len(texts))
            rows.append((number, texts))
    rows.sort(key=lambda row: row[0])
    hidden_rows = {int(number) for number, told in parser.row_dimensions.items() if _is_hidden(told, "ht")}
    hidden_columns = {column for told in parser.column_dimensions.values() if _is_hidden(told, "width") for column in _columns_of(told)}
    columns = sorted(hidden_columns)
    for number, texts in rows if hidden_rows or columns else ():
        left_out.add("hidden", " ".join(text for column, text in texts.items() if number in hidden_rows or column in hidden_columns))
    before = covered_to = 0
    for number, row, covers in _merged(rows, parser.merged_cells, hidden_columns, count):
        if number - 1 > max(before, covered_to):
            yield {}
        before, covered_to = number, max(covered_to, covers)
        if number not in hidden_rows and (row or number > covered_to):
            yield {column - bisect_left(columns, column): text for column, text in row.items() if column not in hidden_columns}


def _is_hidden(told: dict[str, str], size: str) -> bool:
    return told.get("hidden") in ("1", "true") or re.fullmatch(r"0+(?:\.0*)?", told.get(size) or "") is not None


def _columns_of(told: dict[str, str]) -> range:
    return range(int(told["min"]), min(int(told["max"]), _MAX_COLUMNS) + 1)


def _merged(rows: list[tuple[int, Row]], merges: Any, hidden: set[int], count: Callable[[int], None]) -> Iterator[tuple[int, Row, int]]:
    """Yields each row with its number, merged cells written out, and the last row that a merged cell with a value reaches.

    A row in which nothing but merged cells of rows above goes on is empty.
    """
    starts: dict[int, list[Any]] = defaultdict(list)
    for merge in merges.mergeCell if merges is not None else ():
        starts[merge.min_row].append(merge)
    going_on: list[_Merged] = []  # by column; none overlaps another
    for number, row in rows:
        if any(merged.end < number for merged in going_on):
            going_on = [merged for merged in going_on if merged.end >= number]
        own = {column: text for column, text in row.items() if (at := bisect_right(going_on, column, key=_first) - 1) < 0 or going_on[at].last < column}
        above, new = [merged for merged in going_on if 0 < len(merged.text) <= MAX_REPEATED], []
        for merge in starts.get(number, ()):
            at = bisect_right(going_on, merge.max_col, key=_first) - 1
            if at >= 0 and going_on[at].last >= merge.min_col:
                continue  # a file that is damaged: nothing says which of the two is shown
            shown = next((column for column in range(merge.min_col, merge.max_col + 1) if column not in hidden), None)
            merged = _Merged(merge.min_col, merge.max_col, merge.max_row, shown, own.get(merge.min_col, ""))
            insort(going_on, merged, key=_first)
            new.append(merged)
            own = {column: text for column, text in own.items() if not merged.first <= column <= merged.last}
        own |= {merged.shown: merged.text for merged in new if merged.shown is not None and merged.text}
        if any(column not in hidden for column in own):
            repeated = {merged.shown: merged.text for merged in above if merged.shown is not None}
            count(len(repeated))
            own |= repeated
        yield number, own, max((merged.end for merged in going_on if merged.text), default=0)


def _stretch(part: Any) -> tuple[str, Standing]:
    """A stretch of a cell's rich text, with how it stands."""
    if isinstance(part, str):
        return part, ""
    return part.text, _STANDING.get(part.font.vertAlign, "")


def _first(merged: _Merged) -> int:
    return merged.first


class _Writer:
    """Writes cells as their formats show them."""

    def __init__(self, book: Any, marks: Marks) -> None:
        from openpyxl.styles.numbers import BUILTIN_FORMATS, BUILTIN_FORMATS_MAX_SIZE  # type: ignore[import-untyped]  # ships no types

        self._marks = marks
        codes = {**BUILTIN_FORMATS, **dict(enumerate(book._number_formats, BUILTIN_FORMATS_MAX_SIZE)), **dict.fromkeys(EAST_ASIAN_DATES, _DATE)}
        self._codes = [codes.get(style.numFmtId, "General") for style in book._cell_styles]
        self.date_styles = set(book._date_formats) | {number for number, code in enumerate(self._codes) if code is _DATE}

    def __call__(self, cell: dict[str, Any]) -> str:
        value, style = cell["value"], cell["style_id"]
        if value is None or cell["data_type"] == "e":  # #N/A says that there is no value
            return ""
        code = self._codes[style] if style < len(self._codes) else "General"
        if isinstance(value, bool):
            return "TRUE" if value else "FALSE"
        if isinstance(value, dt.datetime | dt.date | dt.time | dt.timedelta):
            return date_text(value, code)
        if isinstance(value, int | float):
            return number_text(value, code, self._marks)
        text = value if isinstance(value, str) else "".join(raised_in([_stretch(part) for part in value]))
        return text_text(_ESCAPED_CONTROL.sub(" ", text) if "_x00" in text else text, code)
