"""The characters of a PDF's page and where each stands, as a reader holds the page: pages set sideways are turned,
pages from right to left mirrored.
"""

import math
from collections import Counter
from ctypes import c_double, c_uint, c_ulong, c_ushort
from typing import Any

import pypdfium2.raw as pdfium  # type: ignore[import-untyped]  # ships no types

from almanac.spiders.reading.pdf_direction import Box, runs_right_to_left

_SAMPLED = 200  # letters that tell which way up a page is
_BOLD = 600
_QUARTER = math.pi / 2
_SLANT = 0.1  # radians from the direction of the page, from which on text lies across it
_FAINT = 0.6 * 255  # alpha: what is more transparent lies behind the text
_LONGEST_NAME = 32  # of a mark, with the zero at its end


class Glyphs:
    """The text of a page. Its characters are known by their index in `text`, whose lines end in CR and LF.

    A box is (left, bottom, right, top) in points, of the height of the character's font; `left` is where a line begins.
    The page is `height` points high.
    """

    def __init__(self, text_page: Any, width: float, height: float) -> None:
        self._text_page = text_page
        self.text: str = text_page.get_text_range(errors="replace")
        self._numbers = _numbers(text_page, self.text)
        self._boxes: dict[int, Box | None] = {}
        self._sizes: dict[tuple[float, float], float] = {}  # by where characters begin and end in height
        self._turns = self._quarter_turns()
        self._width, self.height = (height, width) if self._turns % 2 else (width, height)
        self._is_mirrored = runs_right_to_left(self.text)

    def place(self, left: float, bottom: float, right: float, top: float) -> Box:
        """A box of the file as it stands on the page that is read."""
        if not self._turns and not self._is_mirrored:
            return left, bottom, right, top
        corners = self._turned(left, bottom), self._turned(right, top)
        left, right = sorted(corner[0] for corner in corners)
        bottom, top = sorted(corner[1] for corner in corners)
        return (
            (self._width - right, bottom, self._width - left, top) if self._is_mirrored else (left, bottom, right, top)
        )

    def box(self, index: int) -> Box | None:
        """Where a character stands; None where it has no place."""
        if index not in self._boxes:
            self._boxes[index] = self._box(index)
        return self._boxes[index]

    def baseline(self, index: int) -> float:
        """The height that a character stands on."""
        x, y = c_double(), c_double()
        pdfium.FPDFText_GetCharOrigin(self._text_page, self._glyph(index), x, y)
        return self._turned(x.value, y.value)[1]

    def size(self, index: int) -> float:
        """The size of a character's font, in points to the half."""
        box = self.box(index)
        height = (box[1], box[3]) if box is not None else (0.0, 0.0)
        if height not in self._sizes:
            self._sizes[height] = self._size(index)
        return self._sizes[height]

    def is_bold(self, index: int) -> bool:
        """Whether a character's font is bold."""
        return bool(pdfium.FPDFText_GetFontWeight(self._text_page, self._glyph(index)) >= _BOLD)

    def lies_behind(self, index: int) -> bool:
        """Whether a character is set across the page, or so transparent that what is written over it stays legible: a
        watermark.
        """
        glyph = self._glyph(index)
        slant = (pdfium.FPDFText_GetCharAngle(self._text_page, glyph) + _SLANT) % _QUARTER
        red, green, blue, alpha = (c_uint() for _ in range(4))
        is_known = pdfium.FPDFText_GetFillColor(self._text_page, glyph, red, green, blue, alpha)
        return slant > 2 * _SLANT or bool(is_known and 0 < alpha.value < _FAINT)

    def is_artifact(self, index: int) -> bool:
        """Whether the file itself says that a character is no content: of a running header or footer, a page number, a
        watermark.
        """
        shown = pdfium.FPDFText_GetTextObject(self._text_page, self._glyph(index))
        marks = range(pdfium.FPDFPageObj_CountMarks(shown)) if shown else ()
        return any(_name(pdfium.FPDFPageObj_GetMark(shown, number)) == "Artifact" for number in marks)

    def _box(self, index: int) -> Box | None:
        box = pdfium.FS_RECTF()
        glyph = self._glyph(index)
        if glyph < 0 or not pdfium.FPDFText_GetLooseCharBox(self._text_page, glyph, box):
            return None
        return self.place(box.left, box.bottom, box.right, box.top)

    def _size(self, index: int) -> float:
        glyph, matrix = self._glyph(index), pdfium.FS_MATRIX()
        scale = math.hypot(matrix.c, matrix.d) if pdfium.FPDFText_GetMatrix(self._text_page, glyph, matrix) else 1.0
        return round(2 * float(pdfium.FPDFText_GetFontSize(self._text_page, glyph)) * scale) / 2

    def _glyph(self, index: int) -> int:
        """The number that PDFium has for a character; negative if it has none."""
        return self._numbers[index]

    def _turned(self, x: float, y: float) -> tuple[float, float]:
        match self._turns:
            case 1:
                return self._width - y, x
            case 2:
                return self._width - x, self.height - y
            case 3:
                return y, self.height - x
            case _:
                return x, y

    def _quarter_turns(self) -> int:
        """The quarter turns, clockwise, that most letters of the page are set by."""
        letters = [index for index, character in enumerate(self.text) if character.isalnum()]
        angles = (
            pdfium.FPDFText_GetCharAngle(self._text_page, self._glyph(index))
            for index in letters[:: max(1, len(letters) // _SAMPLED)]
        )
        turns = Counter(
            round(angle / _QUARTER) % 4 for angle in angles if abs(angle / _QUARTER - round(angle / _QUARTER)) < _SLANT
        )
        return max(sorted(turns), key=lambda turn: turns[turn], default=0)


def _numbers(text_page: Any, text: str) -> range | list[int]:
    """The number that PDFium has for each character of a text, which it counts in UTF-16 code units."""
    is_narrow = text.isascii() or max(text, default="") <= "\uffff"
    last = len(text) - 1
    if (
        is_narrow
        and pdfium.FPDFText_GetCharIndexFromTextIndex(text_page, 0) == 0
        and pdfium.FPDFText_GetCharIndexFromTextIndex(text_page, last) == last
    ):
        return range(len(text))
    numbers, unit = [], 0
    for character in text:
        numbers.append(int(pdfium.FPDFText_GetCharIndexFromTextIndex(text_page, unit)))
        unit += 1 + (character > "\uffff")
    return numbers


def _name(mark: Any) -> str:
    name, size = (c_ushort * _LONGEST_NAME)(), c_ulong()
    known = pdfium.FPDFPageObjMark_GetName(mark, name, 2 * _LONGEST_NAME, size)
    return (
        bytes(name)[: size.value].decode("utf-16-le").rstrip("\0") if known and size.value <= 2 * _LONGEST_NAME else ""
    )
