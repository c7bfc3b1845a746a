"""Reads Markdown: HTML rendering for selectors, and the title."""

import re
from functools import cache

import lxml.html
from markdown_it import MarkdownIt

_FENCE = re.compile(r"^\s{0,3}(```|~~~)")
_ATX_HEADING = re.compile(r"^\s{0,3}#{1,6}\s+(.*?)\s*#*\s*$")
_SETEXT_LINE = re.compile(r"^\s{0,3}(=+|-+)\s*$")
_HEADING_ATTRIBUTES = re.compile(r"\s*\{:?\s*[#.][^{}]*\}\s*$")  # `{#id .class}`, as Pandoc and kramdown write it


def render(text: str) -> str:
    """Markdown as HTML: CommonMark with tables and strikethrough; raw HTML is kept."""
    return str(_parser().render(text))


@cache
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])


def heading_of(text: str) -> str | None:
    """The text of the first heading outside code fences, without markup; None if there is none."""
    found = _heading_source(text)
    return None if found is None else plain_inline(found)


def plain_inline(source: str) -> str:
    """The text of a line of Markdown without markup."""
    markup = _parser().renderInline(_HEADING_ATTRIBUTES.sub("", source)[:2000])
    return " ".join(str(lxml.html.fragment_fromstring(markup, create_parent="div").text_content()).split())


def _heading_source(text: str) -> str | None:
    fence: str | None = None
    previous = ""
    lines = text.lstrip("\r\n").splitlines()
    if lines and lines[0].strip() == "---" and "---" in (ends := [line.strip() for line in lines[1:200]]):  # an empty front matter block
        lines = lines[ends.index("---") + 2 :]
    for line in lines:
        if mark := _FENCE.match(line):
            fence = mark[1] if fence is None else None if mark[1] == fence else fence
            previous = ""
            continue
        if fence is not None:
            continue
        if (heading := _ATX_HEADING.match(line)) and heading[1]:
            return heading[1]
        if previous.strip() and _SETEXT_LINE.match(line):
            return previous.strip()
        previous = line if not line.lstrip().startswith(("-", "*", ">", "|", "+")) else ""
    return None
