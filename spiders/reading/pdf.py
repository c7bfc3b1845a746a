"""Reads PDF files into elements: headings, paragraphs and tables, page by page, without running headers and footers. Runs in the reading child only.

PDFium returns each page's lines in the order in which they were written. Where two columns were written row by row, a line holds a piece of each: lines
are cut at their wide gaps, and `pdf_layout` tells columns from tables. Paragraph ends are derived from the positions of the lines. Pages that are written
from right to left are mirrored, so that everywhere `left` is where a line begins.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import chain, pairwise
from statistics import median
from typing import Any

from almanac.spiders.reading.document import Document, Element, Unreadable
from almanac.spiders.reading.paragraphs import Paragraph, PdfLine, join_lines
from almanac.spiders.reading.pdf_direction import RIGHT_TO_LEFT, Box, runs_right_to_left, with_ligatures
from almanac.spiders.reading.pdf_layout import PdfTable, arrange

_MAX_PAGES = 5_000
_MAX_CHARACTERS = 20_000_000
_MAX_TITLE = 200
_PASSWORD, _SECURITY = 4, 5  # PDFium's error codes
_LINES_AT_THE_EDGE = 2
_BOLD = 600
_HEAD = 1024  # bytes that a PDF file's mark stands in
_GAP = 0.9  # of the letters' height: a gap between words that may part two columns
_DROP = 0.7  # of the letters' height: text that stands so much lower is on another line
_LARGER = 1.15  # times the usual size, from which on a short paragraph is a heading
_LEVELS = 4
_WORD_GAP = re.compile(r"\s+")
# Default titles of programs, for documents that were never named.
_NO_TITLE = re.compile(
    r"(?i)untitled|document ?\d*$|presentation ?\d*$|microsoft (?:word|powerpoint|excel)|.*\.(?:docx?|pdf|pptx?|xlsx?|indd|tex|dvi|rtf|odt)$|\W*$"
)


def read_pdf(body: bytes) -> Document:
    """The document, in pages. Raises Unreadable if it is encrypted, damaged, too long, or has no text layer."""
    import pypdfium2  # type: ignore[import-untyped]  # ships no types

    try:
        document = pypdfium2.PdfDocument(body)
    except pypdfium2.PdfiumError as error:
        if getattr(error, "err_code", None) in (_PASSWORD, _SECURITY):
            raise Unreadable("the file needs a password") from error
        raise Unreadable(f"damaged PDF file: {error}" if b"%PDF-" in body[:_HEAD] else "not a PDF file, whatever its name says: it lacks %PDF-") from error
    try:
        return _read(document)
    finally:
        document.close()


def _read(document: Any) -> Document:
    if len(document) > _MAX_PAGES:
        raise Unreadable(f"{len(document)} pages; no more than {_MAX_PAGES} are read")
    pages: list[list[list[PdfLine]]] = []
    characters = 0
    for number in range(len(document)):
        pages.append(_page_rows(document, number))
        characters += sum(len(line.text) for row in pages[-1] for line in row)
        if characters > _MAX_CHARACTERS:
            raise Unreadable(f"more than {_MAX_CHARACTERS} characters by page {number + 1}")
    lines = [list(chain.from_iterable(page)) for page in pages]
    if not any(lines):
        raise Unreadable(f"no text layer: its {len(document)} pages are pictures, and OCR is not part of reading")
    running = _running_lines(lines)
    kept = [[[line for line in row if not _is_running(line, page, running)] for row in rows] for rows, page in zip(pages, lines, strict=True)]
    elements = _elements([arrange([row for row in rows if row]) for rows in kept], _sizes(kept))
    named = document.get_metadata_dict().get("Title") or ""
    first = next((element.text for element in elements if element.text), "")
    return Document(_title(lines, first, " ".join(named.split())), elements, "page")


def _elements(pages: list[list[PdfLine | PdfTable]], sizes: list[float]) -> list[Element]:
    """Paragraphs, which may go on across pages, with the tables between them."""
    elements: list[Element] = []
    waiting: list[list[PdfLine]] = []

    def flush() -> None:
        elements.extend(_element(paragraph, sizes) for paragraph in join_lines(waiting))
        waiting.clear()

    for page in pages:
        waiting.append([])
        for one in page:
            if isinstance(one, PdfTable):
                flush()
                elements.append(Element("table", rows=one.rows, place=one.page))
                waiting.append([])
            else:
                waiting[-1].append(one)
    flush()
    return elements


def _element(paragraph: Paragraph, sizes: list[float]) -> Element:
    """A heading, if it is short and its letters are larger than usual, of the level of its size."""
    first = paragraph.lines[0]
    size = _rounded(first.size)
    if size in sizes and len(paragraph.text) <= _MAX_TITLE and "\n" not in paragraph.text and any(map(str.isalpha, paragraph.text)):
        return Element("title", paragraph.text, sizes.index(size) + 1, place=first.page)
    return Element("text", paragraph.text, place=first.page, is_bold=all(line.is_bold for line in paragraph.lines))


def _sizes(pages: list[list[list[PdfLine]]]) -> list[float]:
    """The sizes of headings, the largest first; four at most."""
    letters: Counter[float] = Counter()
    for line in chain.from_iterable(chain.from_iterable(pages)):
        letters[_rounded(line.size)] += len(line.text)
    usual = max(letters, key=lambda size: letters[size], default=0.0)
    return sorted((size for size in letters if size >= _LARGER * usual), reverse=True)[:_LEVELS]


def _rounded(size: float) -> float:
    return round(2 * size) / 2


def _page_rows(document: Any, number: int) -> list[list[PdfLine]]:
    """The lines of a page, each as its pieces between wide gaps."""
    import pypdfium2

    try:
        page = document[number]
        text_page = page.get_textpage()
        rows = [[replace(line, page=number + 1) for line in row] for row in _rows(text_page, page.get_width())]
    except pypdfium2.PdfiumError as error:
        raise Unreadable(f"damaged PDF file: page {number + 1}: {error}") from error
    text_page.close()
    page.close()
    return rows


def _rows(text_page: Any, width: float) -> Iterator[list[PdfLine]]:
    import pypdfium2.raw as pdfium  # type: ignore[import-untyped]  # ships no types

    whole = text_page.get_text_range(errors="replace")
    is_mirrored = runs_right_to_left(whole)

    def box(unit: int) -> Box | None:
        index = int(pdfium.FPDFText_GetCharIndexFromTextIndex(text_page, unit))
        if index < 0:
            return None
        left, bottom, right, top = text_page.get_charbox(index, loose=True)
        return (width - right, bottom, width - left, top) if is_mirrored else (left, bottom, right, top)

    def box_in(text: str, start: int, index: int) -> Box | None:
        return box(start + _units(text[:index]))

    def is_bold(unit: int) -> bool:
        return bool(pdfium.FPDFText_GetFontWeight(text_page, pdfium.FPDFText_GetCharIndexFromTextIndex(text_page, unit)) >= _BOLD)

    start = 0  # in UTF-16 units, as PDFium counts
    for text in whole.split("\r\n"):
        row: list[PdfLine] = []
        if RIGHT_TO_LEFT.search(text):
            text = with_ligatures(text, partial(box_in, text, start))  # as long as before
        begin = len(text) - len(text.lstrip())
        end = len(text.rstrip())
        gaps = [gap.span() for gap in _WORD_GAP.finditer(text, begin, end)] if begin < end else []
        for left, right in [*gaps, (end, end)] if begin < end else []:
            last = box(start + _units(text[:left]) - 1)
            is_new_row = False
            if right < end:
                following = box(start + _units(text[:right]))
                if last is None or following is None:
                    continue
                size = max(last[3] - last[1], 1.0)
                is_new_row = following[0] < last[0] and last[1] - following[1] > _DROP * size  # PDFium keeps short lines, such as bullets, in one
                if not is_new_row and following[0] - last[2] < _GAP * size:
                    continue
            first, shown = box(start + _units(text[:begin])), text[begin:left]
            if first is None or last is None:
                row.append(PdfLine(shown))
            else:
                if first[0] > last[2] and abs(first[1] - last[1]) < _DROP * (first[3] - first[1]):  # written against the direction of the page
                    first, last = last, first
                bold = is_bold(start + _units(text[:begin])) and is_bold(start + _units(text[:left]) - 1)
                row.append(PdfLine(shown, first[0], last[2], first[1], last[1], max(first[3] - first[1], 1.0), bold))
            begin = right
            if is_new_row:
                yield row
                row = []
        if row:
            yield row
        start += _units(text) + 2


def _units(text: str) -> int:
    """Length in UTF-16 code units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _edges(page: list[PdfLine]) -> list[PdfLine]:
    by_height = sorted(page, key=lambda line: -line.top)
    return [*by_height[:_LINES_AT_THE_EDGE], *by_height[_LINES_AT_THE_EDGE:][-_LINES_AT_THE_EDGE:]]


