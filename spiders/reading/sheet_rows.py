"""The rows of a sheet as a person sees them: without what is hidden, values by their formats, merged cells in each of
their rows.
"""

import datetime as dt
import re
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple
from zipfile import ZipFile

from lxml import etree

from almanac.schemas.left_out import LeftOut
from almanac.spiders.reading.document import Unreadable
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


class _Layout(NamedTuple):
    """What a sheet says of its rows and columns, beside their values."""

    numbers: list[int]  # of the rows, as the file has them
    hidden_rows: set[int]
    hidden_columns: set[int]
    merges: list[tuple[int, int, int, int]]  # first column, first row, last column, last row
    stretches: dict[str, list[tuple[str, Standing]]]  # of texts in cells, which openpyxl gives as plain texts, by cell
    declared: Declared


def visible_rows(
    book: Any, sheet: Any, archive: ZipFile, part: str, marks: Marks, count: Callable[[int], None], left_out: LeftOut
) -> tuple[Iterator[SheetRow], Declared]:
    """The rows from top to bottom, with an empty one for rows without values between them, and what the sheet says of
    its heads.

    A merged cell has its value in each of its rows, in the first of its columns; a row with nothing else is left out.
    `part` is the name of the sheet in `archive`. `count` is told how many cells were read, `left_out` what hidden rows
    and columns hold. Raises Unreadable where the file has its rows in another order.
    """
    layout = _layout_of(archive, part)
    if any(number >= following for number, following in pairwise(layout.numbers)):
        raise Unreadable(f"sheet {sheet.title}: its rows are not in order")
    rows: list[tuple[int, Row]] = []
    kinds: dict[int, dict[int, str]] = {}
    sheet.reset_dimensions()  # what a file claims of its size is not believed
    for number, cells in enumerate(sheet.iter_rows(), start=1):
        written = {cell.column: (cell, text) for cell in cells if (text := _text_of(cell, book, marks, layout))}
        if cells:
            kinds[number] = {column: _kind(_value_of(cell, book), text) for column, (cell, text) in written.items()}
            count(len(written))
            rows.append((number, {column: text for column, (_, text) in written.items()}))
    hidden_rows, hidden_columns = layout.hidden_rows, layout.hidden_columns
    for number, texts in rows if hidden_rows or hidden_columns else ():
        left_out.add(
            "hidden",
            " ".join(text for column, text in texts.items() if number in hidden_rows or column in hidden_columns),
        )
    merged = _merged(rows, layout.merges, hidden_columns, count)
    return _seen(merged, kinds, hidden_rows, hidden_columns), layout.declared


def _layout_of(archive: ZipFile, part: str) -> _Layout:
    """Reads a sheet's part without its values, which openpyxl reads row by row and without all else.

    Tables, and filters, have their names in their first row; of those without such a row nothing is taken.
    """
    from openpyxl.utils.cell import range_boundaries  # type: ignore[import-untyped]  # ships no types

    layout, frozen, areas = _Layout([], set(), set(), [], {}, Declared([], 0)), 0, list[range]()
    number = 0
    with archive.open(part) as file:
        for _, element in etree.iterparse(file, resolve_entities=False, huge_tree=True):
            attributes = dict(element.attrib)
            match etree.QName(element).localname:
                case "row":
                    number = int(float(attributes["r"])) if "r" in attributes else number + 1
                    layout.numbers.append(number)
                    if _is_hidden(attributes, "ht"):
                        layout.hidden_rows.add(number)
                case "col" if _is_hidden(attributes, "width"):
                    layout.hidden_columns.update(_columns_of(attributes))
                case "mergeCell":
                    layout.merges.append(range_boundaries(attributes["ref"]))
                case "autoFilter":
                    areas.append(_rows_of(attributes.get("ref"), "1"))
                case "pane" if attributes.get("state") in ("frozen", "frozenSplit"):
                    frozen = int(float(attributes.get("ySplit", 0)))
                case "c" if attributes.get("t") == "inlineStr" and "r" in attributes:
                    runs = element.findall("{*}is/{*}r")
                    layout.stretches.update({attributes["r"]: [*map(_stretch_in, runs)]} if runs else {})
                case "v" | "is" | "f" | "t" | "r" | "rPr" | "vertAlign":
                    continue  # which go with their cell
            element.clear(keep_tail=False)
            while element.getprevious() is not None:
                del element.getparent()[0]
    tables = [_rows_of(table.get("ref"), table.get("headerRowCount", "1")) for table in _tables_of(archive, part)]
    ranges = [rows for rows in [*tables, *areas] if rows]
    return layout._replace(declared=Declared(ranges, frozen if frozen <= _ROWS_ABOVE else 0))


