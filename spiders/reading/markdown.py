"""Reads Markdown: HTML rendering for selectors, and the title."""

import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise

import lxml.html
from markdown_it import MarkdownIt
from markdown_it.token import Token

_MAX_HEADING = 2000
_RUNNING_TEXT = 80  # letters of a paragraph; shorter ones above a title are dates, tags and bylines
_LABELLED = re.compile(r"[^\s:][^:\n]{0,30}:\s")
_HTML_HEADING = re.compile(r"(</?h1\b[^>]*>)", re.IGNORECASE)
_COMMENTS_ONLY = re.compile(r"---[ \t]*\n(?:(?:#[^\n]*)?\n)*---[ \t]*(?:\n|\Z)")  # a front matter block without a key


def render(text: str) -> str:
    """Markdown as HTML: CommonMark with tables and strikethrough; raw HTML is kept."""
    return str(_parser().render(text))


@cache
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])


@cache
def _blocks() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    parser.core.ruler.enableOnly(["normalize", "block"])
    return parser


def parse_blocks(text: str) -> list[Token]:
    """The block tokens of a Markdown text; those of lines are not parsed, which takes a third of the time."""
    return _blocks().parse(text)


def title_of(text: str) -> str:
    """The title that a Markdown text gives itself, without markup: its first-level heading (`#`, underlined with `=`,
    or `<h1>`); empty if there is none.

    Of several first-level headings, the first is the title if it stands at the top, with nothing but dates, tags,
    images or a byline above; otherwise they are sections, and none is the title.
    """
    block = _COMMENTS_ONLY.match(text)
    begin = block[0].count("\n") if block else 0
    headings, is_below_text = [], False
    for line, level, source in _headings_and_paragraphs(text):
        if level == 1 and (title := plain_inline(source)):
            headings.append((line, title, is_below_text))
        elif level or _is_running_text(source):
            is_below_text = True
    headings = [heading for heading in headings if heading[0] >= begin] or headings
    return headings[0][1] if len(headings) == 1 or (headings and not headings[0][2]) else ""


def _headings_and_paragraphs(text: str) -> Iterator[tuple[int, int, str]]:
    """(line, heading level or 0, Markdown source) of the outermost headings and paragraphs, in order."""
    html_heading: list[str] | None = None  # begun by <h1> and not ended yet
    tokens = parse_blocks(text)
    for token, inner in pairwise([*tokens, Token("", "", 0)]):
        line = token.map[0] if token.map else 0
        if token.type == "html_block" and token.level == 0:
            for piece in _HTML_HEADING.split(token.content):
                if piece.lower().startswith("<h1"):
                    html_heading = []
                elif piece.lower().startswith("</h1"):
                    yield line, 1, "".join(html_heading or [])
                    html_heading = None
                elif html_heading is not None:
                    html_heading.append(piece)
        elif token.level == 0 and token.type in ("heading_open", "paragraph_open"):
            if html_heading is not None:
                html_heading.append(inner.content)
            else:
                yield line, int(token.tag[1:]) if token.type == "heading_open" else 0, inner.content


def _is_running_text(source: str) -> bool:
    return (
        len(source) >= _RUNNING_TEXT
        and not _LABELLED.match(source)
        and sum(map(str.isalpha, plain_inline(source))) >= _RUNNING_TEXT
    )


def plain_inline(source: str) -> str:
    """The text of a line of Markdown without markup; the descriptions of its images if there is no other."""
    markup = _parser().renderInline(source[:_MAX_HEADING])
    line = lxml.html.fragment_fromstring(markup, create_parent="div")
    return " ".join(str(line.text_content()).split()) or " ".join(" ".join(line.xpath(".//img/@alt")).split())
