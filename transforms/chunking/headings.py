"""Finds the headings of a Markdown text."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from markdown_it import MarkdownIt

_LONGEST_HEADING = 300  # characters; a longer one is taken for a paragraph that begins with `#`
_LINE = re.compile(r"(?>\r\n|\r|\n)")  # line ends of CommonMark
_BLOCKS = (
    MarkdownIt("zero", {"html": True})
    .enable(["heading", "lheading", "fence", "code", "html_block"])
    .disable(["inline", "text_join"])
)
_INLINE = MarkdownIt("commonmark")


class Heading(NamedTuple):
    """A heading: (start, end) of its lines in characters, and the titles from the outermost heading down to its own."""

    start: int
    end: int
    path: tuple[str, ...]


def find_headings(text: str) -> Iterator[Heading]:
    """Yields the headings of a Markdown text, in order. Lines that look like headings inside code or comments are
    none.
    """
    if "#" not in text and "---" not in text and "===" not in text:
        return
    lines = [0, *(match.end() for match in _LINE.finditer(text)), len(text)]
    above: list[tuple[int, str]] = []
    tokens = _BLOCKS.parse(text)
    for token, content in pairwise(tokens):
        if token.type != "heading_open" or token.map is None:
            continue
        title = _plain(content.content)
        # several lines above one underline are a paragraph
        if not title or len(title) > _LONGEST_HEADING or "\n" in content.content:
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
    return " ".join(
        "".join(
            child.content for child in children if child.type in ("text", "code_inline", "image", "text_special")
        ).split()
    )
