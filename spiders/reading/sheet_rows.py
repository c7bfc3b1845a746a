"""The rows of a sheet as a person sees them: without what is hidden, values by their formats, merged cells in each of
their rows.
"""

import datetime as dt
import re
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
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
_YEARS = range(1900, 2100)
_FIGURE = re.compile(r"[-+(]?\d[\d.,'\s]*[)%]?")
_AREA = re.compile(r"\$?[A-Z]{1,3}\$?(\d{1,7}):\$?[A-Z]{1,3}\$?\d{1,7}")
_ROWS_ABOVE = 64  # a screen; more that are frozen are no head

Row = dict[int, str]  # texts by column; what is empty has none


class SheetRow(NamedTuple):
    """A row that is seen.

    Attributes:
        number: as the sheet numbers it.
        texts: by column, of those that are seen.
        kinds: of the values, by column: `text`, `number`, `year`, `date` or `truth`.
        spread: the texts of merged cells, by the columns that they cover beside their first.
        hanging: columns of merged cells that begin in a row above.
    """

    number: int
    texts: Row
    kinds: dict[int, str]
    spread: Row
    hanging: frozenset[int]


class Declared(NamedTuple):
    """What a sheet says of its heads: of each table, the rows that name its columns; and the last row that is frozen, 0
    where none is.
    """

    tables: list[range]
    frozen: int


class _Merged(NamedTuple):
    """A merged cell: its columns, the last of its rows, the first of its columns that is not hidden, and its text."""

    first: int
    last: int
    end: int
    shown: int | None
    text: str


class _Written(NamedTuple):
    """A row with merged cells written out.

    `covers` is the last row that a merged cell with a value reaches; `spread` and `hanging` are as in SheetRow.
    """

    number: int
    texts: Row
    covers: int
    spread: Row
    hanging: list[int]


_NOTHING = SheetRow(0, {}, {}, {}, frozenset())


