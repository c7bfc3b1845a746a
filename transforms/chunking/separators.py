"""Chunks of whole paragraphs, else lines, sentences, words: as much of the best kind as fits."""

from collections.abc import Iterator

from almanac.schemas.declaration.chunk import ChunkLimits
from almanac.transforms.chunking.layout import Layout, Span
from almanac.transforms.chunking.packing import blank_lines, lines, pack_pieces, parted, pieces_of, sentences, spaces, words

_PARAGRAPHS = (blank_lines, sentences, spaces, words)
_RECURSIVE = (blank_lines, lines, sentences, spaces, words)
_WITHIN_SENTENCES = (lines, spaces, words)


def split_by_paragraphs(layout: Layout, span: Span, limits: ChunkLimits) -> Iterator[Span]:
    """Paragraphs are parted by an empty line; a long one is cut between sentences."""
    return pack_pieces(layout, pieces_of(layout, span, limits.size, _PARAGRAPHS), limits.size, limits.overlap, (sentences, words))


def split_recursively(layout: Layout, span: Span, limits: ChunkLimits) -> Iterator[Span]:
    """Like paragraphs, and a long one is cut between lines before it is cut between sentences: for verse, lists, tables and code."""
    return pack_pieces(layout, pieces_of(layout, span, limits.size, _RECURSIVE), limits.size, limits.overlap, (sentences, words))


def split_by_sentences(layout: Layout, span: Span, limits: ChunkLimits) -> Iterator[Span]:
    """Whole sentences up to `size`; one that is longer stays whole up to `max_size`. What is repeated are whole sentences, too."""
    if layout.length(span) <= limits.whole_below:
        return iter((span,))
    pieces = (piece for sentence in parted(layout, span, sentences) for piece in pieces_of(layout, sentence, limits.max_size, _WITHIN_SENTENCES))
    return pack_pieces(layout, pieces, limits.size, limits.overlap, (sentences,))
