"""Splits a text into pieces that fit, at the best separator possible, and packs pieces into chunks as full as
possible.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence

from almanac.transforms.chunking.layout import Layout, Span

# yields (start, end) of what separates two pieces, inside the span, in order
Separator = Callable[[Layout, Span], Iterable[tuple[int, int]]]

# Two line breaks with nothing but white space between them.
_BLANK_LINE = re.compile(
    r"(?>\r\n|[\n\r\x85\u2028])[^\S\n\r\v\f\x85\u2028\u2029]*[\n\r\v\f\x85\u2028\u2029]\s*|[\f\u2029]\s*"
)
_SPACE = re.compile(r"\s+")


def blank_lines(layout: Layout, span: Span) -> Iterator[tuple[int, int]]:
    """Blank lines between paragraphs."""
    return (match.span() for match in _BLANK_LINE.finditer(layout.text, *span))


def spaces(layout: Layout, span: Span) -> Iterator[tuple[int, int]]:
    """Runs of white space."""
    return (match.span() for match in _SPACE.finditer(layout.text, *span))


def lines(layout: Layout, span: Span) -> Iterator[tuple[int, int]]:
    """The (empty) boundaries between lines."""
    return _between(layout.line_starts, span)


def rows(layout: Layout, span: Span) -> Iterator[tuple[int, int]]:
    """The (empty) boundaries between rows of tables."""
    return _between(layout.row_starts, span)


def sentences(layout: Layout, span: Span) -> Iterator[tuple[int, int]]:
    """The (empty) boundaries between sentences."""
    return _between(layout.sentence_starts, span)


def words(layout: Layout, span: Span) -> Iterator[tuple[int, int]]:
    """The (empty) boundaries between words."""
    return _between(layout.word_starts, span)


def headings(layout: Layout, span: Span) -> Iterator[tuple[int, int]]:
    """The (empty) boundaries before headings."""
    return _between(layout.heading_starts, span)


def headings_from_text(layout: Layout, span: Span) -> Iterator[tuple[int, int]]:
    """The (empty) boundaries between headings and what follows them."""
    return _between(layout.heading_ends, span)


def _between(starts: Sequence[int], span: Span) -> Iterator[tuple[int, int]]:
    return ((start, start) for start in starts[bisect_right(starts, span.start) : bisect_left(starts, span.end)])


def pieces_of(layout: Layout, span: Span, size: int, separators: Sequence[Separator]) -> Iterator[Span]:
    """Pieces of at most `size` units, without white space at their ends, in order.

    Each piece that is too long is split by the next separator. One that is too long after the last is a long word, or a
    heading with the first word of its text: the heading is parted from it, and cut where it is too long itself; what is
    left is cut between letters.
    """
    if layout.length(span) <= size:
        yield span
    elif separators:
        for piece in parted(layout, span, separators[0]):
            yield from pieces_of(layout, piece, size, separators[1:])
    else:
        yield from _cut_headings(layout, span, size, (headings, headings_from_text, spaces, words))


def _cut_headings(layout: Layout, span: Span, size: int, separators: Sequence[Separator]) -> Iterator[Span]:
    if layout.length(span) <= size:
        yield span
    elif separators:
        for piece in _between_separators(layout, span, separators[0](layout, span)):
            yield from _cut_headings(layout, piece, size, separators[1:])
    else:
        yield from _cut_between_letters(layout, span, size)


def parted(layout: Layout, span: Span, separator: Separator) -> Iterator[Span]:
    """The non-empty pieces between separators, without white space at their ends. A heading stays with what follows
    it.
    """
    return _between_separators(
        layout, span, ((start, end) for start, end in separator(layout, span) if not layout.parts_heading(end))
    )


def _between_separators(layout: Layout, span: Span, separators: Iterable[tuple[int, int]]) -> Iterator[Span]:
    position = span.start
    for start, end in (*separators, (span.end, span.end)):
        piece = layout.trim(Span(position, start))
        if piece.start < piece.end:
            yield piece
        position = end


def _cut_between_letters(layout: Layout, span: Span, size: int) -> Iterator[Span]:
    start = span.start
    while layout.ruler.count(start, span.end) > size:
        # A letter of more than `size` units is a chunk of its own.
        cut = layout.cut_before(start, max(layout.ruler.end_of(start, size), start + 1))
        if cut >= span.end:
            break
        yield Span(start, cut)
        start = cut
    yield Span(start, span.end)


def pack_pieces(
    layout: Layout, pieces: Iterable[Span], size: int, overlap: int, repeat_from: Sequence[Separator]
) -> Iterator[Span]:
    """Joins neighbouring pieces while they fit `size`; a longer piece stays alone. Each chunk but the first repeats the
    tail of the one before.

    `overlap` is the most units to repeat, starting at one of the separators `repeat_from`, best first, and never inside
    a row of a table or a heading.
    """
    chunk: Span | None = None
    for piece in pieces:
        if chunk is None:
            chunk = piece
        elif layout.ruler.count(chunk.start, piece.end) <= size:
            chunk = Span(chunk.start, piece.end)
        else:
            yield chunk
            chunk = with_overlap(layout, chunk, piece, size, overlap, repeat_from)
    if chunk is not None:
        yield chunk


def with_overlap(
    layout: Layout, previous: Span, piece: Span, size: int, overlap: int, repeat_from: Sequence[Separator]
) -> Span:
    """The piece, extended to the left by up to `overlap` units of the previous chunk as far as `size` allows; it starts
    at the best separator available.

    A piece that begins with a heading is not: what it says does not go on from what stands before.
    """
    room = size - layout.length(piece)
    if not overlap or room <= 0 or layout.begins_heading(piece.start):
        return piece
    ruler = layout.ruler
    earliest = max(ruler.start_of(previous.end, overlap), ruler.start_of(piece.end, size), previous.start + 1)
    for separator in (rows, *repeat_from):
        for _, start in separator(layout, Span(earliest - 1, previous.end)):
            is_inside = earliest <= start < previous.end and not layout.text[start].isspace()
            is_whole = not layout.parts_row(start) and not layout.is_in_heading(start)
            if is_inside and is_whole and ruler.count(start, piece.end) <= size:
                return Span(start, piece.end)
    return piece
