"""Chunking by windows of a fixed number of words (or characters, or tokens), each starting one overlap before the end of the last."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from almanac.schemas.declaration.chunk import ChunkLimits
from almanac.transforms.chunking.layout import Layout, Span

_NEAR = 80  # characters before the limit of a window within which it ends with a sentence or line if it can


def split_into_windows(layout: Layout, span: Span, limits: ChunkLimits) -> Iterator[Span]:
    """Windows of up to `size` units that begin with a word, and end with a sentence or line if one ends near the limit."""
    start, reached = span.start, span.start
    while True:
        limit = min(layout.ruler.end_of(start, limits.size), span.end)
        cut = span.end if limit >= span.end else _cut(layout, start, max(start, reached), limit)
        if cut <= reached:  # the overlap leaves no room for another letter
            start = reached
            cut = min(_cut(layout, start, start, max(layout.ruler.end_of(start, limits.size), start + 1)), span.end)
        window = layout.trim(Span(start, cut))
        yield window
        if cut >= span.end:
            return
        reached = layout.trim(Span(cut, span.end)).start
        start = _next_start(layout, window, reached, limits.overlap)


def _cut(layout: Layout, start: int, reached: int, limit: int) -> int:
    """The end of a window, after `reached` and up to `limit`: with a sentence, line or row of a table, else with a word, else between letters."""
    near = max(limit - _NEAR, (start + limit) // 2, reached)
    best = max(_last(layout.sentence_starts, limit), _last(layout.line_starts, limit))
    if best > near:
        return best
    row = layout.row_around(limit)
    if row is not None and row.start > reached:
        return row.start
    word = _last(layout.word_starts, limit)
    return word if word > reached else layout.cut_before(start, limit)


def _next_start(layout: Layout, window: Span, following: int, overlap: int) -> int:
    """The first word within the overlap, of a table the first row, else the text after the window."""
    if not overlap:
        return following
    earliest = max(layout.ruler.start_of(window.end, overlap), window.start + 1)
    starts = layout.row_starts if layout.parts_row(earliest) else layout.word_starts
    number = bisect_left(starts, earliest)
    return min(starts[number], following) if number < len(starts) else following


def _last(starts: Sequence[int], limit: int) -> int:
    number = bisect_right(starts, limit)
    return starts[number - 1] if number else -1
