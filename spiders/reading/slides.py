"""Reads PPTX files slide by slide, as a person sees them in the show, and then their notes. Runs in the reading child
only.

unstructured reads hidden slides and shapes, too, passes over what stands a hair's breadth beyond the edge, and puts
what a group holds in the wrong order.
"""

import io
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from almanac.schemas.left_out import LeftOut
from almanac.spiders.reading.archives import as_plain_document, damaged, open_office
from almanac.spiders.reading.document import Document, Element, Unreadable, plain, title_of
from almanac.spiders.reading.docx_asides import choose_alternatives
from almanac.spiders.reading.docx_merges import MAX_REPEATED
from almanac.spiders.reading.mathml import M, formula_text
from almanac.spiders.reading.raised import Standing, raised_in

_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_MATH = "{http://schemas.microsoft.com/office/drawing/2010/main}m"
_READ = (f"{_A}t", f"{_A}tbl", _MATH)
_OF_EACH_SLIDE = frozenset({"dt", "ftr", "hdr", "sldNum"})  # date, footer, header and number
_OFF = ("0", "false")
_ON = ("1", "true")
_ROWS = 50  # on a slide: shapes that begin within one of them stand side by side
_MAX_LEVEL = 6


class _Placed(NamedTuple):
    """A shape, where it begins on its slide, and where it ends."""

    top: float
    left: float
    bottom: float
    right: float
    shape: Any


def read_pptx(body: bytes) -> Document:
    """Titles, texts, list items and tables of each slide, from top to bottom, then its notes. Charts and drawings have
    no text that is read.

    Slides and shapes that are hidden, and shapes beside their slide, are left out; so are its date, number and footer.
    """
    body, archive = open_office(body, "PPTX", "ppt/presentation.xml", left_out := LeftOut())
    try:
        elements = list(_elements(as_plain_document(body, archive, "PPTX"), left_out))
    except (MemoryError, RecursionError, Unreadable):
        raise
    except Exception as error:  # damaged files raise anything: KeyError, AttributeError, XMLSyntaxError, BadZipFile, …
        raise damaged("PPTX", error) from error
    return Document(title_of(elements), elements, "slide", left_out=left_out)


def _elements(body: bytes, left_out: LeftOut) -> Iterator[Element]:
    import pptx

    deck = pptx.Presentation(io.BytesIO(body))
    width, height = deck.slide_width or 0, deck.slide_height or 0
    for number, slide in enumerate(deck.slides, start=1):
        frame = slide.notes_slide.notes_text_frame if slide.has_notes_slide else None
        if frame is not None:
            _write_raised(frame._txBody)
        notes = "" if frame is None else plain(frame.text)
        if slide._element.get("show") in _OFF:
            left_out.add("hidden", f"{_text_in(slide._element)} {notes}")
            continue
        choose_alternatives(slide._element, _READ)
        _write_formulas(slide._element)
        _write_raised(slide._element)
        title = slide.shapes.title
        every = list(_placed(slide.shapes, left_out))
        placed = [box for box in every if box.left < width and box.top < height and box.right >= 0 and box.bottom >= 0]
        for box in every:
            left_out.add("hidden", "" if box in placed else _text_in(box.shape._element))
        for shape in _in_order(placed, height / _ROWS):
            yield from _of_shape(shape, number, is_title=title is not None and shape._element is title._element)
        if notes:
            yield Element("text", notes, place=number)


def _text_in(element: Any) -> str:
    return " ".join(text.text or "" for text in element.iter(f"{_A}t"))


def _placed(shapes: Iterable[Any], left_out: LeftOut) -> Iterator[_Placed]:
    """Yields the shapes that are shown, those of groups too, each with its place on the slide: a group has coordinates
    of its own.
    """
    waiting = [(shape, 1.0, 1.0, 0.0, 0.0) for shape in reversed(list(shapes))]
    while waiting:
        shape, wide, high, left, top = waiting.pop()
        if shape._element._nvXxPr.cNvPr.get("hidden") in _ON:
            left_out.add("hidden", _text_in(shape._element))
            continue
        if shape._element.tag == f"{_P}grpSp":
            inner = _scale_of(shape._element)
            wide, left, high, top = wide * inner[0], left + wide * inner[2], high * inner[1], top + high * inner[3]
            waiting += [(held, wide, high, left, top) for held in reversed(list(shape.shapes))]
        elif not (shape.is_placeholder and shape._element.ph.get("type") in _OF_EACH_SLIDE):
            x, y = left + wide * (shape.left or 0), top + high * (shape.top or 0)
            yield _Placed(y, x, y + high * (shape.height or 0), x + wide * (shape.width or 0), shape)
        else:
            left_out.add("page_furniture", _text_in(shape._element))


