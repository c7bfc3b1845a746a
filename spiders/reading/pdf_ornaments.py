"""Glyphs of a PDF that are set for their looks: initials, which begin a word of the text beside them, bullets, and text
behind the text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median

from almanac.spiders.reading.paragraphs import PdfLine

Row = list[PdfLine]  # the pieces of a line, from left to right

_LARGE = 1.8  # times the usual height: initials and text behind the text
_NEAR = 1.5  # times the height of the text: how far from its initial it stands
_INDENT = 4.0  # times the height of the text: how far from its bullet it stands
_COVERED = 2  # lines that text behind the text crosses


def without_ornaments(rows: Sequence[Row], known: Mapping[str, int]) -> list[Row]:
    """The rows with initials joined to their words, and what lies behind the text at the end. `known` counts the words
    of the document, in lower case.
    """
    pieces = [piece for row in rows for piece in row]
    usual = median(piece.size for piece in pieces) if pieces else 0.0
    rows = _with_bullets(_with_initials(rows, usual, known))
    marked = [[_behind(piece, pieces, usual) for piece in row] for row in rows]
    return [row for row in marked if not row[0].lies_behind] + [row for row in marked if row[0].lies_behind]


def _with_initials(rows: Sequence[Row], usual: float, known: Mapping[str, int]) -> list[Row]:
    """Joins a large letter to the first word of the text that begins beside it."""
    joined = [list(row) for row in rows]
    for place, row in enumerate(rows):
        initial = row[0]
        if (
            len(row) > 1
            or initial.size < _LARGE * usual
            or not (0 < len(initial.text) <= 2 and initial.text[-1].isalpha())
        ):
            continue
        rows_beside = [
            number
            for number, other_row in enumerate(joined)
            if other_row and other_row[0].size * _LARGE < initial.size and _begins_beside(other_row[0], initial)
        ]
        if rows_beside:
            first = joined[number := max(rows_beside, key=lambda number: joined[number][0].top)][0]
            joined[number][0] = replace(first, text=_begun(initial.text, first.text, known))
            joined[place] = []
    return [row for row in joined if row]


def _with_bullets(rows: Sequence[Row]) -> list[Row]:
    """Puts bullets that were written by themselves before what stands right of them."""
    joined = [list(row) for row in rows]
    for place, row in enumerate(rows):
        bullet = row[0]
        if len(row) > 1 or not PdfLine(f"{bullet.text} ").has_bullet or len(bullet.text) > 1:
            continue
        for number, other_row in enumerate(joined):
            is_level = (
                other_row
                and other_row[0] is not bullet
                and abs(other_row[0].top + other_row[0].size / 2 - bullet.top - bullet.size / 2) < other_row[0].size / 2
            )
            if is_level and 0 <= other_row[0].left - bullet.right < _INDENT * other_row[0].size:
                joined[number][0] = replace(other_row[0], text=f"{bullet.text} {other_row[0].text}", left=bullet.left)
                joined[place] = []
                break
    return [row for row in joined if row]


def _begins_beside(line: PdfLine, initial: PdfLine) -> bool:
    is_level = initial.top - line.size / 2 < line.top and line.top + line.size < initial.top + initial.size + line.size
    return is_level and -line.size / 2 < line.left - initial.right < _NEAR * line.size


def _begun(initial: str, text: str, known: Mapping[str, int]) -> str:
    """The text with its initial: a word by itself where the document has the text's first word elsewhere, too, but not
    both as one.
    """
    word = text.split()[0].strip(".,;:!?").casefold()
    is_apart = known[word] > 1 and f"{initial.casefold()}{word}" not in known
    return f"{initial} {text}" if is_apart else f"{initial}{text}"


def _behind(piece: PdfLine, pieces: Sequence[PdfLine], usual: float) -> PdfLine:
    """The piece, told to lie behind the text if it is large and lines are written over it."""
    if piece.lies_behind or piece.size < _LARGE * usual:
        return piece
    covered = [other for other in pieces if other is not piece and other.size < piece.size and _crosses(other, piece)]
    return replace(piece, lies_behind=True) if len(covered) >= _COVERED else piece


def _crosses(line: PdfLine, large: PdfLine) -> bool:
    """Whether at least half of the height of a line is inside the letters of a large one; these leave a fifth of their
    height free above and below.
    """
    shared = min(line.top + line.size, large.top + 0.8 * large.size) - max(line.top, large.top + 0.2 * large.size)
    return shared > line.size / 2 and line.left < large.right and large.left < line.right
