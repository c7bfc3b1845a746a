"""Chunking strategies that fill chunks with whole paragraphs, else lines, sentences or words."""

from collections.abc import Iterator

from almanac.schemas.declaration.chunk_section import ChunkLimits
from almanac.transforms.chunking.layout import Layout, Span
from almanac.transforms.chunking.packing import (
    blank_lines,
    lines,
    pack_pieces,
    parted,
    pieces_of,
    rows,
    sentences,
    spaces,
    words,
)

_PARAGRAPHS = (blank_lines, rows, sentences, spaces, words)
_RECURSIVE = (blank_lines, lines, sentences, spaces, words)
_WITHIN_SENTENCES = (lines, spaces, words)


def split_by_paragraphs(layout: Layout, span: Span, limits: ChunkLimits) -> Iterator[Span]:
    """Chunks of whole paragraphs, which are separated by empty lines; a long paragraph is cut between sentences, a
    table between rows.
    """
    return pack_pieces(
        layout, pieces_of(layout, span, limits.size, _PARAGRAPHS), limits.size, limits.overlap, (sentences, words)
    )


def split_recursively(layout: Layout, span: Span, limits: ChunkLimits) -> Iterator[Span]:
    """Chunks of whole paragraphs; a long one is cut between lines before sentences, which suits verse, lists, tables
    and code.
    """
    return pack_pieces(
        layout, pieces_of(layout, span, limits.size, _RECURSIVE), limits.size, limits.overlap, (sentences, words)
    )


def split_by_sentences(layout: Layout, span: Span, limits: ChunkLimits) -> Iterator[Span]:
    """Chunks of whole sentences up to `size`; a longer sentence stays whole up to `max_size`. The overlap consists of
    whole sentences. A table's row is one.

    A document of up to `whole_below` units is one chunk.
    """
    if layout.length(span) <= limits.whole_below:
        return iter((span,))
    units = (row for sentence in parted(layout, span, sentences) for row in parted(layout, sentence, rows))
    pieces = (piece for unit in units for piece in pieces_of(layout, unit, limits.max_size, _WITHIN_SENTENCES))
    return pack_pieces(layout, pieces, limits.size, limits.overlap, (sentences,))
