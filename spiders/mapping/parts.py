"""Splits a page into the parts that are items: matches of `each`, rows, lines, entries, question and answer pairs, or
the whole page.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from almanac.schemas.declaration.field_rules import Selector
from almanac.schemas.declaration.source import FilesSource, Source
from almanac.schemas.items import Reject
from almanac.spiders.mapping.fields import told_hidden
from almanac.spiders.reading.content import Content, media_type, parse_json
from almanac.spiders.reading.delimited import read_rows
from almanac.spiders.reading.document import Document
from almanac.spiders.reading.faq import pairs_of_lines, pairs_of_structured_data, unpaired
from almanac.spiders.reading.outline import outline
from almanac.spiders.selecting.embedded import (
    described_by_json_ld,
    find,
    is_missed_by_prefix,
    why_hidden,
    why_no_prefix,
)
from almanac.spiders.selecting.json_bodies import why_not_json
from almanac.spiders.selecting.links import spread
from almanac.spiders.selecting.selectors import as_read

_CONTROLS = re.compile("[\0-\x08\x0e-\x1a\x1c-\x1f]")
_SNIFFED = 4096


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a page that is one item.

    Attributes:
        node: its element or JSON value; None for the whole page.
        anchor: URL fragment that identifies it on the page; None if it is the only one.
        own: fields that it names itself: front matter, columns, keys, question and answer.
        title: its own title; empty if it has none.
        body: its text as a document; None if that is taken from the page.
        document: the attached file that it is; None for every other part.
    """

    node: Any = None
    anchor: str | None = None
    own: dict[str, Any] = field(default_factory=dict)
    title: str = ""
    body: str | None = None
    document: Document | None = None


def read_parts(content: Content, source: Source) -> Iterator[Part | Reject]:
    """Yields the page's parts in order, and a Reject for each part, or for the page, that cannot be read."""
    if _has_no_body(content, source):
        reason = (
            f"body: {source.body} is for HTML and text, and this is {content.form}; say which field is the text: "
            f'body: "{{text}}"'
        )
        yield Reject(source.name, content.url, content.url, "map", reason, field="body", rule=f"body: {source.body}")
        return
    try:
        yield from _reader(content, source)(content, source)
    except ValueError as error:
        yield Reject(source.name, content.url, None, "read", str(error))


def _has_no_body(content: Content, source: Source) -> bool:
    """Whether a document's text would have to be guessed, since values have no main part. A table from a site is read
    as plain text.
    """
    is_whole = source.yields == "documents" and source.body in ("main", "all")
    return is_whole and (
        content.form in ("json", "jsonl") or (content.form == "csv" and isinstance(source, FilesSource))
    )


def _reader(content: Content, source: Source) -> Callable[[Content, Source], Iterator[Part | Reject]]:
    if isinstance(source, FilesSource):
        if source.format == "faq":
            return _pairs
        if content.form == "csv":
            return _rows
        if content.form == "json" and source.each is None:
            return _entries
    return _lines if content.form == "jsonl" else _matches


def _matches(content: Content, source: Source) -> Iterator[Part | Reject]:
    """Yields the matches of `each`, or the whole page."""
    _check_readable(content, source)
    if source.each is None:
        if source.takes_own_fields and source.yields == "records" and content.form != "markdown":
            raise ValueError(
                f"a record has fields, and {content.form} names none: declare fields, or yields: documents"
            )
        own = content.json if source.takes_own_fields and content.form == "markdown" else {}
        yield Part(own=own)
        if content.is_document:
            yield from _attachments(content, source)
        return
    nodes = spread(find(content, source.each))
    if not nodes and (reason := _why_nothing(content, source.each)) is not None:
        written = source.each.css or source.each.xpath or ""
        yield Reject(source.name, content.url, None, "map", reason, field="each", rule=f"each: {written}")
    for number, node in enumerate(nodes, start=1):
        yield Part(node, f"#{number}", own=node if source.takes_own_fields and isinstance(node, dict) else {})


def _why_nothing(content: Content, each: Selector) -> str | None:
    """Why `each` finds nothing where items are: they are hidden, or have another prefix. A feed that has none of them
    is no error.
    """
    if is_missed_by_prefix(content, each):
        return why_no_prefix(content, each)
    reason = why_hidden(content, each)
    return None if reason is None else told_hidden(reason)


def _attachments(content: Content, source: Source) -> Iterator[Part | Reject]:
    """Yields the files attached to a mail, and those attached to mails inside it; a Reject for one that cannot be
    read.
    """
    waiting = [(f"#{attachment.name}", attachment) for attachment in content.document.attachments]
    while waiting:
        anchor, attached = waiting.pop(0)
        if attached.document is None:
            yield Reject(source.name, content.url + anchor, content.url + anchor, "read", attached.reason)
        else:
            yield Part(anchor=anchor, title=attached.document.title or attached.name, document=attached.document)
            waiting += [(f"{anchor}/{inner.name}", inner) for inner in attached.document.attachments]


