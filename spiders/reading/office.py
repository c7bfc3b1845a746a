"""Reads DOCX and PPTX through unstructured, and markup the same way, into elements. Runs in the reading child only."""

import io
from collections.abc import Iterable, Iterator
from typing import Any

import lxml.html

from almanac.schemas.items import Place
from almanac.spiders.reading.archives import as_plain_document, open_archive
from almanac.spiders.reading.document import Document, Element, Unreadable, plain, plain_code
from almanac.spiders.reading.offline import partitioner
from almanac.spiders.reading.whole_markup import whole_markup

_NO_LANGUAGE = [""]  # unstructured would guess it for each file; an item's language is found from its text
_LEFT_OUT = frozenset({"Header", "Footer", "PageBreak", "Image"})
_BOLD = "b"


def read_docx(body: bytes) -> Document:
    """Headings by their styles, paragraphs, list items and tables of a DOCX file; page numbers where Word noted where its pages ended."""
    archive = open_archive(body, "DOCX")
    if "word/document.xml" not in archive.namelist():
        raise Unreadable("not a DOCX file: the archive holds no word/document.xml")
    body = as_plain_document(body, archive, "DOCX")
    found = _partition("docx", "DOCX", file=io.BytesIO(body), infer_table_structure=True)
    elements = list(elements_of(found, is_paged=True))
    return Document(_title(elements), elements, "page" if any(element.place for element in elements) else "")


def read_pptx(body: bytes) -> Document:
    """Titles, texts, list items and tables of each slide, from top to bottom, then its notes. Charts and drawings have no text that is read."""
    archive = open_archive(body, "PPTX")
    if "ppt/presentation.xml" not in archive.namelist():
        raise Unreadable("not a PPTX file: the archive holds no ppt/presentation.xml")
    body = as_plain_document(body, archive, "PPTX")
    found = _partition("pptx", "PPTX", file=io.BytesIO(body), include_page_breaks=False)
    elements = list(elements_of(found, is_paged=True))
    if any(name.startswith("ppt/notesSlides/") for name in archive.namelist()):
        elements = sorted([*elements, *_notes(body)], key=lambda element: int(element.place or 0))
    return Document(_title(elements), elements, "slide")


def read_markup(markup: str, place: Place = None) -> list[Element]:
    """Headings, paragraphs, list items, code and tables of HTML."""
    found = _partition("html", "HTML", text=whole_markup(markup)) if markup.strip() else []
    return list(elements_of(found, place=place))


def elements_of(found: Iterable[Any], *, is_paged: bool = False, place: Place = None) -> Iterator[Element]:
    """Yields unstructured's elements as ours, without headers, footers and pictures."""
    for one in found:
        kind, told = one.category, one.metadata
        where = told.page_number if is_paged else place
        depth = told.category_depth or 0
        if kind in _LEFT_OUT:
            continue
        if kind == "Table" and told.text_as_html:
            rows = _rows(told.text_as_html)
            if rows:
                yield Element("table", rows=rows, place=where)
        elif kind == "CodeSnippet":
            if code := plain_code(one.text):
                yield Element("code", code, place=where)
        elif text := plain(one.text):
            if kind == "Title":
                yield Element("title", text, min(depth + 1, 6), place=where)
            elif kind == "ListItem":
                yield Element("item", text, depth, place=where)
            else:
                yield Element("text", text, place=where, is_bold=_is_bold(told, text))


def _partition(name: str, kind: str, **options: Any) -> list[Any]:
    try:
        found: list[Any] = partitioner(name)(languages=_NO_LANGUAGE, **options)
    except (MemoryError, RecursionError):
        raise
    except Exception as error:  # damaged files raise anything: KeyError, AttributeError, XMLSyntaxError, BadZipFile, …
        raise Unreadable(f"damaged {kind} file: {type(error).__name__} {error}"[:300].strip()) from error
    return found


def _is_bold(told: Any, text: str) -> bool:
    """Whether all of a paragraph is bold; unstructured lists the bold stretches."""
    stretches = zip(told.emphasized_text_contents or (), told.emphasized_text_tags or (), strict=False)
    return "".join("".join(part for part, tag in stretches if tag.startswith(_BOLD)).split()) == "".join(text.split())


def _rows(html: str) -> list[list[str]]:
    table = lxml.html.fragment_fromstring(html)
    rows = [[_cell(cell) for cell in row.xpath("./td|./th")] for row in table.xpath("./tr|./thead/tr|./tbody/tr")]
    return [row for row in rows if row] if any(map(any, rows)) else []


def _cell(cell: Any) -> str:
    """A cell's text; the cells of a table inside it stand side by side."""
    parts = [" ".join(inner.text_content().split()) for inner in cell.xpath(".//td|.//th")]
    return " · ".join(filter(None, parts)) if parts else plain(cell.text_content())


def _notes(body: bytes) -> Iterator[Element]:
    import pptx

    for number, slide in enumerate(pptx.Presentation(io.BytesIO(body)).slides, start=1):
        frame = slide.notes_slide.notes_text_frame if slide.has_notes_slide else None
        if frame is not None and (text := plain(frame.text)):
            yield Element("text", text, place=number)


def _title(elements: Iterable[Element]) -> str:
    return next((" ".join(element.text.split()) for element in elements if element.kind == "title" and element.level == 1), "")
