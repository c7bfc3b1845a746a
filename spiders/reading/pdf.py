"""Reads PDF files into elements: headings, paragraphs and tables, page by page, without page numbers. Runs in the
reading child only.

PDFium returns each page's lines in the order in which they were written. Where two columns were written row by row, a
line holds a piece of each: lines are cut at their wide gaps (`pdf_rows`), and `pdf_layout` tells columns from tables.
Paragraph ends are derived from the positions of the lines.
"""

import re
from collections import Counter
from dataclasses import replace
from itertools import chain, pairwise
from statistics import median
from typing import Any

from almanac.schemas.left_out import LeftOut
from almanac.spiders.reading.document import Document, Element, Unreadable
from almanac.spiders.reading.paragraphs import Paragraph, PdfLine, join_lines
from almanac.spiders.reading.pdf_fields import add_fields
from almanac.spiders.reading.pdf_glyphs import Glyphs
from almanac.spiders.reading.pdf_layout import PdfTable, arrange
from almanac.spiders.reading.pdf_ornaments import without_ornaments
from almanac.spiders.reading.pdf_rows import read_rows
from almanac.spiders.reading.pdf_running import PdfPage, repeated_lines, rows_with_page_numbers

_MAX_PAGES = 5_000
_MAX_CHARACTERS = 20_000_000
_MAX_TITLE = 200
_PASSWORD, _SECURITY = 4, 5  # PDFium's error codes
_HEAD = 1024  # bytes that a PDF file's mark stands in
_LARGER = 1.15  # times the usual size, from which on a short paragraph is a heading
_LEVELS = 4
# Default titles of programs, for documents that were never named.
_NO_TITLE = re.compile(
    r"(?i)untitled|document ?\d*$|presentation ?\d*$|microsoft "
    r"(?:word|powerpoint|excel)|.*\.(?:docx?|pdf|pptx?|xlsx?|indd|tex|dvi|rtf|odt)$|\W*$"
)


def read_pdf(body: bytes) -> Document:
    """The document, in pages. Raises Unreadable if it is encrypted, damaged, too long, or has no text layer."""
    import pypdfium2  # type: ignore[import-untyped]  # ships no types

    try:
        document = pypdfium2.PdfDocument(body)
    except pypdfium2.PdfiumError as error:
        if getattr(error, "err_code", None) in (_PASSWORD, _SECURITY):
            raise Unreadable("the file needs a password") from error
        raise Unreadable(
            f"damaged PDF file: {error}"
            if b"%PDF-" in body[:_HEAD]
            else "not a PDF file, whatever its name says: it lacks %PDF-"
        ) from error
    try:
        return _read(document)
    finally:
        document.close()


def _read(document: Any) -> Document:
    if len(document) > _MAX_PAGES:
        raise Unreadable(f"{len(document)} pages; no more than {_MAX_PAGES} are read")
    _open_forms(document)
    read = _pages(document)
    if not any(page.rows for page in read):
        raise Unreadable(f"no text layer: its {len(document)} pages are pictures, and OCR is not part of reading")
    left_out = LeftOut()
    pages = _without_repeated(read, left_out)
    elements = _elements([arrange(rows) for rows in pages], _sizes(pages))
    named = document.get_metadata_dict().get("Title") or ""
    lines = [[line for row in rows for line in row if not (line.is_beside or line.has_bullet)] for rows in pages]
    asides = {line.text for rows in pages for row in rows for line in row if line.is_beside}
    first = next(
        (element.text for element in elements if element.text not in asides and any(map(str.isalpha, element.text))), ""
    )
    return Document(_title(lines, first, " ".join(named.split())), elements, "page", left_out=left_out)


def _open_forms(document: Any) -> None:
    import pypdfium2

    try:
        document.init_forms()
    except pypdfium2.PdfiumError as error:
        raise Unreadable(f"damaged PDF file: its form: {error}") from error


def _pages(document: Any) -> list[PdfPage]:
    pages: list[PdfPage] = []
    characters = 0
    for number in range(len(document)):
        pages.append(_page(document, number))
        characters += sum(len(line.text) for row in pages[-1].rows for line in row)
        if characters > _MAX_CHARACTERS:
            raise Unreadable(f"more than {_MAX_CHARACTERS} characters by page {number + 1}")
    known = Counter(
        word.strip(".,;:!?").casefold()
        for page in pages
        for row in page.rows
        for line in row
        for word in line.text.split()
    )
    return [replace(page, rows=without_ornaments(page.rows, known)) for page in pages]


