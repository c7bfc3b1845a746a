"""Writes a tree as Markdown, in one pass.

Headings become `## …`, list items `- …` or `1. …` with two spaces per level, grids of values pipe tables, rows of other
tables `a | b`, code is fenced, everything else is a paragraph.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from lxml import etree

from almanac.core.grids import grid_blocks, is_grid
from almanac.transforms.html.blocks import LISTS

_NUMBERED = re.compile(r"\d{1,6}\. ")
_ITEM = re.compile(r" *(?:- |\d{1,6}\. )")
_FENCES = re.compile(r"^\s*(`{3,})", re.MULTILINE)
_HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}
_MAX_LEVEL = 8
_CELLS = frozenset({"td", "th"})
# A cell with one of these is for layout, not for a value.
_LAYOUT = frozenset({*_HEADINGS, "ul", "ol", "dl", "pre", "table", "form", "nav", "section", "article", "blockquote"})
_PARTING = frozenset(
    {
        "address",
        "article",
        "aside",
        "blockquote",
        "body",
        "caption",
        "center",
        "dd",
        "details",
        "dialog",
        "div",
        "dl",
        "dt",
        "fieldset",
    }
    | {
        "figcaption",
        "figure",
        "footer",
        "form",
        "header",
        "hgroup",
        "hr",
        "html",
        "legend",
        "li",
        "main",
        "menu",
        "nav",
        "ol",
        "optgroup",
        "option",
    }
    | {"p", "section", "summary", "table", "tbody", "tfoot", "thead", "tr", "ul"}
) | frozenset(_HEADINGS)


def write_tree(root: Any, skipped: frozenset[str] = frozenset()) -> str:
    """All text of a tree, without the elements whose tags are in `skipped`: an empty line between blocks, a line break
    between items and rows.
    """
    return _joined(_Writer(skipped).blocks(root))


def one_line(text: str) -> str:
    """The text on one line, with white space normalised."""
    return " ".join(text.split())


def _joined(blocks: Iterable[tuple[bool, str]]) -> str:
    """Joins (is list item or table row, block) pairs."""
    parts: list[str] = []
    after_line = False
    for is_line, block in blocks:
        parts.append(("\n" if is_line and after_line else "\n\n") + block)
        after_line = is_line
    return "".join(parts).strip("\n")


@dataclass(slots=True)
class _Writer:
    skipped: frozenset[str]
    _words: list[str] = field(default_factory=list)
    _mark: str = ""  # what the next block begins with
    # of each enclosing list, the next number; None for bullets
    _numbers: list[int | None] = field(default_factory=list)
    _cell: Any = None  # the outermost cell of a table of values; its blocks are one line
    _is_row: bool = False  # whether the next block has cells

    def blocks(self, root: Any) -> Iterator[tuple[bool, str]]:
        walk = etree.iterwalk(root, events=("start", "end"))
        for event, element in walk:
            tag = element.tag
            is_whole = tag in self.skipped or tag == "pre" or (tag == "table" and is_grid(element))
            if event == "start":
                if is_whole:
                    walk.skip_subtree()
                    if tag == "pre":
                        yield from self._code(element)
                    elif tag in _PARTING:
                        yield from self._block()
                        if tag == "table" and tag not in self.skipped:
                            yield from ((False, block) for block in grid_blocks(element))
                else:
                    yield from self._start(element)
                    self._words.append(" " if tag == "br" else element.text or "")
            else:
                if not is_whole:
                    yield from self._end(element)
                if element is not root:
                    self._words.append(element.tail or "")
        yield from self._block()

    def _start(self, element: Any) -> Iterator[tuple[bool, str]]:
        tag = element.tag
        if self._cell is not None:
            self._words.append(" " if tag in _PARTING else "")
        elif tag in _CELLS:
            if not any(inner.tag in _LAYOUT for inner in element.iterdescendants()):
                self._cell, self._is_row = element, True
        elif tag in _PARTING:
            yield from self._block()
            if tag in LISTS:
                self._numbers.append(_number(element.get("start")) if tag == "ol" else None)
            elif tag == "li":
                self._mark = self._item_mark(element)
            elif tag in _HEADINGS:
                self._mark = _HEADINGS[tag]

    def _end(self, element: Any) -> Iterator[tuple[bool, str]]:
        tag = element.tag
        if tag in _CELLS and self._cell in (None, element):
            self._cell = None
            self._words.append(" | ")
        elif self._cell is not None:
            self._words.append(" " if tag in _PARTING else "")
        elif tag in _PARTING:
            yield from self._block()
            if tag in LISTS and self._numbers:
                self._numbers.pop()
            if tag == "li" or tag in _HEADINGS:
                self._mark = ""

    def _block(self) -> Iterator[tuple[bool, str]]:
        text = one_line("".join(self._words)).rstrip("| ")
        text = text if self._is_row else text.lstrip("| ")  # of a row, the first cell may be empty
        self._words.clear()
        if text:
            block = self._mark.removesuffix("- ") + text if _NUMBERED.match(text) else self._mark + text
            yield self._is_row or bool(_ITEM.match(block)), block
            self._mark, self._is_row = "", False

    def _code(self, code: Any) -> Iterator[tuple[bool, str]]:
        if self._cell is not None:
            self._words.append(" ".join(code.itertext()))
            return
        yield from self._block()
        if fenced := _fenced("".join(code.itertext())):
            yield False, fenced

    def _item_mark(self, item: Any) -> str:
        indent = "  " * min(max(len(self._numbers) - 1, 0), _MAX_LEVEL)
        number = self._numbers[-1] if self._numbers else None
        if number is None:
            return f"{indent}- "
        number = _number(item.get("value"), number)
        self._numbers[-1] = number + 1
        return f"{indent}{number}. "


def _number(text: str | None, default: int = 1) -> int:
    match = re.match(r"\s*(\d{1,6})", text or "")
    return int(match[1]) if match else default


def _fenced(code: str) -> str:
    """Code between fences longer than any inside it, otherwise unchanged; empty if there is only white space."""
    if not code.strip():
        return ""
    code = code.strip("\n") if code.count("\n") else code.strip()
    fence = "`" * max(3, 1 + max((len(backticks) for backticks in _FENCES.findall(code)), default=0))
    return f"{fence}\n{code}\n{fence}"
