"""Converts a page to the lines that a reader sees, top to bottom: headings, paragraphs, list items, table rows, and
folded content.
"""

import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from almanac.spiders.reading.rewritten import rewritten

_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_BOLD = frozenset({"strong", "b", "button"})
_BLOCKS = frozenset({
    "address", "article", "blockquote", "body", "button", "caption", "center", "dd", "div", "dl", "dt", "fieldset",
    "figcaption", "figure", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hgroup", "hr", "html", "li",
    "main", "ol", "p", "search", "section", "summary", "table", "tbody", "tfoot", "thead", "ul",
})  # fmt: skip
_UNREAD = frozenset(
    {"script", "style", "template", "noscript", "nav", "footer", "aside", "head", "select", "textarea", "svg", "iframe"}
)
_FENCES = re.compile(r"^\s*(`{3,})", re.MULTILINE)
_MAX_DEPTH = 100  # levels; deeper content is kept as one piece of text


@dataclass(slots=True)
class Line:
    """One line of a page.

    Attributes:
        bold: the bold text that the line begins with.
        lead: the list mark, with indentation.
        level: the heading level; 0 if it is no heading.
        tag: dt, dd, tr, pre or details where the line is one of these; else empty.
        starts: whether the line begins a block; otherwise it continues the line before it.
        broken: whether a line break (`<br>`) precedes a continuing line, rather than a mere line feed.
        is_link: whether all of its text is links.
        folded: the lines behind the summary of a `<details>`.
    """

    text: str
    bold: str = ""
    lead: str = ""
    level: int = 0
    tag: str = ""
    starts: bool = True
    broken: bool = False
    is_link: bool = False
    folded: "list[Line]" = field(default_factory=list)


def outline(root: Any, *, line_feeds: bool = False) -> list[Line]:
    """The lines of an lxml element. With `line_feeds`, a line feed in running text separates lines, as in Markdown
    source.
    """
    writer = _Writer(line_feeds)
    writer.read(rewritten(root), 0)
    writer.end_block()
    return writer.lines


def text_of_lines(lines: list[Line]) -> str:
    """Joins lines to text: an empty line between blocks, none between list items or table rows."""
    parts = [_written(line) for line in lines[:1]]
    for before, line in pairwise(lines):
        if line.starts:
            parts.append("\n" if _is_tight(line) and (_is_tight(before) or not before.starts) else "\n\n")
        else:
            parts.append("\n" if line.broken else " ")
        parts.append(_written(line))
    return "".join(parts).strip()


def _is_tight(line: Line) -> bool:
    return bool(line.lead) or line.tag == "tr"


def _written(line: Line) -> str:
    folded = f"\n\n{text_of_lines(line.folded)}" if line.folded else ""
    return f"{line.lead}{line.text}{folded}"


@dataclass(frozen=True, slots=True)
class _Piece:
    text: str
    is_bold: bool
    is_link: bool


