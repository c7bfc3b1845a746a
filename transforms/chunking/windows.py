"""Chunking by windows of a fixed number of words (or characters, or tokens), each starting one overlap before the end
of the last.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from almanac.schemas.declaration.chunk_section import ChunkLimits
from almanac.transforms.chunking.layout import Layout, Span

_NEAR = 80  # characters before the limit of a window within which it ends with a sentence or line if it can


def split_into_windows(layout: Layout, span: Span, limits: ChunkLimits) -> Iterator[Span]:
    """Windows of up to `size` units that begin with a word, and end with a sentence or line if one ends near the limit,
    but not with a heading.
    """
    start, reached = span.start, span.start
    while True:
        limit = min(layout.ruler.end_of(start, limits.size), span.end)
        cut = span.end if limit >= span.end else _cut(layout, start, max(start, reached), limit)
        if cut <= reached:  # the overlap leaves no room for what follows
            start = reached
            limit = max(layout.ruler.end_of(start, limits.size), start + 1)
            cut = min(_cut(layout, start, start, limit), span.end)
            if cut <= reached:  # a heading leaves none, either
                cut = min(_cut_heading(layout, start, limit), span.end)
        window = layout.trim(Span(start, cut))
        yield window
        if cut >= span.end:
            return
        reached = layout.trim(Span(cut, span.end)).start
        start = _next_start(layout, window, reached, limits.overlap)


def _cut(layout: Layout, start: int, reached: int, limit: int) -> int:
    """The end of a window, up to `limit`: with a sentence, line or row of a table, else with a word, else between
    letters.

    It is not after `reached` if that would part a heading from its text.
    """
    near = max(limit - _NEAR, (start + limit) // 2, reached)
    best = max(_last_whole(layout, layout.sentence_starts, limit), _last_whole(layout, layout.line_starts, limit))
    if best > near:
        return best
    row = layout.row_around(limit)
    if row is not None and row.start > reached and not layout.parts_heading(row.start):
        return row.start
    word = _last_whole(layout, layout.word_starts, limit)
    if word > reached:
        return word
    letter = layout.cut_before(start, limit)
    return reached if layout.parts_heading(letter) else letter


def _cut_heading(layout: Layout, start: int, limit: int) -> int:
    """The end of a window that begins with a heading that is too long for it: after a heading, else with a word, else
    between letters.
    """
    for starts in (layout.heading_ends, layout.word_starts):
        number = bisect_right(starts, limit)
        if number and starts[number - 1] > start:
            return starts[number - 1]
    return layout.cut_before(start, limit)


def _next_start(layout: Layout, window: Span, following: int, overlap: int) -> int:
    """The first word within the overlap, of a table the first row; the text after the window if there is none, or if
    that begins with a heading.
    """
    if not overlap or layout.begins_heading(following):
        return following
    earliest = max(layout.ruler.start_of(window.end, overlap), window.start + 1)
    starts = layout.row_starts if layout.parts_row(earliest) else layout.word_starts
    number = bisect_left(starts, earliest)
    while number < len(starts) and layout.is_in_heading(starts[number]):
        number += 1
    return min(starts[number], following) if number < len(starts) else following


def _last_whole(layout: Layout, starts: Sequence[int], limit: int) -> int:
    """The last start up to `limit` at which a cut leaves headings with what follows them; -1 if there is none."""
    number = bisect_right(starts, limit)
    while number and layout.parts_heading(starts[number - 1]):
        number -= 1
    return starts[number - 1] if number else -1