def _check_readable(content: Content, source: Source) -> None:
    if (why := why_not_json(content, source)) is not None:
        raise ValueError(why)
    if content.is_document:
        _ = content.document
    elif isinstance(source, FilesSource) and (controls := _share_of_controls(content.text)) > 0.05:
        raise ValueError(f"not text: {controls:.0%} control characters")
    elif content.form == "markdown":
        _ = content.json  # its front matter


def _share_of_controls(text: str) -> float:
    beginning = text[:_SNIFFED]
    return len(_CONTROLS.findall(beginning)) / max(1, len(beginning))


def _lines(content: Content, source: Source) -> Iterator[Part | Reject]:
    """Yields one JSON value per line."""
    anchors = _Anchors(source)
    for number, line in enumerate(content.lines, start=1):
        if not line.strip():
            continue
        anchor = f"#L{number}"
        try:
            value = parse_json(line.decode("utf-8"))
        except UnicodeDecodeError as error:
            yield Reject(
                source.name,
                content.url + anchor,
                None,
                "read",
                f"line {number} is not UTF-8: {error.reason} at byte {error.start}",
            )
            continue
        except ValueError as error:
            yield Reject(source.name, content.url + anchor, None, "read", f"line {number} is not JSON: {error}")
            continue
        yield _value_part(content, source, value, anchors.choose_anchor(value, anchor), anchor, f"line {number}")


def _entries(content: Content, source: Source) -> Iterator[Part | Reject]:
    """Yields the entries of a JSON array, or the single object of the file."""
    try:
        value = content.json
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from error
    if not isinstance(value, list):
        yield _value_part(content, source, value, None, "", "the file")
        return
    anchors = _Anchors(source)
    for number, entry in enumerate(value, start=1):
        anchor = f"#{number}"
        yield _value_part(content, source, entry, anchors.choose_anchor(entry, anchor), anchor, f"entry {number}")


def _value_part(
    content: Content, source: Source, value: Any, anchor: str | None, place: str, name: str
) -> Part | Reject:
    """A JSON value as a part; a Reject if it has no fields. Lists are accepted only where rules read them."""
    if isinstance(value, dict) or (isinstance(value, list) and not source.takes_own_fields):
        return Part(value, anchor, own=value if isinstance(value, dict) else {})
    kind = {list: "a list", str: "a text", bool: "true or false", type(None): "null"}.get(type(value), "a number")
    return Reject(source.name, content.url + place, None, "read", f"{name} is {kind}, not a JSON object")


def _rows(content: Content, source: Source) -> Iterator[Part | Reject]:
    """Yields the rows of a table below its header."""
    _check_readable(content, source)
    anchors = _Anchors(source)
    is_tabbed = media_type(content.page.content_type) == "text/tab-separated-values"
    for row in read_rows(content.text, "\t" if is_tabbed else None):
        anchor = f"#L{row.line}"
        if row.problem is not None:
            yield Reject(source.name, content.url + anchor, None, "read", row.problem)
        else:
            yield Part(row.values, anchors.choose_anchor(row.values, anchor), own=row.values)


def _pairs(content: Content, source: Source) -> Iterator[Part | Reject]:
    """Yields question and answer pairs."""
    if not content.has_markup:
        raise ValueError(f"questions and answers are read from Markdown, HTML and DOCX, not from {content.form}")
    _check_readable(content, source)
    root = as_read(content.selector.root, leave_out=content.leave_out)
    lines = outline(root, line_feeds=content.form == "markdown")
    pairs = pairs_of_structured_data(described_by_json_ld(content)) or pairs_of_lines(lines)
    if not pairs:
        raise ValueError("no question with an answer found: headings, bold lines or summaries that ask, or Q: and A:")
    for number, text in enumerate(unpaired(lines, pairs)):
        content.leave_out("no_pair", text, number)
    for pair in pairs:
        own = {"question": pair.question, "answer": pair.answer}
        yield Part(pair.as_json(), pair.anchor, own=own, title=pair.question, body=f"{pair.question}\n\n{pair.answer}")


class _Anchors:
    """Gives the entries of a file unique anchors: their own `id` if they have one and no other is declared, else their
    position.
    """

    def __init__(self, source: Source) -> None:
        self._by_id = source.id == "url"
        self._taken: set[str] = set()

    def choose_anchor(self, value: Any, place: str) -> str:
        own_id = value.get("id") if self._by_id and isinstance(value, dict) else None
        anchor = (
            f"#{own_id}"
            if isinstance(own_id, str | int) and not isinstance(own_id, bool) and str(own_id).strip()
            else place
        )
        anchor = place if anchor in self._taken else anchor
        self._taken.add(anchor)
        return anchor