def _without_numbers(line: PdfLine) -> str:
    return re.sub(r"\d+|\b[ivxl]+\b", "#", " ".join(line.text.casefold().split()))


def _running_lines(pages: list[list[PdfLine]]) -> set[str]:
    """Headers and footers: texts at the top or bottom of more than half of the pages, with numbers ignored; needs at least three pages."""
    if len(pages) < 3:
        return set()
    counts = Counter(text for page in pages for text in {_without_numbers(line) for line in _edges(page)})
    return {text for text, count in counts.items() if count > len(pages) / 2}


def _is_running(line: PdfLine, page: list[PdfLine], running: set[str]) -> bool:
    return bool(running) and _without_numbers(line) in running and any(line is edge for edge in _edges(page))


def _title(pages: list[list[PdfLine]], first: str, named: str) -> str:
    """The largest text of the first page, else the title property of several words, else a short first paragraph, else any title property.

    A property of one word is more often the template's ("Brochure", "Review") than the document's.
    """
    largest = _largest(pages)
    first = " ".join(first.split()) if len(first) <= _MAX_TITLE else ""
    named = "" if _NO_TITLE.match(named) else named
    candidates = [largest, named if " " in named else "", first, named]
    return next((title for title in candidates if title), "")


def _largest(pages: list[list[PdfLine]]) -> str:
    first = next((page for page in pages if page), [])
    usual = median(line.size for page in pages for line in page)
    size = max((line.size for line in first), default=0)
    if size < 1.25 * usual:
        return ""
    start = next(number for number, line in enumerate(first) if line.size == size)
    lines = [first[start]]
    for before, line in pairwise(first[start : start + 4]):
        if abs(line.size - before.size) > 0.5:
            break
        lines.append(line)
    title = " ".join(line.text for line in lines)
    return title if len(title) <= _MAX_TITLE and any(c.isalpha() for c in title) else ""