@dataclass(slots=True)
class _Writer:
    line_feeds: bool
    lines: list[Line] = field(default_factory=list)
    _pieces: list[_Piece] = field(default_factory=list)
    _level: int = 0
    _tag: str = ""
    _lead: str = ""
    _counters: list[int | None] = field(default_factory=list)  # next number of each enclosing list; None for bullets
    _starts: bool = True
    _broken: bool = False
    _title_of_details: Any = None

    def read(self, element: Any, depth: int, *, bold: bool = False, link: bool = False) -> None:
        """Adds the content of an element."""
        if depth > _MAX_DEPTH:
            self._add("".join(element.itertext()), bold, link)
            return
        self._add(element.text, bold, link)
        for child in element:
            if isinstance(child.tag, str) and child.tag not in _UNREAD and child is not self._title_of_details:
                self._read_child(child, depth, bold or child.tag in _BOLD, link or child.tag == "a")
            self._add(child.tail, bold, link)

    def _read_child(self, child: Any, depth: int, bold: bool, link: bool) -> None:
        match child.tag:
            case "br":
                self._end_line(broken=True)
            case "details":
                self._read_details(child, depth)
            case "pre":
                self._whole(_fenced(child), "pre")
            case "tr":
                cells = [" ".join("".join(cell.itertext()).split()) for cell in child.iterchildren("td", "th")]
                self._whole(" | ".join(cells) if any(cells) else "", "tr")
            case tag if tag in _BLOCKS:
                self._read_block(child, depth, bold and tag == "button", link)
            case _:
                self.read(child, depth + 1, bold=bold, link=link)

    def _whole(self, text: str, tag: str) -> None:
        self.end_block()
        if text.strip():
            self.lines.append(Line(text, tag=tag))

    def _read_block(self, block: Any, depth: int, bold: bool, link: bool) -> None:
        self.end_block()
        around = self._level, self._tag
        lead = self._lead
        tag = block.tag
        if tag in ("ul", "ol"):
            self._counters.append(_first_number(block) if tag == "ol" else None)
        elif tag == "li":
            self._lead = self._list_mark()
        elif tag in _HEADINGS:
            self._level = _HEADINGS[tag]
        elif tag in ("dt", "dd"):
            self._tag = tag
        self.read(block, depth + 1, bold=bold, link=link)
        self.end_block()
        if tag in ("ul", "ol"):
            self._counters.pop()
        if tag == "li":
            self._lead = lead
        self._level, self._tag = around

    def _list_mark(self) -> str:
        indent = "  " * max(0, len(self._counters) - 1)
        number = self._counters[-1] if self._counters else None
        if number is None:
            return f"{indent}- "
        self._counters[-1] = number + 1
        return f"{indent}{number}. "

    def _read_details(self, details: Any, depth: int) -> None:
        self.end_block()
        summary = next(iter(details.iterchildren("summary")), None)
        title = "" if summary is None else " ".join("".join(summary.itertext()).split())
        inside = _Writer(self.line_feeds, _title_of_details=summary)
        inside.read(details, depth + 1)
        inside.end_block()
        self.lines.append(Line(title, tag="details", folded=inside.lines))

    def _add(self, text: str | None, bold: bool, link: bool) -> None:
        if not text:
            return
        first, *others = text.split("\n") if self.line_feeds else [text]
        self._pieces.append(_Piece(first, bold, link))
        for line in others:
            self._end_line(broken=False)
            self._pieces.append(_Piece(line, bold, link))

    def _end_line(self, *, broken: bool) -> None:
        shown = [piece for piece in self._pieces if piece.text.strip()]
        text = _joined(self._pieces)
        if text:
            plain = next((number for number, piece in enumerate(shown) if not piece.is_bold), len(shown))
            line = Line(
                text,
                _joined(shown[:plain]),
                "",
                self._level,
                self._tag,
                self._starts,
                self._broken,
                all(piece.is_link for piece in shown),
            )
            if self._starts:
                line.lead, self._lead = self._lead, " " * len(self._lead)
            self.lines.append(line)
            self._starts = False
        self._pieces.clear()
        self._broken = broken or (self._broken and not text)

    def end_block(self) -> None:
        """Ends the current line and block; the next line starts a new block."""
        self._end_line(broken=False)
        self._starts, self._broken = True, False


def _joined(pieces: list[_Piece]) -> str:
    return " ".join("".join(piece.text for piece in pieces).split())


def _fenced(pre: Any) -> str:
    """Preformatted text as a fenced Markdown code block, so that its spaces are kept."""
    code = "".join(pre.itertext()).strip("\n")
    if not code.strip():
        return ""
    fence = "`" * max(3, 1 + max(map(len, _FENCES.findall(code)), default=0))
    names = " ".join(element.get("class") or "" for element in pre.iter("pre", "code")).split()
    language = next((name.removeprefix("language-") for name in names if name.startswith("language-")), "")
    return f"{fence}{language}\n{code}\n{fence}"


def _first_number(ordered: Any) -> int:
    try:
        return int(ordered.get("start") or 1)
    except ValueError:
        return 1