def _page(document: Any, number: int) -> PdfPage:
    import pypdfium2

    try:
        page = document[number]
        text_page = page.get_textpage()
        glyphs = Glyphs(text_page, *_extent(page))
        rows = read_rows(glyphs, number + 1)
        add_fields(rows, document, page, glyphs, number + 1)
    except pypdfium2.PdfiumError as error:
        raise Unreadable(f"damaged PDF file: page {number + 1}: {error}") from error
    text_page.close()
    page.close()
    return PdfPage(rows, glyphs.height, document.get_page_label(number))


def _extent(page: Any) -> tuple[float, float]:
    """Width and height of a page as the file has it, before it is turned for its readers."""
    left, bottom, right, top = page.get_mediabox()
    return right - left, top - bottom


def _without_repeated(pages: list[PdfPage], left_out: LeftOut) -> list[list[list[PdfLine]]]:
    """The rows of the pages without lines that hold a page number, which are counted. Lines that repeat are told."""
    running, repeated = repeated_lines(pages)
    rows_gone = {id(row[0]): row for row in (*rows_with_page_numbers(pages), *repeated)}
    for row in rows_gone.values():
        left_out.add("repeated_lines", " ".join(line.text for line in row))
    gone = {id(line) for row in rows_gone.values() for line in row}
    marked = {id(line) for row in running for line in row}
    remaining = []
    for page in pages:
        rows = [
            [replace(line, is_running=True) if id(line) in marked else line for line in row if id(line) not in gone]
            for row in page.rows
        ]
        remaining.append([row for row in rows if row])
    return remaining


def _elements(pages: list[list[PdfLine | PdfTable]], sizes: list[float]) -> list[Element]:
    """Paragraphs, which may go on across pages, with the tables between them."""
    elements: list[Element] = []
    waiting: list[list[PdfLine]] = []

    def flush() -> None:
        elements.extend(_element(paragraph, sizes) for paragraph in join_lines(waiting))
        waiting.clear()

    for page in pages:
        waiting.append([])
        for block in page:
            if isinstance(block, PdfTable):
                flush()
                elements.append(Element("table", rows=block.rows, place=block.page))
                waiting.append([])
            else:
                waiting[-1].append(block)
    flush()
    return elements


def _element(paragraph: Paragraph, sizes: list[float]) -> Element:
    """A heading, if it is short and its letters are larger than usual, of the level of its size."""
    first = paragraph.lines[0]
    size = _rounded(first.size)
    is_large = size in sizes and not first.is_beside and not first.has_bullet
    if (
        is_large
        and len(paragraph.text) <= _MAX_TITLE
        and "\n" not in paragraph.text
        and any(map(str.isalpha, paragraph.text))
    ):
        return Element("title", paragraph.text, sizes.index(size) + 1, place=first.page)
    return Element("text", paragraph.text, place=first.page, is_bold=all(line.is_bold for line in paragraph.lines))


def _sizes(pages: list[list[list[PdfLine]]]) -> list[float]:
    """The sizes of headings, the largest first; four at most."""
    letters: Counter[float] = Counter()
    for line in chain.from_iterable(chain.from_iterable(pages)):
        if not line.is_beside:
            letters[_rounded(line.size)] += len(line.text)
    usual = max(letters, key=lambda size: letters[size], default=0.0)
    return sorted((size for size in letters if size >= _LARGER * usual), reverse=True)[:_LEVELS]


def _rounded(size: float) -> float:
    return round(2 * size) / 2


def _title(pages: list[list[PdfLine]], first: str, named: str) -> str:
    """The largest text of the first page, else the title property of several words, else a short first paragraph, else
    any title property.

    A property of one word is more often the template's ("Brochure", "Review") than the document's.
    """
    largest = _largest(pages)
    first = " ".join(first.split()) if len(first) <= _MAX_TITLE else ""
    named = "" if _NO_TITLE.match(named) else named
    candidates = [largest, named if " " in named else "", first, named]
    return next((title for title in candidates if title), "")


def _largest(pages: list[list[PdfLine]]) -> str:
    first = next((page for page in pages if page), None)
    if first is None:
        return ""
    usual = median(line.size for page in pages for line in page)
    size = max(line.size for line in first)
    if size < 1.25 * usual:
        return ""
    start = next(number for number, line in enumerate(first) if line.size == size)
    lines = [first[start]]
    for before, line in pairwise(first[start : start + 4]):
        if abs(line.size - before.size) > 0.5:
            break
        lines.append(line)
    title = " ".join(line.text for line in lines)
    return title if len(title) <= _MAX_TITLE and sum(map(str.isalpha, title)) > 1 else ""  # one letter is an initial
