"""Splits Markdown by its headings, and finds the path of headings above a span, such as `Guide > Opening hours`."""

import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from markdown_it import MarkdownIt

from almanac.schemas.declaration.chunk import ChunkLimits
from almanac.transforms.chunking.layout import Layout, Span
from almanac.transforms.chunking.separators import split_recursively

_JOINED_BY = " > "
_LONGEST_HEADING = 300  # characters; a longer one is taken for a paragraph that begins with `#`
_LINE = re.compile(r"(?>\r\n|\r|\n)")  # line ends of CommonMark
_BLOCKS = MarkdownIt("zero", {"html": True}).enable(["heading", "lheading", "fence", "code", "html_block"]).disable(["inline", "text_join"])
_INLINE = MarkdownIt("commonmark")


class Heading(NamedTuple):
    """A heading: (start, end) of its lines in characters, and the titles from the outermost heading down to its own."""

    start: int
    end: int
    path: tuple[str, ...]


class Outline:
    """The headings of a text, in order. Lines that look like headings inside code or comments do not count."""

    def __init__(self, text: str) -> None:
        self.headings = list(_find_headings(text))
        self._text = text
        self._starts = [heading.start for heading in self.headings]

    def path_of(self, span: Span) -> str:
        """The path of headings above a span; if the span begins with headings, down to the last of them. Empty before the first heading."""
        number = bisect_right(self._starts, span.start) - 1
        while number + 1 < len(self.headings) and self.headings[number + 1].end <= span.end and self._is_blank(max(span.start, self._end(number)), number + 1):
            number += 1
        return _JOINED_BY.join(self.headings[number].path) if number >= 0 else ""

    def sections(self, span: Span) -> Iterator[Span]:
        """Spans from each heading to the next one. A heading without text of its own belongs to the section that follows."""
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
    """One chunk per section, or several if it is long. No chunk crosses a heading, and none repeats text from before its section."""
    for section in Outline(layout.text).sections(span):
        part = layout.trim(section)
        if part.start < part.end:
            yield from split_recursively(layout, part, limits)


def _find_headings(text: str) -> Iterator[Heading]:
    if "#" not in text and "---" not in text and "===" not in text:
        return
    lines = [0, *(match.end() for match in _LINE.finditer(text)), len(text)]
    above: list[tuple[int, str]] = []
    tokens = _BLOCKS.parse(text)
    for token, content in pairwise(tokens):
        if token.type != "heading_open" or token.map is None:
            continue
        title = _plain(content.content)
        if not title or len(title) > _LONGEST_HEADING or "\n" in content.content:  # several lines above one underline are a paragraph
            continue
        level = int(token.tag[1:])
        above = [(upper, name) for upper, name in above if upper < level] + [(level, title)]
        start, end = (lines[min(line, len(lines) - 1)] for line in token.map)
        yield Heading(start, end, tuple(name for _, name in above))


def _plain(markdown: str) -> str:
    """The text of a heading without its markup."""
    if len(markdown) > 4 * _LONGEST_HEADING:
        return ""
    children = [child for token in _INLINE.parseInline(markdown) for child in token.children or ()]
    return " ".join("".join(child.content for child in children if child.type in ("text", "code_inline", "image", "text_special")).split())
