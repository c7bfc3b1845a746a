"""Windows of so many words (or characters, or tokens), each moved on by its size less the overlap."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from almanac.schemas.declaration.chunk import ChunkLimits
from almanac.transforms.chunking.layout import Layout, Span

_NEAR = 80  # characters before the end of a window in which it rather ends with a sentence or a line


def split_into_windows(layout: Layout, span: Span, limits: ChunkLimits) -> Iterator[Span]:
    """Windows of up to `size` units that begin with a word; they end with a sentence or a line where one ends near."""
    start, reached = span.start, span.start
    while True:
        limit = min(layout.ruler.end_of(start, limits.size), span.end)
        cut = span.end if limit >= span.end else _cut(layout, start, max(start, reached), limit)
        if cut <= reached:  # the overlap leaves no room for even one letter more
            start = reached
            cut = min(_cut(layout, start, start, max(layout.ruler.end_of(start, limits.size), start + 1)), span.end)
        window = layout.trim(Span(start, cut))
        yield window
        if cut >= span.end:
            return
        reached = layout.trim(Span(cut, span.end)).start
        start = _next_start(layout, window, reached, limits.overlap)


def _cut(layout: Layout, start: int, reached: int, limit: int) -> int:
    """Where a window that may go on to `limit` ends, after what was `reached`: with a sentence or a line, else with a word, else between letters."""
    near = max(limit - _NEAR, (start + limit) // 2, reached)
    best = max(_last(layout.sentence_starts, limit), _last(layout.line_starts, limit))
    if best > near:
        return best
    word = _last(layout.word_starts, limit)
    return word if word > reached else layout.cut_before(start, limit)


def _next_start(layout: Layout, window: Span, following: int, overlap: int) -> int:
    """The first word within the overlap, else the text that follows the window."""
    if not overlap:
        return following
    earliest = max(layout.ruler.start_of(window.end, overlap), window.start + 1)
    number = bisect_left(layout.word_starts, earliest)
    return min(layout.word_starts[number], following) if number < len(layout.word_starts) else following


def _last(starts: Sequence[int], limit: int) -> int:
    number = bisect_right(starts, limit)
    return starts[number - 1] if number else -1
