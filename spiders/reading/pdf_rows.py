"""Cuts the text of a PDF's page into rows, and each row at its wide gaps into pieces. Raised and lowered glyphs become
characters that say so.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, pairwise

from almanac.spiders.reading.paragraphs import END_HYPHEN, PdfLine
from almanac.spiders.reading.pdf_direction import RIGHT_TO_LEFT, Box, with_ligatures
from almanac.spiders.reading.pdf_glyphs import Glyphs
from almanac.spiders.reading.raised import Standing, raised_in

_GAP = 0.9  # of the letters' height: a gap between words that may part two columns
_DROP = 0.7  # of the letters' height: text that stands so much lower is on another line
_LEVEL = 0.1  # of the letters' height: differences of what stands on one line
_KERN = 0.3  # of the letters' height: no gap at all
_ALIKE = 1.8  # times as large at most: glyphs of one line
# of a font's size: raised and lowered from there on, and no longer on the same line
_RISE, _SINK, _OFF = 0.15, 0.08, 0.9
_WORD = re.compile(r"\S+")
_AMONG = re.compile(r".+(?:[\d+\-−–]|TM|SM).")  # a digit, sign or mark inside a word


@dataclass(slots=True)
class _Word:
    """Characters without white space between them: from `begin` up to `end`. `is_glued` tells that nothing stands
    between the word and the one before it.
    """

    begin: int
    end: int
    is_glued: bool = False

    @property
    def middle(self) -> int:
        """A character that is as large as most: initials and exponents are not in the middle."""
        return self.begin + (self.end - self.begin - 1) // 2


def read_rows(glyphs: Glyphs, page: int) -> list[list[PdfLine]]:
    """The lines of a page, each as its pieces between wide gaps, in the order in which they were written."""
    text = _ligatures_mended(glyphs)
    rows: list[list[PdfLine]] = []
    for line in _lines(glyphs, text):
        row: list[PdfLine] = []
        for words, ends_row in _pieces(glyphs, line):
            row.append(_piece(glyphs, text, words, page))
            if ends_row:
                _add(rows, row)
                row = []
        if row:
            _add(rows, row)
    return rows


def _add(rows: list[list[PdfLine]], row: list[PdfLine]) -> None:
    """Adds a row. PDFium begins a new line before some single figures: what stands right of the row before it, at the
    same height, goes on with it.
    """
    before, after = rows[-1][-1] if rows else None, row[0]
    if (
        before is not None
        and abs(before.bottom - after.top) < _LEVEL * before.size
        and after.left - before.right >= _GAP * before.size
    ):
        rows[-1] += row
    else:
        rows.append(row)


def _ligatures_mended(glyphs: Glyphs) -> str:
    """The text of the page, each character in its place."""
    lines, start = [], 0
    for line in glyphs.text.split("\r\n"):
        if RIGHT_TO_LEFT.search(line):
            line = with_ligatures(line, partial(_box_behind, glyphs, start))  # as long as before
        lines.append(line)
        start += len(line) + 2
    return "\r\n".join(lines)


def _box_behind(glyphs: Glyphs, start: int, index: int) -> Box | None:
    return glyphs.box(start + index)


def _lines(glyphs: Glyphs, text: str) -> Iterator[list[_Word]]:
    """The words of each line. PDFium begins a new line behind some raised glyphs; what goes on right there is the same
    line.
    """
    line: list[_Word] = []
    start = 0
    for written in text.split("\r\n"):
        words = _in_order(
            glyphs, [_Word(start + match.start(), start + match.end()) for match in _WORD.finditer(written)]
        )
        if words and line and _goes_on(glyphs, line[-1].end - 1, words[0].begin):
            words[0].is_glued = text[line[-1].end : words[0].begin] == "\r\n"
            line += words
        elif words:
            if line:
                yield line
            line = words
        start += len(written) + 2
    if line:
        yield line


def _in_order(glyphs: Glyphs, words: list[_Word]) -> list[_Word]:
    """The words of a line as they are read: PDFium puts a raised figure that ends a line from right to left in front of
    it.
    """
    if len(words) < 2 or glyphs.size(words[0].begin) >= glyphs.size(words[1].begin):
        return words
    figure, last = glyphs.box(words[0].begin), glyphs.box(words[-1].end - 1)
    if figure is None or last is None or not -_KERN < (figure[0] - last[2]) / max(last[3] - last[1], 1.0) < _KERN:
        return words
    return [*words[1:], replace(words[0], is_glued=True)]


def _goes_on(glyphs: Glyphs, last: int, first: int) -> bool:
    """Whether a character stands right behind another one, on the same line."""
    before, after = glyphs.box(last), glyphs.box(first)
    if before is None or after is None:
        return False
    low, high = sorted((before[3] - before[1], after[3] - after[1]))
    shared = min(before[3], after[3]) - max(before[1], after[1])
    return high < _ALIKE * low and shared > low / 2 and -_KERN * high < after[0] - before[2] < _KERN * high


def _pieces(glyphs: Glyphs, line: Sequence[_Word]) -> Iterator[tuple[list[_Word], bool]]:
    """The words between wide gaps, and whether a row ends behind them: PDFium keeps short lines, such as bullets, in
    one.
    """
    if initial := _initial(glyphs, line):
        begin, end = line[0].begin, line[0].end
        yield [_Word(begin, begin + initial)], True
        line = [*([_Word(begin + initial, end)] if begin + initial < end else []), *line[1:]]
    piece = [line[0]]
    for before, word in pairwise(line):
        last, following = glyphs.box(before.end - 1), glyphs.box(word.begin)
        if last is not None and following is not None:
            size = max(last[3] - last[1], 1.0)
            is_new_row = following[0] < last[0] and last[1] - following[1] > _DROP * size
            if is_new_row or following[0] - last[2] >= _GAP * size:
                yield piece, is_new_row
                piece = []
        piece.append(word)
    yield piece, False


def _initial(glyphs: Glyphs, line: Sequence[_Word]) -> int:
    """How many characters a line begins with are an initial: a large letter, with a quotation mark before it."""
    indices = [index for word in line[:2] for index in range(word.begin, word.end)][:3]
    for length in (1, 2):
        letters = indices[:length]
        if len(indices) > length and letters[-1] < line[0].end and glyphs.text[letters[-1]].isalpha():
            after = glyphs.size(indices[length])
            return length if after and all(glyphs.size(index) >= _ALIKE * after for index in letters) else 0
    return 0


def _piece(glyphs: Glyphs, text: str, words: Sequence[_Word], page: int) -> PdfLine:
    size = _usual_size(glyphs, words)
    stretches = [stretch for number in range(len(words)) for stretch in _stretches(glyphs, text, words, number, size)]
    shown = "".join(
        raised_in(stretches) if any(standing for _, standing in stretches) else (part for part, _ in stretches)
    )
    begin, end = words[0].begin, words[-1].end - 1
    first, last = glyphs.box(begin), glyphs.box(end)
    flags = {
        "is_bold": glyphs.is_bold(begin) and glyphs.is_bold(end),
        "lies_behind": glyphs.lies_behind(words[0].middle),
    }
    if first is None or last is None:
        return PdfLine(shown, page=page, **flags)
    # written against the direction of the page
    if first[0] > last[2] and abs(first[1] - last[1]) < _DROP * (first[3] - first[1]):
        first, last, words = last, first, words[::-1]
    usual = [word for word in words if glyphs.size(_example(glyphs, word)) == size]
    begins = glyphs.box(_at_edge(glyphs, usual[0], size, is_end=False)) or first
    ends = glyphs.box(_at_edge(glyphs, usual[-1], size, is_end=True)) or last
    height = max(begins[3] - begins[1], 1.0)
    return PdfLine(
        shown, first[0], last[2], begins[1], ends[1], height, page=page, is_artifact=glyphs.is_artifact(begin), **flags
    )


def _usual_size(glyphs: Glyphs, words: Sequence[_Word]) -> float:
    """The size of most characters of a piece: not that of a bullet, an initial or a raised figure."""
    sizes: Counter[float] = Counter()
    for word in words:
        sizes[glyphs.size(_example(glyphs, word))] += word.end - word.begin
    return max(sizes, key=lambda size: sizes[size])


def _example(glyphs: Glyphs, word: _Word) -> int:
    """A character that is as large as most of the word."""
    first, last = glyphs.box(word.begin), glyphs.box(word.end - 1)
    is_even = first is not None and last is not None and first[1::2] == last[1::2]
    return word.begin if is_even else word.middle


def _at_edge(glyphs: Glyphs, word: _Word, size: float, *, is_end: bool) -> int:
    """The first or last character of a word, unless that one is larger or smaller than usual: a word may begin on one
    line and end on the next.
    """
    edge = word.end - 1 if is_end else word.begin
    return edge if glyphs.size(edge) == size else word.middle


def _stretches(
    glyphs: Glyphs, text: str, words: Sequence[_Word], number: int, size: float
) -> Iterator[tuple[str, Standing]]:
    """The parts of a word that stand alike, with the space before it."""
    word = words[number]
    written = text[word.begin : word.end]
    if number and not word.is_glued:
        yield " ", ""
    looked_at = (
        range(word.begin, word.end) if _AMONG.search(written) else (word.begin, _example(glyphs, word), word.end - 1)
    )
    if END_HYPHEN in written or all(glyphs.size(index) == size for index in looked_at):
        yield written, ""
        return
    runs = [list(run) for _, run in groupby(range(word.begin, word.end), key=glyphs.size)]
    near = (*words[:number][-1:], *words[number + 1 :][:1])
    neighbour = next(
        (index for index in (*(run[0] for run in runs), *(word.middle for word in near)) if glyphs.size(index) == size),
        None,
    )
    for run in runs:
        yield text[run[0] : run[-1] + 1], "" if neighbour is None else _standing(glyphs, run[0], neighbour)


def _standing(glyphs: Glyphs, index: int, neighbour: int) -> Standing:
    """Whether a character is raised or lowered against a larger one beside it."""
    usual = glyphs.size(neighbour)
    rise = glyphs.baseline(index) - glyphs.baseline(neighbour)
    if glyphs.size(index) >= usual or abs(rise) > _OFF * usual:
        return ""
    return "sup" if rise > _RISE * usual else "sub" if rise < -_SINK * usual else ""
