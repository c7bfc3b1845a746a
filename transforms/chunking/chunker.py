"""The `Split` protocol of all chunking strategies, and `Chunker`, which turns items into rows of chunks."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Protocol

from almanac.core.templates import fill
from almanac.schemas.declaration.chunk_section import Chunk, ChunkLimits
from almanac.schemas.items import PLACES, ChunkRow, Item
from almanac.transforms.chunking.layout import Characters, Layout, Ruler, Span, Units, encodable, word_spans
from almanac.transforms.chunking.sections import Outline, split_by_sections
from almanac.transforms.chunking.separators import split_by_paragraphs, split_by_sentences, split_recursively
from almanac.transforms.chunking.table_chunks import Tables, WithHeaders
from almanac.transforms.chunking.topics import Embed, split_by_topic
from almanac.transforms.chunking.windows import split_into_windows

_UNITS = frozenset({"page", "slide", "sheet"})
TokenSpans = Callable[[str], Sequence[tuple[int, int]]]  # text → (start, end) in characters of each token, in order


class Split(Protocol):
    """A chunking strategy.

    Takes a span without white space at its ends and returns spans of the same kind, in reading order, that cover every
    visible character. None is longer than `limits.size` (sentences: `max_size`), and none shares more than `overlap`
    units with the one before. None begins inside a heading, and none ends with a heading whose text is in the next, but
    where a heading and the first word of its text are longer than a chunk may be. One that begins with a heading
    repeats nothing.
    """

    def __call__(self, layout: Layout, span: Span, limits: ChunkLimits, /) -> Iterable[Span]: ...


def _keep_whole(_layout: Layout, span: Span, _limits: ChunkLimits) -> Iterable[Span]:
    return (span,)


_SPLITS: dict[str, Split] = {
    "words": split_into_windows,
    "paragraphs": split_by_paragraphs,
    "sentences": split_by_sentences,
    "recursive": split_recursively,
    "sections": split_by_sections,
    "none": _keep_whole,
}


class Chunker:
    """Cuts items into chunks as declared.

    Args:
        language: BCP 47 tag of the declaration; `auto` uses the language detected for each item.
        embed: embeds texts; required for `by: semantic`.
        token_spans: finds tokens; required for `unit: tokens`.

    Raises ValueError without `embed` where it is required; without `token_spans`, `split` and `rows` do.
    """

    def __init__(
        self, chunk: Chunk, language: str = "und", *, embed: Embed | None = None, token_spans: TokenSpans | None = None
    ) -> None:
        if chunk.by == "semantic" and embed is None:
            raise ValueError("by: semantic needs a callable that embeds")
        self._by = chunk.by
        self._headings, self._prefix = chunk.headings, chunk.prefix or ""
        self._limits = chunk.limits
        self._language = language
        self._split = (
            partial(split_by_topic, embed=embed) if chunk.by == "semantic" and embed is not None else _SPLITS[chunk.by]
        )
        self._token_spans = token_spans

    def split(self, text: str, language: str | None = None) -> list[Span]:
        """Spans in reading order that cover every visible character, without white space at their ends; empty if
        nothing is visible.
        """
        return [span for span, _ in self._parts(*self._lay_out(text, language or self._language))]

    def _lay_out(self, text: str, language: str) -> tuple[Layout, Tables]:
        """A table whose header takes more than half a chunk repeats none."""
        ruler = self._ruler(text)
        tables = Tables(text, ruler, self._limits.size // 2)
        return Layout(text, language, WithHeaders(ruler, tables) if tables else ruler, tables.rows), tables

    def _parts(self, layout: Layout, tables: Tables) -> Iterator[tuple[Span, str]]:
        """The spans, each with the header of the table in whose rows it begins."""
        whole = layout.whole
        for span in self._split(layout, whole, self._limits) if whole.start < whole.end else ():
            header = tables.header_of(span.start)
            yield span, "" if header is None else layout.text[header.start : header.end]

    def rows(self, item: Item) -> list[ChunkRow]:
        """The chunks of one item as rows, in order. A record is a single row without a span.

        With `headings` or `by: sections`, the path of headings above a chunk is `section` in its metadata; of a
        document in pages, `page`, `slide` or `sheet` is where the chunk begins. A declared field of that name takes
        precedence, and the chunk has no place (`place` is null). Rows that are cut off from the header of their table
        are embedded with it.
        """
        prefix = fill(self._prefix, {"title": item.title, **item.fields})
        if item.kind == "record":
            return [_row(item, 0, None, "", [prefix])]
        language = str(item.metadata.get("language") or "und") if self._language == "auto" else self._language
        layout, tables = self._lay_out(item.text, language)
        outline = Outline(layout) if self._by == "sections" or self._headings else None
        rows = []
        for ordinal, (span, header) in enumerate(self._parts(layout, tables)):
            section = outline.path_of(span) if outline is not None else ""
            rows.append(_row(item, ordinal, span, section, [prefix, section if self._headings else ""], header))
        return rows

    def _ruler(self, text: str) -> Ruler:
        if self._limits.unit == "characters":
            return Characters(text)
        if self._limits.unit == "words":
            return Units(text, word_spans(text))
        if self._token_spans is None:
            raise ValueError("unit: tokens needs a callable that finds tokens")
        return Units(text, self._token_spans(encodable(text)))


def _place(item: Item, span: Span | None) -> dict[str, int | str | None]:
    """The page, slide or sheet on which a span begins; empty where its document has none. `place` is null where a
    declared field has the name of one.
    """
    if span is not None and not _UNITS.isdisjoint(item.metadata):
        return {"place": None}
    places = item.fields.get(PLACES) or []
    number = bisect_right(places, span.start, key=lambda place: place[0]) - 1 if span is not None else -1
    return {places[number][1]: places[number][2]} if number >= 0 else {}


def _row(
    item: Item, ordinal: int, span: Span | None, section: str, in_front: Sequence[str], header: str = ""
) -> ChunkRow:
    text = item.text if span is None else item.text[span.start : span.end]
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
        embedded_text="\n\n".join([*filter(None, in_front), header + text]),
        metadata={**({"section": section} if section else {}), **_place(item, span), **item.metadata},
        fetched_at=item.fetched_at,
        passage=item.passage if span is None else None,
    )
