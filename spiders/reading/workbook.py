"""Reads XLSX files cell by cell. Runs in the reading child only.

openpyxl reads one row after the other, as they were written. unstructured goes through a pandas frame of each whole sheet, which rounds numbers to six
places, and holds all cells that a sheet claims (docs/decisions/0046).
"""

import datetime as dt
import io
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from almanac.spiders.reading.archives import open_archive
from almanac.spiders.reading.document import Document, Element, Unreadable, plain


def read_xlsx(body: bytes, max_elements: int) -> Document:
    """The sheets that a reader sees: each begins with its name as a heading; runs of rows are tables, rows of a single cell are texts.

    Formulas are read as the values that were stored with them. Raises Unreadable, also as soon as there are more than `max_elements` cells.
    """
    archive = open_archive(body, "XLSX")
    if "xl/workbook.xml" not in archive.namelist():
        raise Unreadable("not an XLSX file: the archive holds no xl/workbook.xml")
    try:
        return Document("", list(_elements(body, max_elements)), "sheet")
    except (MemoryError, RecursionError, Unreadable):
        raise
    except Exception as error:  # damaged files raise anything: KeyError, ValueError, XMLSyntaxError, zlib.error, …
        raise Unreadable(f"damaged XLSX file: {type(error).__name__} {error}"[:300].strip()) from error


def _elements(body: bytes, max_elements: int) -> Iterator[Element]:
    import openpyxl  # type: ignore[import-untyped]  # ships no types

    book = openpyxl.load_workbook(io.BytesIO(body), read_only=True, data_only=True, keep_links=False)
    cells = 0

    def counted(rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
        nonlocal cells
        for row in rows:
            cells += len(row) - row.count(None)
            if cells > max_elements:
                raise Unreadable(f"more than {max_elements} cells: limits.elements_per_file")
            yield row

    for sheet in book.worksheets:
        if sheet.sheet_state != "visible":
            continue
        sheet.reset_dimensions()  # what a file claims of its size is not believed
        heading: Element | None = Element("title", sheet.title, 2, place=sheet.title)
        for element in _tables(counted(sheet.iter_rows(values_only=True)), sheet.title):
            if heading is not None:
                yield heading
                heading = None
            yield element


def _tables(rows: Iterable[tuple[Any, ...]], sheet: str) -> Iterator[Element]:
    """Yields a table for each run of rows between empty ones; a run with a single column is a text for each cell."""
    block: list[list[str]] = []
    for row in chain(rows, [()]):
        cells = [_written(value) for value in row]
        if any(cells):
            block.append(cells)
        elif block:
            yield from _block(block, sheet)
            block = []


def _block(rows: list[list[str]], sheet: str) -> Iterator[Element]:
    filled = [number for number in range(max(map(len, rows))) if any(number < len(row) and row[number] for row in rows)]
    cells = [[row[number] if number < len(row) else "" for number in range(filled[0], filled[-1] + 1)] for row in rows]
    if len(filled) == 1:
        yield from (Element("text", cell, place=sheet) for (cell,) in cells)
    else:
        yield Element("table", rows=cells, place=sheet)


def _written(value: Any) -> str:
    """A cell as text: dates by ISO 8601, numbers with all of their digits."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, dt.datetime):
        return value.date().isoformat() if value.time() == dt.time() else value.isoformat(" ")
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return plain(str(value))
