"""Extracts the text of PDF files: paragraphs in reading order without running headers and footers, and a title.

PDFium returns each page's lines in the order in which they were written, which for columns is column by column. Paragraph ends are derived
from the positions of the lines.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

from almanac.spiders.reading.paragraphs import PdfLine, join_lines

_MAX_PAGES = 5_000
_MAX_CHARACTERS = 20_000_000
_MAX_TITLE = 200
_PASSWORD, _SECURITY = 4, 5  # PDFium's error codes
_LINES_AT_THE_EDGE = 2
_BOLD = 600
# Default titles of programs, for documents that were never named.
_NO_TITLE = re.compile(
    r"(?i)untitled|document ?\d*$|presentation ?\d*$|microsoft (?:word|powerpoint|excel)|.*\.(?:docx?|pdf|pptx?|xlsx?|indd|tex|dvi|rtf|odt)$|\W*$"
)


@dataclass(frozen=True, slots=True)
class PdfText:
    """A PDF's text, with paragraphs separated by empty lines, and its title; empty if none is found."""

    text: str
    title: str


def read_pdf(body: bytes) -> PdfText:
    """Text and title of a PDF. Raises ValueError if it is encrypted, damaged, too long, or has no text layer."""
    import pypdfium2  # type: ignore[import-untyped]  # ships no types

    try:
        document = pypdfium2.PdfDocument(body)
    except pypdfium2.PdfiumError as error:
        if getattr(error, "err_code", None) in (_PASSWORD, _SECURITY):
            raise ValueError("the file needs a password") from error
        raise ValueError(f"damaged PDF file: {error}") from error
    try:
        return _read(document)
    finally:
        document.close()


def _read(document: Any) -> PdfText:
    if len(document) > _MAX_PAGES:
        raise ValueError(f"{len(document)} pages; no more than {_MAX_PAGES} are read")
    pages: list[list[PdfLine]] = []
    characters = 0
    for number in range(len(document)):
        pages.append(_page_lines(document, number))
        characters += sum(len(line.text) for line in pages[-1])
        if characters > _MAX_CHARACTERS:
            raise ValueError(f"more than {_MAX_CHARACTERS} characters by page {number + 1}")
    if not any(pages):
        raise ValueError(f"no text layer: its {len(document)} pages are pictures")
    running = _running_lines(pages)
    paragraphs = join_lines([[line for line in page if not _is_running(line, page, running)] for page in pages])
    named = document.get_metadata_dict().get("Title") or ""
    return PdfText("\n\n".join(paragraphs), _title(pages, paragraphs, " ".join(named.split())))


def _page_lines(document: Any, number: int) -> list[PdfLine]:
    import pypdfium2

    try:
        page = document[number]
        text_page = page.get_textpage()
        lines = list(_lines(text_page))
    except pypdfium2.PdfiumError as error:
        raise ValueError(f"damaged PDF file: page {number + 1}: {error}") from error
    text_page.close()
    page.close()
    return lines


def _lines(text_page: Any) -> Iterator[PdfLine]:
    import pypdfium2.raw as pdfium  # type: ignore[import-untyped]  # ships no types

    def character(text_index: int) -> int:
        return int(pdfium.FPDFText_GetCharIndexFromTextIndex(text_page, text_index))

    start = 0  # in UTF-16 units, as PDFium counts
    for text in text_page.get_text_range(errors="replace").split("\r\n"):
        shown = text.strip()
        if shown and not shown.isspace():
            begin = character(start + _units(text[: len(text) - len(text.lstrip())]))
            end = character(start + _units(text.rstrip()) - 1)
            if begin >= 0 and end >= 0:
                first, last = text_page.get_charbox(begin, loose=True), text_page.get_charbox(end, loose=True)
                weights = [pdfium.FPDFText_GetFontWeight(text_page, index) for index in (begin, end)]
                yield PdfLine(shown, first[0], last[2], first[1], last[1], max(first[3] - first[1], 1.0), min(weights) >= _BOLD)
            else:
                yield PdfLine(shown)
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


def _title(pages: list[list[PdfLine]], paragraphs: list[str], named: str) -> str:
    """The largest text of the first page, else the title property of several words, else a short first paragraph, else any title property.

    A property of one word is more often the template's ("Brochure", "Review") than the document's.
    """
    largest = _largest(pages)
    first = " ".join(paragraphs[0].split()) if paragraphs and len(paragraphs[0]) <= _MAX_TITLE else ""
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