def visible_rows(
    book: Any, sheet: Any, marks: Marks, count: Callable[[int], None], left_out: LeftOut
) -> tuple[Iterator[SheetRow], Declared]:
    """The rows from top to bottom, with an empty one for rows without values between them, and what the sheet says of
    its heads.

    A merged cell has its value in each of its rows, in the first of its columns; a row with nothing else is left out.
    `count` is told how many cells were read, `left_out` what hidden rows and columns hold.
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
        kinds: dict[int, dict[int, str]] = {}
        for number, cells in parser.parse():
            texts = {cell["column"]: text for cell in cells if (text := write(cell))}
            kinds[number] = {
                cell["column"]: _kind(cell["value"], texts[cell["column"]]) for cell in cells if cell["column"] in texts
            }
            count(len(texts))
            rows.append((number, texts))
    rows.sort(key=lambda row: row[0])
    hidden_rows = {int(number) for number, told in parser.row_dimensions.items() if _is_hidden(told, "ht")}
    hidden_columns = {
        column
        for told in parser.column_dimensions.values()
        if _is_hidden(told, "width")
        for column in _columns_of(told)
    }
    for number, texts in rows if hidden_rows or hidden_columns else ():
        left_out.add(
            "hidden",
            " ".join(text for column, text in texts.items() if number in hidden_rows or column in hidden_columns),
        )
    return _seen(
        _merged(rows, parser.merged_cells, hidden_columns, count), kinds, hidden_rows, hidden_columns
    ), _declared(book, sheet, parser)


def _seen(
    rows: Iterable[_Written], kinds: dict[int, dict[int, str]], hidden_rows: set[int], hidden_columns: set[int]
) -> Iterator[SheetRow]:
    columns = sorted(hidden_columns)

    def moved(values: dict[int, str]) -> dict[int, str]:
        return {
            column - bisect_left(columns, column): value
            for column, value in values.items()
            if column not in hidden_columns
        }

    before = covered_to = 0
    for row in rows:
        if row.number - 1 > max(before, covered_to):
            yield _NOTHING
        before, covered_to = row.number, max(covered_to, row.covers)
        if row.number not in hidden_rows and (row.texts or row.number > covered_to):
            own = kinds.get(row.number, {})
            told = {column: own.get(column, "text") for column in row.texts}
            yield SheetRow(
                row.number,
                moved(row.texts),
                moved(told),
                moved(row.spread),
                frozenset(moved(dict.fromkeys(row.hanging, ""))),
            )


def _kind(value: Any, text: str) -> str:
    if isinstance(value, dt.datetime | dt.date | dt.time | dt.timedelta):
        return "date"
    if isinstance(value, bool):
        return "truth"
    if not (isinstance(value, int | float) or _FIGURE.fullmatch(text)):
        return "text"
    return "year" if text.isdecimal() and len(text) == 4 and int(text) in _YEARS else "number"


def _declared(book: Any, sheet: Any, parser: Any) -> Declared:
    """Tables, and filters, have their names in their first row; of those without such a row nothing is taken."""
    # ships no types
    from openpyxl.packaging.relationship import get_dependents, get_rels_path  # type: ignore[import-untyped]
    from openpyxl.xml.functions import fromstring  # type: ignore[import-untyped]

    found = []
    where, archive = get_rels_path(sheet._worksheet_path), book._archive
    names = set(archive.namelist())
    for related in get_dependents(archive, where) if parser.tables.tablePart and where in names else ():
        if related.Type.endswith("/table") and related.target in names:
            table = fromstring(archive.read(related.target))
            found.append(_rows_of(table.get("ref"), table.get("headerRowCount", "1")))
    if (filtered := getattr(parser, "auto_filter", None)) is not None:
        found.append(_rows_of(filtered.ref, "1"))
    views = getattr(parser, "views", None)
    pane = views.sheetView[0].pane if views is not None and views.sheetView else None
    frozen = int(pane.ySplit or 0) if pane is not None and pane.state in ("frozen", "frozenSplit") else 0
    return Declared([rows for rows in found if rows], frozen if frozen <= _ROWS_ABOVE else 0)


def _rows_of(where: str | None, heads: str) -> range:
    """The first rows of an area such as `A3:C10`; none of one that is damaged."""
    area = _AREA.fullmatch(where or "")
    return range(int(area[1]), int(area[1]) + int(heads)) if area is not None and heads in ("1", "2") else range(0)


def _is_hidden(told: dict[str, str], size: str) -> bool:
    return told.get("hidden") in ("1", "true") or re.fullmatch(r"0+(?:\.0*)?", told.get(size) or "") is not None


def _columns_of(told: dict[str, str]) -> range:
    return range(int(told["min"]), min(int(told["max"]), _MAX_COLUMNS) + 1)


def _merged(
    rows: list[tuple[int, Row]], merges: Any, hidden: set[int], count: Callable[[int], None]
) -> Iterator[_Written]:
    """Yields each row with merged cells written out.

    A row in which nothing but merged cells of rows above goes on is empty.
    """
    starts: dict[int, list[Any]] = defaultdict(list)
    for merge in merges.mergeCell if merges is not None else ():
        starts[merge.min_row].append(merge)
    going_on: list[_Merged] = []  # by column; none overlaps another
    for number, row in rows:
        if any(merged.end < number for merged in going_on):
            going_on = [merged for merged in going_on if merged.end >= number]
        own = {
            column: text
            for column, text in row.items()
            if (at := bisect_right(going_on, column, key=_first) - 1) < 0 or going_on[at].last < column
        }
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
        covers = max((merged.end for merged in going_on if merged.text), default=0)
        in_sight = [merged for merged in going_on if merged.shown in own and own[merged.shown] == merged.text]
        spread = {
            column: merged.text
            for merged in in_sight
            for column in range(merged.first, merged.last + 1)
            if column != merged.shown
        }
        yield _Written(number, own, covers, spread, [merged.first for merged in above])


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
        # ships no types
        from openpyxl.styles.numbers import BUILTIN_FORMATS, BUILTIN_FORMATS_MAX_SIZE  # type: ignore[import-untyped]

        self._marks = marks
        codes = {
            **BUILTIN_FORMATS,
            **dict(enumerate(book._number_formats, BUILTIN_FORMATS_MAX_SIZE)),
            **dict.fromkeys(EAST_ASIAN_DATES, _DATE),
        }
        self._codes = [codes.get(style.numFmtId, "General") for style in book._cell_styles]
        self.date_styles = set(book._date_formats) | {
            number for number, code in enumerate(self._codes) if code is _DATE
        }

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
