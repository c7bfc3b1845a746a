"""Splits Markdown by its headings, and finds the path of headings above a span, such as `Guide > Opening hours`."""

from bisect import bisect_right
from collections.abc import Iterator

from almanac.schemas.declaration.chunk_section import ChunkLimits
from almanac.transforms.chunking.layout import Layout, Span
from almanac.transforms.chunking.separators import split_recursively

_JOINED_BY = " > "


class Outline:
    """The paths and sections that the headings of a text make."""

    def __init__(self, layout: Layout) -> None:
        self.headings = layout.headings
        self._text = layout.text
        self._starts = [heading.start for heading in self.headings]

    def path_of(self, span: Span) -> str:
        """The path of headings above a span; if the span begins with headings, down to the last of them. Empty before
        the first heading.
        """
        number = bisect_right(self._starts, span.start) - 1
        while (
            number + 1 < len(self.headings)
            and self.headings[number + 1].end <= span.end
            and self._is_blank(max(span.start, self._end(number)), number + 1)
        ):
            number += 1
        return _JOINED_BY.join(self.headings[number].path) if number >= 0 else ""

    def sections(self, span: Span) -> Iterator[Span]:
        """Spans from each heading to the next one. A heading without text of its own belongs to the section that
        follows.
        """
        start = span.start
        for number, heading in enumerate(self.headings):
            if heading.start > start and not (number and self._is_blank(self._end(number - 1), number)):
                yield Span(start, heading.start)
                start = heading.start
        yield Span(start, span.end)

    def _end(self, number: int) -> int:
        return self.headings[number].end if number >= 0 else 0

    def _is_blank(self, position: int, number: int) -> bool:
        """Whether there is only white space between a position and a heading."""
        return not self._text[position : self.headings[number].start].strip()


def split_by_sections(layout: Layout, span: Span, limits: ChunkLimits) -> Iterator[Span]:
    """One chunk per section, or several if it is long. No chunk crosses a heading, and none repeats text from before
    its section.
    """
    for section in Outline(layout).sections(span):
        part = layout.trim(section)
        if part.start < part.end:
            yield from split_recursively(layout, part, limits)
