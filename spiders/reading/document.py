"""The element model of all document formats: titles with levels, texts, list items, code and tables, each with its
page, slide or sheet.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import groupby
from typing import Any, Literal

from almanac.core.table_heads import pipe_table
from almanac.schemas.items import PAGE_BREAK, Place
from almanac.schemas.left_out import LeftOut

Kind = Literal["title", "text", "item", "table", "code"]

_LIKE_A_HEADING = re.compile(r"(?m)^(?=#{1,6}(?:\s|$))")
_CONTROLS = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f]")


class Unreadable(ValueError):
    """A document that yields nothing; its message is the reason of the reject."""


class Interrupted(Unreadable):
    """A document whose reading something outside it may have ended: a process that was killed, or a busy machine.
    Another run may read it.
    """


@dataclass(frozen=True, slots=True)
class Element:
    """A piece of a document.

    Attributes:
        kind: what it is.
        text: what it says; of a table, empty.
        level: of a title, 1 to 6; of a list item, its depth from 0.
        rows: of a table, its cells, row by row; those of the first row name the columns, and are empty where nothing
            does.
        place: page or slide number, or the sheet's name; None where the format has none.
        is_bold: whether all of its text is bold.
    """

    kind: Kind
    text: str = ""
    level: int = 0
    rows: Sequence[Sequence[str]] = ()
    place: Place = None
    is_bold: bool = False


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file in a mail: its document, or the reason why it cannot be read."""

    name: str
    document: "Document | None" = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Document:
    """A document as read: its own title (empty if it has none), elements in reading order, and the files attached to
    it.

    `unit` says what the places of its elements are: `page`, `slide` or `sheet`; empty where there are none. `left_out`
    tallies text that no element has on purpose, with that of the attached files.
    """

    title: str
    elements: Sequence[Element]
    unit: Literal["", "page", "slide", "sheet"] = ""
    attachments: Sequence[Attachment] = field(default=())
    left_out: LeftOut = field(default_factory=LeftOut)

    def as_json(self) -> dict[str, Any]:
        elements = [[e.kind, e.text, e.level, e.rows, e.place, e.is_bold] for e in self.elements]
        attached = [[a.name, None if a.document is None else a.document.as_json(), a.reason] for a in self.attachments]
        return {
            "title": self.title,
            "unit": self.unit,
            "elements": elements,
            "attachments": attached,
            "left_out": self.left_out,
        }


def document_of(values: dict[str, Any]) -> Document:
    """The counterpart of `Document.as_json`."""
    attached = [
        Attachment(name, None if inner is None else document_of(inner), reason)
        for name, inner, reason in values["attachments"]
    ]
    return Document(
        values["title"],
        [Element(*element) for element in values["elements"]],
        values["unit"],
        attached,
        LeftOut(values["left_out"]),
    )


def as_html(document: Document) -> str:
    """The document as HTML: headings, paragraphs, lists and tables; a `<section data-page="4">` for each page, slide or
    sheet.
    """
    parts = []
    for place, elements in _by_place(document):
        inner = "".join(_html_blocks(elements))
        parts.append(
            inner if place is None else f'<section data-{document.unit}="{escape(str(place))}">\n{inner}</section>\n'
        )
    return "".join(parts)


def as_markdown(document: Document) -> str:
    """The document as Markdown, with tables as pipe tables. Each page, slide or sheet begins with a line of its own:
    PAGE_BREAK, unit, `=` and its name.
    """
    parts = []
    for place, elements in _by_place(document):
        parts.append("" if place is None else f"{PAGE_BREAK}{document.unit}={place}")
        parts.append("\n\n".join(_markdown_blocks(elements)))
    return "\n".join(parts)


def plain(text: str) -> str:
    """A text without control characters, with single spaces and its line breaks kept."""
    lines = (" ".join(line.split()) for line in _CONTROLS.sub(" ", text).splitlines())
    return "\n".join(line for line in lines if line)


def plain_code(text: str) -> str:
    """Code without control characters, with its lines and their indentation."""
    return "\n".join(line.rstrip() for line in _CONTROLS.sub(" ", text.expandtabs(4)).splitlines()).strip("\n")


def title_of(elements: Iterable[Element]) -> str:
    """The first heading of the first level; empty if there is none."""
    return next(
        (" ".join(element.text.split()) for element in elements if element.kind == "title" and element.level == 1), ""
    )


def _by_place(document: Document) -> Iterator[tuple[Place, list[Element]]]:
    return (
        (place, list(elements)) for place, elements in groupby(document.elements, key=lambda element: element.place)
    )


def _html_blocks(elements: Iterable[Element]) -> Iterator[str]:
    for is_list, group in groupby(elements, key=lambda element: element.kind == "item"):
        if is_list:
            yield "<ul>\n" + "".join(f"<li>{_inline(item)}</li>\n" for item in group) + "</ul>\n"
            continue
        for element in group:
            if element.kind == "title":
                yield f"<h{element.level}>{_inline(element)}</h{element.level}>\n"
            elif element.kind == "table":
                yield f"<table>\n{''.join(_html_rows(element.rows))}</table>\n"
            elif element.kind == "code":
                yield f"<pre><code>{escape(element.text, quote=False)}</code></pre>\n"
            else:
                yield f"<p>{_inline(element)}</p>\n"


def _html_rows(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    for number, row in enumerate(rows):
        tag = "td" if number else "th"
        if number or any(row):
            yield "<tr>" + "".join(f"<{tag}>{_lines(cell)}</{tag}>" for cell in row) + "</tr>\n"


def _inline(element: Element) -> str:
    return f"<strong>{_lines(element.text)}</strong>" if element.is_bold else _lines(element.text)


def _lines(text: str) -> str:
    return escape(text, quote=False).replace("\n", "<br>")


def _markdown_blocks(elements: Iterable[Element]) -> Iterator[str]:
    for is_list, group in groupby(elements, key=lambda element: element.kind == "item"):
        if is_list:
            yield "\n".join(f"{'  ' * min(item.level, 8)}- {' '.join(item.text.split())}" for item in group)
            continue
        for element in group:
            if element.kind == "title":
                yield f"{'#' * element.level} {' '.join(element.text.split())}"
            elif element.kind == "table":
                yield pipe_table(element.rows)
            elif element.kind == "code":
                yield _fenced(element.text)
            else:
                yield _LIKE_A_HEADING.sub(r"\\", element.text)


def _fenced(code: str) -> str:
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", code)), default=0))
    return f"{fence}\n{code}\n{fence}"