def _tables_of(archive: ZipFile, part: str) -> Iterator[Any]:
    """The tables of a sheet that lie in parts of their own."""
    # ships no types
    from openpyxl.packaging.relationship import get_dependents, get_rels_path  # type: ignore[import-untyped]

    names = set(archive.namelist())
    for related in get_dependents(archive, where) if (where := get_rels_path(part)) in names else ():
        if related.Type.endswith("/table") and related.target in names:
            yield etree.fromstring(archive.read(related.target), etree.XMLParser(resolve_entities=False))


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
            row_kinds = {column: own.get(column, "text") for column in row.texts}
            yield SheetRow(
                row.number,
                moved(row.texts),
                moved(row_kinds),
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


def _rows_of(where: str | None, heads: str) -> range:
    """The first rows of an area such as `A3:C10`; none of one that is damaged."""
    area = _AREA.fullmatch(where or "")
    return range(int(area[1]), int(area[1]) + int(heads)) if area is not None and heads in ("1", "2") else range(0)


def _is_hidden(attributes: dict[str, str], size: str) -> bool:
    return (
        attributes.get("hidden") in ("1", "true")
        or re.fullmatch(r"0+(?:\.0*)?", attributes.get(size) or "") is not None
    )


def _columns_of(attributes: dict[str, str]) -> range:
    return range(int(attributes["min"]), min(int(attributes["max"]), _MAX_COLUMNS) + 1)


def _merged(
    rows: list[tuple[int, Row]],
    merges: list[tuple[int, int, int, int]],
    hidden: set[int],
    count: Callable[[int], None],
) -> Iterator[_Written]:
    """Yields each row with merged cells written out.

    A row in which nothing but merged cells of rows above goes on is empty.
    """
    starts: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for first, top, last, bottom in merges:
        starts[top].append((first, last, bottom))
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
        for first, last, bottom in starts.get(number, ()):
            at = bisect_right(going_on, last, key=_first) - 1
            if at >= 0 and going_on[at].last >= first:
                continue  # a file that is damaged: nothing says which of the two is shown
            shown = next((column for column in range(first, last + 1) if column not in hidden), None)
            merged = _Merged(first, last, bottom, shown, own.get(first, ""))
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


def _stretch_in(run: Any) -> tuple[str, Standing]:
    return run.findtext("{*}t", ""), _STANDING.get(run.xpath("string(.//@val[name(..) = 'vertAlign'])"), "")


def _first(merged: _Merged) -> int:
    return merged.first


def _value_of(cell: Any, book: Any) -> Any:
    """A cell's value; a number in a format that only East Asian files have is a date, which openpyxl does not know."""
    from openpyxl.utils.datetime import from_excel  # type: ignore[import-untyped]  # ships no types

    if type(cell.value) not in (int, float) or _code_of(cell) is not _DATE:
        return cell.value
    try:
        return from_excel(cell.value, book.epoch)
    except (ValueError, OverflowError):
        return None


def _code_of(cell: Any) -> str:
    try:
        return _DATE if cell.style_array.numFmtId in EAST_ASIAN_DATES else cell.number_format or "General"
    except IndexError:  # of a workbook without styles, or without this one
        return "General"


def _text_of(cell: Any, book: Any, marks: Marks, layout: _Layout) -> str:
    """A cell as its format shows it."""
    if cell.value is None or cell.data_type == "e":  # #N/A says that there is no value
        return ""
    value, code = _value_of(cell, book), _code_of(cell)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, dt.datetime | dt.date | dt.time | dt.timedelta):
        return date_text(value, code)
    if isinstance(value, int | float):
        return number_text(value, code, marks)
    stretches = layout.stretches.get(cell.coordinate) if layout.stretches else None
    if stretches is None:
        stretches = [(value, "")] if isinstance(value, str) else [_stretch(part) for part in value]
    text = stretches[0][0] if len(stretches) == 1 else "".join(raised_in(stretches))
    return text_text(_ESCAPED_CONTROL.sub(" ", text) if "_x00" in text else text, code)
