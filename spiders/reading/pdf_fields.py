"""What the fields of a PDF form hold, and text that somebody wrote on its pages, put beside their labels."""

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import pypdfium2.raw as pdfium  # type: ignore[import-untyped]  # ships no types

from almanac.spiders.reading.paragraphs import PdfLine
from almanac.spiders.reading.pdf_direction import Box
from almanac.spiders.reading.pdf_glyphs import Glyphs

_PASSWORD = 1 << 13  # a flag of text fields
_ENDS = ".!?;,…。？！؟"  # a label that ends so needs no colon
_UNCHECKED, _CHECKED = "\u2610", "\u2611"
_BELOW = 2.0  # times the height of the text: a value that stands no further below a line belongs to it
_TALL = 1.8  # times the height of the text: a field of several lines


@dataclass(frozen=True, slots=True)
class _Field:
    """A field with a value: what it says, where, and whether it is a box to be ticked, whose label may stand behind it.
    `name` is its label for readers.
    """

    value: str
    box: Box
    is_button: bool = False
    name: str = ""


def add_fields(rows: list[list[PdfLine]], document: Any, page: Any, glyphs: Glyphs, number: int) -> None:
    """Adds the values of a page's fields to its rows. Hidden fields and passwords are none; one that nobody filled in
    has no value.
    """
    pieces = [piece for row in rows for piece in row]
    usual = median(piece.size for piece in pieces) if pieces else 12.0
    for field in sorted(_fields(document, page, glyphs), key=lambda field: (-field.box[3], field.box[0])):
        if field.is_button and _ticked(rows, field):
            continue
        left, bottom, right, top = field.box
        height = top - bottom
        line = PdfLine(field.value, left, right, bottom, bottom, min(height, usual), page=number, is_value=True)
        bottom = top - usual if height > _TALL * usual else bottom + (height - line.size) / 2
        line = replace(line, top=bottom, bottom=bottom)
        _put(rows, line, field)


def _put(rows: list[list[PdfLine]], line: PdfLine, field: _Field) -> None:
    """Puts a value into the row that it stands in, else below the line above it."""
    row = next((row for row in rows if any(_is_level(piece, line) for piece in row)), None)
    if row is not None:
        place = sum(piece.left < line.left for piece in row)
        if not place:
            line = replace(line, text=_named(line.text, field.name))
        row.insert(place, line)
        return
    above = [place for place, row in enumerate(rows) if row[-1].bottom > line.top]
    place = min(above, key=lambda place: (rows[place][-1].bottom - line.top, -place)) if above else -1
    if above and not field.is_button and any(_is_above(piece, line) for piece in rows[place]):
        if len(rows[place]) > 1:  # the head of a table
            rows.insert(place + 1, [line])
        else:
            rows[place][0] = replace(rows[place][0], text=_named(line.text, rows[place][0].text), is_value=True)
    else:
        rows.insert(place + 1, [replace(line, text=_named(line.text, field.name))])


def _is_above(piece: PdfLine, line: PdfLine) -> bool:
    """Whether a piece stands right above a value, as its label."""
    is_near = piece.bottom - line.top < _BELOW * max(piece.size, line.size)
    return is_near and not piece.is_value and piece.left < line.right and line.left < piece.right


def _named(value: str, name: str) -> str:
    label = name.rstrip(": ")
    return f"{label}{'' if label[-1:] in _ENDS else ':'} {value}" if label else value


def _is_level(piece: PdfLine, line: PdfLine) -> bool:
    return abs((piece.bottom + piece.size / 2) - (line.bottom + line.size / 2)) < 0.6 * max(piece.size, line.size)


def _ticked(rows: list[list[PdfLine]], field: _Field) -> bool:
    """Writes the state of a box behind its label: the text right behind the box, else the one before it. False where
    there is none.
    """
    left, bottom, right, top = field.box
    middle = (bottom + top) / 2
    for row in rows:
        level = [
            place
            for place, piece in enumerate(row)
            if not piece.is_value and abs(piece.bottom + piece.size / 2 - middle) < piece.size
        ]
        behind = [place for place in level if row[place].left >= right - 1]
        before = [place for place in level if row[place].right <= left + 1]
        near = [*behind[:1], *before[-1:]]
        if near:
            place = min(near, key=lambda place: max(row[place].left - right, 2 * (left - row[place].right)))
            label = row[place].text
            value = _CHECKED if field.value.casefold() == label.strip(": ").casefold() else field.value
            row[place] = replace(row[place], text=_named(value, label))
            return True
    return False


