"""Documents → chunks, as spans: `text[start:end]` is the chunk, to the character, in any script."""

import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

from schemas.declaration import Chunk
from schemas.items import ChunkRow, Item


class Span(NamedTuple):
    """A half-open range of characters."""

    start: int
    end: int


_BLANK_LINE = re.compile(r"\n[^\S\n]*\n\s*")
_NEWLINE = re.compile(r"\n\s*")
_SENTENCE_END = re.compile(r"(?:(?<=[.!?…؟।])[\"')\]»”’]*\s+|(?<=[。！？]))")
_SPACE = re.compile(r"\s+")
# Where a text is cut, best first. What no separator cuts to size is cut between characters.
_SEPARATORS = {
    "paragraphs": (_BLANK_LINE, _SENTENCE_END, _SPACE),
    "recursive": (_BLANK_LINE, _NEWLINE, _SENTENCE_END, _SPACE),
}


def chunk_item(item: Item, chunk: Chunk) -> list[ChunkRow]:
    """The rows of one item: a record is one row and has no span; a document is cut."""
    if item.kind == "record":
        return [_row(item, 0, None, item.text)]
    spans = split_into_spans(item.text, chunk)
    return [_row(item, ordinal, span, item.text[span.start : span.end]) for ordinal, span in enumerate(spans)]


def _row(item: Item, ordinal: int, span: Span | None, text: str) -> ChunkRow:
    return ChunkRow(
        document_id=item.document_id,
        source=item.source,
        url=item.url,
        title=item.title,
        kind=item.kind,
        ordinal=ordinal,
        start=span.start if span else None,
        end=span.end if span else None,
        text=text,
        embedded_text=text,
        metadata=item.metadata,
        fetched_at=item.fetched_at,
    )


def split_into_spans(text: str, chunk: Chunk) -> list[Span]:
    """Spans in reading order that cover every visible character; none is longer than `size` nor starts or ends with white space.

    Neighbours share at most `overlap` characters, from the start of a sentence or at least of a word.
    """
    whole = _trim(text, Span(0, len(text)))
    if whole.start == whole.end:
        return []
    if chunk.by == "none":
        return [whole]
    pieces = list(_pieces(text, whole, chunk.size, _SEPARATORS[chunk.by]))
    return list(_pack(text, pieces, chunk.size, chunk.overlap))


def _pieces(text: str, span: Span, size: int, separators: tuple[re.Pattern[str], ...]) -> Iterator[Span]:
    """Trimmed pieces of at most `size` characters, each cut at the best separator that makes it fit."""
    if span.end - span.start <= size:
        yield span
        return
    if not separators:
        yield from _hard_cuts(text, span, size)
        return
    position = span.start
    for match in separators[0].finditer(text, span.start, span.end):
        piece = _trim(text, Span(position, match.start()))
        if piece.start < piece.end:
            yield from _pieces(text, piece, size, separators[1:])
        position = match.end()
    last = _trim(text, Span(position, span.end))
    if last.start < last.end:
        yield from _pieces(text, last, size, separators[1:])


def _hard_cuts(text: str, span: Span, size: int) -> Iterator[Span]:
    start = span.start
    while span.end - start > size:
        end = start + size
        while end > start + 1 and (unicodedata.combining(text[end]) or text[end] in "\u200d\ufe0f"):
            end -= 1
        if end == start + 1 and size > 1:  # nothing but marks: cut where the size says
            end = start + size
        yield Span(start, end)
        start = end
    yield Span(start, span.end)


def _pack(text: str, pieces: list[Span], size: int, overlap: int) -> Iterator[Span]:
    """Neighbouring pieces together as long as they fit; each chunk begins with the tail of the one before."""
    start, end = pieces[0]
    for piece in pieces[1:]:
        if piece.end - start <= size:
            end = piece.end
            continue
        yield Span(start, end)
        start = _overlap_start(text, Span(start, end), piece, size, overlap)
        end = piece.end
    yield Span(start, end)


def _overlap_start(text: str, previous: Span, piece: Span, size: int, overlap: int) -> int:
    """Where a chunk that ends with `piece` starts: up to `overlap` characters back, where a sentence starts if one does there, else a word."""
    earliest = max(previous.end - overlap, previous.start + 1, piece.end - size)
    for separator in (_SENTENCE_END, _SPACE):
        for match in separator.finditer(text, max(earliest - 1, 0), previous.end):
            if earliest <= match.end() < previous.end:
                return match.end()
    return piece.start


def _trim(text: str, span: Span) -> Span:
    """Without white space at either end."""
    start, end = span
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return Span(start, end)
