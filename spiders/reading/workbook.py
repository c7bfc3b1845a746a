"""Reads XLSX files cell by cell. Runs in the reading child only.

openpyxl reads one row after the other, as they were written. unstructured goes through a pandas frame of each whole
sheet, which rounds numbers to six places, and holds all cells that a sheet claims (docs/decisions/0006).
"""

import io
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any
from zipfile import ZipFile

from lxml import etree

from almanac.schemas.left_out import LeftOut
from almanac.spiders.reading.archives import damaged, open_office
from almanac.spiders.reading.document import Document, Element, Unreadable, plain
from almanac.spiders.reading.language import AUTO, LIKELY, detect_language
from almanac.spiders.reading.number_formats import marks_of
from almanac.spiders.reading.sheet_heads import head_of
from almanac.spiders.reading.sheet_rows import Declared, SheetRow, visible_rows

_WORKBOOK = "xl/workbook.xml"
_SAMPLED_ROWS = 200  # and as many texts


def read_xlsx(body: bytes, max_elements: int, language: str = "") -> Document:
    """The sheets that a reader sees: each begins with its name as a heading; runs of rows are tables, with texts above
    their heads (`sheet_heads`).

    Hidden sheets, rows and columns are left out. Values are as their number formats show them, with the marks of
    `language` (`auto`: of its texts), formulas by the values that were stored with them. Raises Unreadable, also as
    soon as there are more than `max_elements` cells.
    """
    body, _ = open_office(body, "XLSX", _WORKBOOK, left_out := LeftOut())
    try:
        with ZipFile(io.BytesIO(body)) as archive:
            elements = list(_elements(body, archive, max_elements, language, left_out))
        return Document("", elements, "sheet", left_out=left_out)
    except (MemoryError, RecursionError, Unreadable):
        raise
    except Exception as error:  # damaged files raise anything: KeyError, ValueError, XMLSyntaxError, zlib.error, …
        raise damaged("XLSX", error) from error


def _elements(body: bytes, archive: ZipFile, max_elements: int, language: str, left_out: LeftOut) -> Iterator[Element]:
    import openpyxl  # type: ignore[import-untyped]  # ships no types

    book = openpyxl.load_workbook(io.BytesIO(body), read_only=True, data_only=True, keep_links=False, rich_text=True)
    marks = marks_of(_language_of(book))._replace(is_guess=True) if language == AUTO else marks_of(language)
    cells, parts = 0, _parts(archive)

    def count(more: int) -> None:
        nonlocal cells
        cells += more
        if cells > max_elements:
            raise Unreadable(f"more than {max_elements} cells: limits.elements_per_file")

    for sheet in book.worksheets:
        if sheet.sheet_state != "visible":
            left_out.add("hidden", " ".join(islice(_values(sheet), max_elements)))
            continue
        heading: Element | None = Element("title", sheet.title, 2, place=sheet.title)
        rows, declared = visible_rows(book, sheet, archive, parts[sheet.title], marks, count, left_out)
        for element in _tables(rows, declared, sheet.title, max_elements):
            if heading is not None:
                yield heading
                heading = None
            yield element


def _parts(archive: ZipFile) -> dict[str, str]:
    """Title of each sheet → its part."""
    # ships no types
    from openpyxl.packaging.relationship import get_dependents, get_rels_path  # type: ignore[import-untyped]

    root = etree.fromstring(archive.read(_WORKBOOK), etree.XMLParser(resolve_entities=False))
    parts = {related.Id: related.target for related in get_dependents(archive, get_rels_path(_WORKBOOK))}
    return {
        sheet.get("name"): parts[key]
        for sheet in root.iterfind("{*}sheets/{*}sheet")
        if (key := sheet.xpath("string(@*[local-name() = 'id'])")) in parts
    }


def _values(sheet: Any) -> Iterator[str]:
    sheet.reset_dimensions()
    return (str(value) for row in sheet.iter_rows(values_only=True) for value in row if value is not None)


def _language_of(book: Any) -> str:
    """The language that the texts at its beginning are in, as `language_of` finds it for items; empty where it is not
    likely any.
    """
    visible = [sheet for sheet in book.worksheets if sheet.sheet_state == "visible"]
    for sheet in visible:
        sheet.reset_dimensions()  # what a file claims of its size is not believed
    rows = chain.from_iterable(sheet.iter_rows(max_row=_SAMPLED_ROWS, values_only=True) for sheet in visible)
    texts = (value for row in islice(rows, _SAMPLED_ROWS) for value in row if isinstance(value, str))
    language, confidence = detect_language(" ".join(islice(texts, _SAMPLED_ROWS)))
    return language if confidence >= LIKELY else ""


def _tables(rows: Iterable[SheetRow], declared: Declared, sheet: str, max_elements: int) -> Iterator[Element]:
    """Yields a table for each run of rows between empty ones; a run with a single column is a text for each cell."""
    block: list[SheetRow] = []
    for row in chain(rows, [None]):
        cells = (
            {column: text for column, written in row.texts.items() if (text := plain(written))}
            if row is not None
            else {}
        )
        if row is not None and cells:
            block.append(row._replace(texts=cells))
        elif block:
            yield from _block(block, declared, sheet, max_elements)
            block = []


def _block(rows: list[SheetRow], declared: Declared, sheet: str, max_elements: int) -> Iterator[Element]:
    filled: set[int] = set().union(*(row.texts for row in rows))
    columns = range(min(filled), max(filled) + 1)
    if len(filled) == 1:
        yield from (Element("text", text, place=sheet) for row in rows for text in row.texts.values())
    elif len(rows) * len(columns) > max_elements:
        raise Unreadable(
            f"a table of {len(rows)} rows and {len(columns)} columns, more than {max_elements} cells: "
            "limits.elements_per_file"
        )
    else:
        head = head_of(rows, columns, declared)
        yield from (Element("text", text, place=sheet) for text in head.above)
        yield Element(
            "table",
            rows=[head.names, *([row.texts.get(column, "") for column in columns] for row in rows[head.height :])],
            place=sheet,
        )