def _fields(document: Any, page: Any, glyphs: Glyphs) -> Iterator[_Field]:
    for number in range(pdfium.FPDFPage_GetAnnotCount(page)):
        annotation = pdfium.FPDFPage_GetAnnot(page, number)
        if not annotation:
            continue
        try:
            hidden = pdfium.FPDFAnnot_GetFlags(annotation) & (
                pdfium.FPDF_ANNOT_FLAG_HIDDEN | pdfium.FPDF_ANNOT_FLAG_NOVIEW
            )
            rectangle = pdfium.FS_RECTF()
            if hidden or not pdfium.FPDFAnnot_GetRect(annotation, rectangle):
                continue
            left, right = sorted((rectangle.left, rectangle.right))  # any two corners will do
            bottom, top = sorted((rectangle.bottom, rectangle.top))
            box = glyphs.place(left, bottom, right, top)
            field = _field(document, annotation, box)
        finally:
            pdfium.FPDFPage_CloseAnnot(annotation)
        if field is not None and field.value:
            yield field


def _field(document: Any, annotation: Any, box: Box) -> _Field | None:
    """The field or note of an annotation; None where it is neither, or a button to press, a signature or a password."""
    kind = pdfium.FPDFAnnot_GetSubtype(annotation)
    if kind == pdfium.FPDF_ANNOT_FREETEXT:
        return _Field(_read(lambda to, size: pdfium.FPDFAnnot_GetStringValue(annotation, b"Contents", to, size)), box)
    if kind != pdfium.FPDF_ANNOT_WIDGET or not document.formenv:
        return None
    form = document.formenv
    name = _read(lambda to, size: pdfium.FPDFAnnot_GetFormFieldAlternateName(form, annotation, to, size))
    value = _read(lambda to, size: pdfium.FPDFAnnot_GetFormFieldValue(form, annotation, to, size))
    match field_kind := pdfium.FPDFAnnot_GetFormFieldType(form, annotation):
        case pdfium.FPDF_FORMFIELD_TEXTFIELD:
            is_password = pdfium.FPDFAnnot_GetFormFieldFlags(form, annotation) & _PASSWORD
            return None if is_password else _Field(value, box, name=name)
        case pdfium.FPDF_FORMFIELD_CHECKBOX | pdfium.FPDF_FORMFIELD_RADIOBUTTON:
            exported = _read(lambda to, size: pdfium.FPDFAnnot_GetFormFieldExportValue(form, annotation, to, size))
            return _Field(
                (exported or _CHECKED) if pdfium.FPDFAnnot_IsChecked(form, annotation) else _UNCHECKED,
                box,
                is_button=True,
                name=name,
            )
        case pdfium.FPDF_FORMFIELD_COMBOBOX | pdfium.FPDF_FORMFIELD_LISTBOX:
            options = range(max(0, pdfium.FPDFAnnot_GetOptionCount(form, annotation)))
            chosen = [
                _option(form, annotation, option)
                for option in options
                if pdfium.FPDFAnnot_IsOptionSelected(form, annotation, option)
            ]
            is_clear = field_kind == pdfium.FPDF_FORMFIELD_LISTBOX or len(chosen) == 1
            return _Field((not is_clear and value) or ", ".join(chosen) or value, box, name=name)
    return None


def _option(form: Any, annotation: Any, option: int) -> str:
    return _read(lambda to, size: pdfium.FPDFAnnot_GetOptionLabel(form, annotation, option, to, size))


def _read(ask: Callable[[Any, int], int]) -> str:
    """A text that PDFium writes into a buffer, with single spaces."""
    size = ask(None, 0)
    if size <= 2:  # the zero at its end
        return ""
    buffer = (ctypes.c_ushort * (size // 2))()
    ask(ctypes.cast(buffer, ctypes.POINTER(pdfium.FPDF_WCHAR)), size)
    return " ".join(bytes(buffer).decode("utf-16-le", "replace").rstrip("\0").split())