def _scale_of(group: Any) -> tuple[float, float, float, float]:
    """How coordinates inside a group become those around it: factors, and what is added, to the right and downwards."""
    frame = group.find(f"{_P}grpSpPr/{_A}xfrm")
    pairs = [
        _pair(frame, name, first, second)
        for name, first, second in (("off", "x", "y"), ("ext", "cx", "cy"), ("chOff", "x", "y"), ("chExt", "cx", "cy"))
    ]
    (x, y), (width, height), (inner_x, inner_y), (inner_width, inner_height) = pairs
    wide, high = width / inner_width if inner_width else 1.0, height / inner_height if inner_height else 1.0
    return wide, high, x - wide * inner_x, y - high * inner_y


def _pair(frame: Any, name: str, first: str, second: str) -> tuple[int, int]:
    child = None if frame is None else frame.find(f"{_A}{name}")
    return (0, 0) if child is None else (int(child.get(first, 0)), int(child.get(second, 0)))


def _in_order(placed: list[_Placed], row: float) -> Iterator[Any]:
    """Yields the shapes from top to bottom, and from left to right where they begin at about the same height."""
    waiting = sorted(placed, key=lambda box: (box.top, box.left))
    begin = 0
    for at, box in enumerate(waiting):
        if box.top - waiting[begin].top > row:
            yield from (box.shape for box in sorted(waiting[begin:at], key=lambda other: other.left))
            begin = at
    yield from (box.shape for box in sorted(waiting[begin:], key=lambda other: other.left))


def _of_shape(shape: Any, place: int, *, is_title: bool) -> Iterator[Element]:
    if shape.has_table:
        if rows := _rows(shape.table):
            yield Element("table", rows=rows, place=place)
        return
    titles = 0
    for paragraph in shape.text_frame.paragraphs if shape.has_text_frame else ():
        text = plain(paragraph.text)
        if not text:
            continue
        if paragraph._p.find(f"{_A}pPr/{_A}buChar") is not None:
            yield Element("item", text, paragraph.level or 0, place=place)
        elif is_title:
            titles += 1
            yield Element("title", text, min(titles, _MAX_LEVEL), place=place)
        else:
            yield Element("text", text, place=place)


def _rows(table: Any) -> list[list[str]]:
    """The rows of a table: a cell merged downwards stands in each of its rows, one merged to the right in the first of
    its columns.
    """
    rows: list[list[str]] = []
    going_on: dict[int, str] = {}
    for row in table.rows:
        cells, is_own = [], False
        for column, cell in enumerate(row.cells):
            if cell._tc.hMerge:
                cells.append("")
            elif cell._tc.vMerge:
                cells.append(going_on.get(column, ""))
            else:
                cells.append(" ".join(cell.text.split()))
                is_own = True
                going_on[column] = cells[-1] if cell._tc.rowSpan > 1 and len(cells[-1]) <= MAX_REPEATED else ""
        rows += [cells] if is_own else []  # a row without cells of its own says the same as the one above
    return rows if any(map(any, rows)) else []


def _write_formulas(slide: Any) -> None:
    """Puts a run with its text in the place of each formula."""
    for math in list(slide.iter(_MATH)):
        run = math.makeelement(f"{_A}r")
        text = math.makeelement(f"{_A}t")
        text.text = " ".join(filter(None, (formula_text(formula) for formula in math.iter(f"{M}oMath"))))
        run.append(text)
        math.getparent().replace(math, run)


def _write_raised(root: Any) -> None:
    """Writes what runs raise or lower as characters, in place."""
    for paragraph in root.iter(f"{_A}p"):
        runs = list(paragraph.iterchildren(f"{_A}r", f"{_A}fld", f"{_A}br"))
        standing = [_stands(run) for run in runs]
        if not any(standing):
            continue
        texts = [run.find(f"{_A}t") for run in runs]
        before = [
            " " if run.tag == f"{_A}br" else "" if text is None else text.text or ""
            for run, text in zip(runs, texts, strict=True)
        ]
        for text, written in zip(texts, raised_in(list(zip(before, standing, strict=True))), strict=True):
            if text is not None:
                text.text = written


def _stands(run: Any) -> Standing:
    properties = run.find(f"{_A}rPr")
    raised = "" if properties is None else properties.get("baseline", "").removesuffix("%")
    return "" if not raised.strip("-0.") else "sub" if raised.startswith("-") else "sup"
