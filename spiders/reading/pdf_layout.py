"""Tells columns of prose from tables, where a PDF's lines were cut at wide gaps, and puts both in reading order."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median

from almanac.spiders.reading.paragraphs import PdfLine, join_text

_FAR = 4.0  # times the letters' height: a gap inside a line that is never one between words
_NEAR = 3.0  # times the letters' height: rows further apart do not belong together
_PROSE = 24  # characters of a usual line of a column; cells of tables are shorter
_FILLED = 0.6  # share of its column's width that a usual line of prose takes
_MAX_COLUMNS = 4  # of prose
_MARKER = re.compile(r"[•‣◦▪■●○·∙*\u2013\u2014\-\uf0b7\uf0a7]|\(?(?:\d{1,3}|[a-zA-Z]|[ivx]{1,5})[.)]")


@dataclass(frozen=True, slots=True)
class PdfTable:
    """A table: its cells, row by row, and the page that it is on."""

    rows: list[list[str]]
    page: int


Row = list[PdfLine]  # the pieces of a line, from left to right


def arrange(rows: Sequence[Row]) -> list[PdfLine | PdfTable]:
    """The lines and tables of a page in reading order. `rows` are in the order in which they were written.

    Rows whose gaps are one above the other are columns or a table. Every other row is a line as it stands.
    """
    arranged: list[PdfLine | PdfTable] = []
    for run in _runs([_marked(row) for row in rows]):
        columns = _columns(run) if len(run) > 1 else []
        if len(columns) < 2:
            arranged += [line for row in run for line in _whole(row)]
        elif _is_prose(run, columns):
            arranged += [line for column in _by_column(run, columns) for line in column]
        else:
            arranged.append(PdfTable(_cells(run, columns), run[0][0].page))
    return arranged


def _marked(row: Row) -> Row:
    """A row that begins with a bullet or a list number, with that joined to what it marks: a list is no table."""
    return [_joined(row[0], row[1]), *row[2:]] if len(row) > 1 and _MARKER.fullmatch(row[0].text) else row


def _joined(line: PdfLine, piece: PdfLine) -> PdfLine:
    # a bullet or a number may be larger than what it marks
    size = line.size if len(line.text) > len(piece.text) else piece.size
    return replace(
        line,
        text=f"{line.text} {piece.text}",
        right=piece.right,
        bottom=piece.bottom,
        size=size,
        is_bold=line.is_bold and piece.is_bold,
    )


def _runs(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Yields rows that may be one table or several columns: neighbours of which the first has gaps, down to the last
    that has.
    """
    run: list[Row] = []
    for row in rows:
        if run and not _goes_on(run, row):
            yield from _trimmed(run)
            run = []
        run.append(row)
    yield from _trimmed(run)


def _goes_on(run: list[Row], row: Row) -> bool:
    """Whether a row may belong to the run: it is close below, and its pieces cross none of the run's gaps."""
    before = run[-1]
    step = before[0].bottom - row[0].top
    if not -0.5 * row[0].size < step < _NEAR * max(row[0].size, before[0].size):
        return False
    if len(before) == 1 and len(row) == 1:
        return any(len(earlier) > 1 for earlier in run) and _fits(run, row)
    return all(len(earlier) == 1 for earlier in run) or _fits(run, row) or (len(row) > 1 and len(before) == 1)


def _fits(run: list[Row], row: Row) -> bool:
    gaps = _common_gaps([earlier for earlier in run if len(earlier) > 1])
    return bool(gaps) and all(
        not (piece.left < left + 1 and piece.right > right - 1) for piece in row for left, right in gaps
    )


def _trimmed(run: list[Row]) -> Iterator[list[Row]]:
    """Yields what stands above the first and below the last row with gaps by itself."""
    gapped = [number for number, row in enumerate(run) if len(row) > 1]
    if not gapped:
        yield from ([row] for row in run)
        return
    yield from ([row] for row in run[: gapped[0]])
    yield run[gapped[0] : gapped[-1] + 1]
    yield from ([row] for row in run[gapped[-1] + 1 :])


def _common_gaps(rows: Sequence[Row]) -> list[tuple[float, float]]:
    """The gaps, from left to right, that all rows leave open: (left, right) of each."""
    pieces = sorted((piece.left, piece.right) for row in rows for piece in row)
    gaps: list[tuple[float, float]] = []
    reached = pieces[0][1] if pieces else 0.0
    for left, right in pieces:
        if left > reached + 2:
            gaps.append((reached, left))
        reached = max(reached, right)
    return gaps


def _columns(run: list[Row]) -> list[tuple[float, float]]:
    """(left, right) of each column, from left to right."""
    gaps = _common_gaps(run)
    pieces = [piece for row in run for piece in row]
    edges = [
        min(piece.left for piece in pieces),
        *(edge for gap in gaps for edge in gap),
        max(piece.right for piece in pieces),
    ]
    return list(zip(edges[::2], edges[1::2], strict=True))


def _is_prose(run: list[Row], columns: list[tuple[float, float]]) -> bool:
    """Whether most lines of every column are long and fill it."""
    if len(columns) > _MAX_COLUMNS or len(run) < 3:
        return False
    for (left, right), lines in zip(columns, _by_column(run, columns), strict=True):
        if len(lines) < 3 or median(len(line.text) for line in lines) < _PROSE:
            return False
        if median(line.right - line.left for line in lines) < _FILLED * (right - left):
            return False
    return True


def _by_column(run: list[Row], columns: list[tuple[float, float]]) -> list[list[PdfLine]]:
    return [
        [line for row in run for line in row if left - 1 <= line.left and line.right <= right + 1]
        for left, right in columns
    ]


def _cells(run: list[Row], columns: list[tuple[float, float]]) -> list[list[str]]:
    """The table's cells. A line without a first cell, close below another, goes on with the cells above it."""
    rows: list[list[str]] = []
    above: Row | None = None
    for row in run:
        cells = [
            join_text([line.text for line in row if left - 1 <= line.left and line.right <= right + 1])
            for left, right in columns
        ]
        is_close = above is not None and above[0].bottom - row[0].top < 0.8 * row[0].size
        if rows and not cells[0] and is_close:
            rows[-1] = [f"{before} {cell}".strip() for before, cell in zip(rows[-1], cells, strict=True)]
        else:
            rows.append(cells)
        above = row
    return rows


def _whole(row: Row) -> Iterator[PdfLine]:
    """Yields a row without a neighbour that shares its gaps as one line, cut only where pieces are far apart."""
    line = row[0]
    for before, piece in pairwise(row):
        if piece.left - before.right > _FAR * piece.size and not piece.is_value:
            yield line
            line = piece
        else:
            line = _joined(line, piece)
    yield line
