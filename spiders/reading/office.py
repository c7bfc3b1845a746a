"""Reads DOCX through unstructured, and markup the same way, into elements. Runs in the reading child only."""

import io
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Any

import lxml.html

from almanac.schemas.items import Place
from almanac.schemas.left_out import LeftOut
from almanac.spiders.reading.archives import as_plain_document, damaged, open_office
from almanac.spiders.reading.document import Document, Element, plain, plain_code, title_of
from almanac.spiders.reading.docx_markup import flattened
from almanac.spiders.reading.docx_merges import MAX_REPEATED
from almanac.spiders.reading.offline import partitioner
from almanac.spiders.reading.whole_markup import whole_markup

_NO_LANGUAGE = [""]  # unstructured would guess it for each file; an item's language is found from its text
_LEFT_OUT = frozenset({"Header", "Footer", "PageBreak", "Image"})
_BOLD = "b"


def read_docx(body: bytes) -> Document:
    """Headings by their styles, paragraphs, list items and tables of a DOCX file; page numbers where Word noted where
    its pages ended.
    """
    body, archive = open_office(body, "DOCX", "word/document.xml", left_out := LeftOut())
    body = flattened(as_plain_document(body, archive, "DOCX"), archive, left_out)
    raw_elements = _partition("docx", "DOCX", file=io.BytesIO(body), infer_table_structure=True)
    for raw in raw_elements:
        if raw.category in _LEFT_OUT:
            left_out.add("page_furniture", raw.text)
    elements = list(elements_of(raw_elements, is_paged=True))
    return Document(
        title_of(elements), elements, "page" if any(element.place for element in elements) else "", left_out=left_out
    )


def read_markup(markup: str, left_out: LeftOut) -> list[Element]:
    """Headings, paragraphs, list items, code and tables of HTML; `left_out` tallies what they are without."""
    raw_elements = _partition("html", "HTML", text=whole_markup(markup, left_out)) if markup.strip() else []
    return list(elements_of(raw_elements))


def elements_of(raw_elements: Iterable[Any], *, is_paged: bool = False, place: Place = None) -> Iterator[Element]:
    """Yields unstructured's elements as ours, without headers, footers and pictures."""
    for raw in raw_elements:
        kind, metadata = raw.category, raw.metadata
        where = metadata.page_number if is_paged else place
        depth = metadata.category_depth or 0
        if kind in _LEFT_OUT:
            continue
        if kind == "Table" and metadata.text_as_html:
            rows = _rows(metadata.text_as_html, has_spans=is_paged)
            if rows:
                yield Element("table", rows=rows, place=where)
        elif kind == "CodeSnippet":
            if code := plain_code(raw.text):
                yield Element("code", code, place=where)
        elif text := plain(raw.text):
            if kind == "Title":
                yield Element("title", text, min(depth + 1, 6), place=where)
            elif kind == "ListItem":
                yield Element("item", text, depth, place=where)
            else:
                yield Element("text", text, place=where, is_bold=_is_bold(metadata, text))


def _partition(name: str, kind: str, **options: Any) -> list[Any]:
    try:
        raw_elements: list[Any] = partitioner(name)(languages=_NO_LANGUAGE, **options)
    except (MemoryError, RecursionError):
        raise
    except Exception as error:  # damaged files raise anything: KeyError, AttributeError, XMLSyntaxError, BadZipFile, …
        raise damaged(kind, error) from error
    return raw_elements


def _is_bold(metadata: Any, text: str) -> bool:
    """Whether all of a paragraph is bold; unstructured lists the bold stretches."""
    stretches = zip(metadata.emphasized_text_contents or (), metadata.emphasized_text_tags or (), strict=False)
    return "".join("".join(part for part, tag in stretches if tag.startswith(_BOLD)).split()) == "".join(text.split())


def _rows(html: str, *, has_spans: bool) -> list[list[str]]:
    """The rows of a table. Those of markup come with their merged cells written out (`whole_markup`), those of office
    files with spans.
    """
    table = lxml.html.fragment_fromstring(html)
    cell_rows = [row.xpath("./td|./th") for row in table.xpath("./tr|./thead/tr|./tbody/tr")]
    is_merged = has_spans and any(cell.attrib for row in cell_rows for cell in row)
    rows = _in_columns(cell_rows) if is_merged else [[_cell(cell) for cell in row] for row in cell_rows]
    return [row for row in rows if row] if any(map(any, rows)) else []


def _in_columns(rows: list[list[Any]]) -> list[list[str]]:
    """Rows in which each value stands in its column: one merged downwards in each of its rows, one merged to the right
    in the first of its columns.

    A column of the grid in which no cell begins is none: Word cuts its grids finer than its tables.
    """
    placed: list[tuple[dict[int, str], int]] = []  # of each row, its texts by column, and the column where it ends
    # by column: how many it takes, how many rows are to come, and its text
    open_cells: dict[int, tuple[int, int, str]] = {}
    for row in rows:
        column, here, going_on = 0, {}, {}
        for cell in row:
            while column in open_cells:
                column += open_cells[column][0]
            text, columns, height = _cell(cell), int(cell.get("colspan", 1)), int(cell.get("rowspan", 1))
            here[column] = text
            if height > 1:
                going_on[column] = (columns, height - 1, text if len(text) <= MAX_REPEATED else "")
            column += columns
        if here:  # a row without cells of its own says the same as the one above
            here |= {start: text for start, (_, _, text) in open_cells.items()}
        going_on |= {
            start: (columns, height - 1, text) for start, (columns, height, text) in open_cells.items() if height > 1
        }
        ends = [column, *(start + columns for start, (columns, _, _) in open_cells.items())]
        placed.append((here, max(ends) if here else 0))
        open_cells = going_on
    starts = sorted({start for here, _ in placed for start in here})
    return [[here.get(start, "") for start in starts[: bisect_left(starts, end)]] for here, end in placed]


def _cell(cell: Any) -> str:
    """A cell's text; the cells of a table inside it stand side by side."""
    parts = [" ".join(inner.text_content().split()) for inner in cell.xpath(".//td|.//th")]
    return " · ".join(filter(None, parts)) if parts else plain(cell.text_content())
