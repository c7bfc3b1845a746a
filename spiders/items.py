"""Items of one page: the parts that are items, their fields, and what becomes of them: a draft, or a reject with its reason."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import parsel

from schemas.errors import DeclarationError
from schemas.fields import FieldRule, Selector
from schemas.items import Draft, Markup, Page, Reject
from schemas.sources import Source
from schemas.templates import fill
from spiders.content import Content, parse_json
from spiders.fields import Reading, Scope, read_fields
from spiders.links import spread
from spiders.select import element_text, markup_of, select
from spiders.urls import file_stem

Card = dict[str, Reading]

_FENCE = re.compile(r"^\s{0,3}(```|~~~)")
_ATX_HEADING = re.compile(r"^\s{0,3}#{1,6}\s+(.*?)\s*#*\s*$")
_SETEXT_LINE = re.compile(r"^\s{0,3}(=+|-+)\s*$")


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a page that is one item. `anchor` tells it from the page's other items; None where it is the whole page."""

    node: Any
    anchor: str | None = None


@dataclass(frozen=True, slots=True)
class MappedItem:
    """One item with the readings that it was made from: exactly one of draft and reject is there."""

    readings: dict[str, Reading]
    draft: Draft | None = None
    reject: Reject | None = None


@dataclass(slots=True)
class PageItems:
    """What one page yields. `rejects` are parts that could not be read at all."""

    items: list[MappedItem] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)


def map_page(content: Content, source: Source, language: str, card: Card | None = None, *, digest: str | None = None) -> PageItems:
    """The items of one page. `card` holds what a listing said about it."""
    found = PageItems()
    mapper = _Mapper(content, source, language, card or {}, digest or content.page.sha256)
    for part in _parts(content, source, found.rejects):
        found.items.append(mapper.map(part))
    return found


def _parts(content: Content, source: Source, rejects: list[Reject]) -> Iterator[Part]:
    if content.form == "jsonl":
        yield from _lines(content.page, source, rejects)
        return
    root: Any = content.selector if content.form in ("html", "xml") else None
    if content.form == "json" or _is_all_json(source):
        try:
            root = content.json
        except ValueError as error:
            rejects.append(Reject(source.name, content.url, None, "read", f"not JSON: {error}"))
            return
    if source.each is None:
        yield Part(root)
        return
    for number, node in enumerate(spread(select(root, source.each)), start=1):
        yield Part(node, f"#{number}")


def _lines(page: Page, source: Source, rejects: list[Reject]) -> Iterator[Part]:
    """A JSON value a line. Only a line feed ends a line: JSON strings may hold the separators that Unicode adds."""
    for number, line in enumerate(page.body.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        if not line.strip():
            continue
        anchor = f"#L{number}"
        try:
            yield Part(parse_json(line.decode("utf-8")), anchor)
        except ValueError as error:  # not JSON, or not UTF-8
            rejects.append(Reject(source.name, page.url + anchor, None, "read", f"line {number} is not JSON: {error}"))


def _is_all_json(source: Source) -> bool:
    """Whether only JSON can give what is declared: then a page in HTML is an error page, not an empty one."""
    rules: list[Selector | FieldRule] = [*source.fields.values(), *([source.each] if source.each else [])]
    return any(rule.json_ is not None for rule in rules) and not any(rule.css or rule.xpath for rule in rules)


class _Mapper:
    """Makes items of the parts of one page."""

    def __init__(self, content: Content, source: Source, language: str, card: Card, digest: str) -> None:
        self.content, self.source, self.language, self.card, self.digest = content, source, language, card, digest

    def map(self, part: Part) -> MappedItem:
        readings = self._readings(part)
        values = {name: reading.value for name, reading in readings.items()}
        declared_url = values.get("url")
        own_url = declared_url if isinstance(declared_url, str) and declared_url else None
        page_url = self.content.url + part.anchor if part.anchor and self.content.form == "jsonl" else self.content.url
        url = own_url or page_url
        item_id = own_url or self.content.url + (part.anchor or "")
        problem = next(((name, reading) for name, reading in readings.items() if reading.problem), None)
        if problem is None and self.source.yields == "documents" and self.source.body in ("main", "all") and self.content.form == "json":
            reason = f"body: {self.source.body} is for HTML and text, and this page is JSON"
            return MappedItem(readings, reject=Reject(self.source.name, url, item_id, "map", reason, field="body", rule=f"body: {self.source.body}"))
        if problem is None:
            values = {**values, "url": url}
            title = self._title(part, values)
            document_id = _without_controls(item_id if self.source.id == "url" else fill(self.source.id, {**values, "title": title}))
            if self.content.form == "jsonl" and own_url is None and self.source.id != "url":
                url = f"{self.content.url}#{document_id}"  # not the line's number: a line put in above would change every item below
            if document_id:
                return MappedItem(readings, draft=self._draft(part, document_id, url, title, {n: values[n] for n in readings}))
            reject = Reject(self.source.name, url, None, "map", f"the id {self.source.id} is empty", field="id", rule=self.source.id)
            return MappedItem(readings, reject=reject)
        name, reading = problem
        document_id = item_id if self.source.id == "url" else fill(self.source.id, values)
        reason = reading.problem or ""
        reject = Reject(self.source.name, url, document_id or None, "map", reason, field=reading.field or name, value=reading.found, rule=reading.rule.rule)
        return MappedItem(readings, reject=reject)

    def _readings(self, part: Part) -> dict[str, Reading]:
        """The page's own readings, and the card's where the page has nothing to say."""
        own = read_fields(self.source.fields, Scope(part.node, self.content, self.language))
        readings = {}
        for name, rule in self.source.declared_fields().items():
            carried, read = self.card.get(name), own.get(name)
            if read is not None and (read.matched or carried is None or not carried.matched):
                readings[name] = read
            elif carried is not None:
                readings[name] = carried
            else:
                problem = "required field is missing: no card of a listing leads here" if rule.required and rule.default is None else None
                readings[name] = Reading(rule.default, rule, problem=problem, field=name)
        return readings

    def _draft(self, part: Part, document_id: str, url: str, title: str, fields: dict[str, Any]) -> Draft:
        body: str | None = None
        markup: Markup = "html" if self.content.form in ("html", "xml") else "plain"
        if self.source.yields == "documents":
            body, markup = self._body(part, {**fields, "url": url, "title": title})
        return Draft(
            source=self.source.name,
            kind="document" if body is not None else "record",
            document_id=document_id,
            url=url,
            title=title,
            fields=fields,
            body=body,
            markup=markup,
            raw_sha256=self.digest,
            fetched_at=self.content.page.fetched_at,
        )

    def _body(self, part: Part, values: dict[str, Any]) -> tuple[str, Markup]:
        where, form = self.source.body, self.content.form
        if isinstance(where, Selector):
            matches = select(part.node, where)
            return "\n".join(map(markup_of, matches)), "plain" if where.json_ is not None else "html"
        if where not in ("main", "all"):
            return fill(where, values), "plain"
        if form == "jsonl":
            raise DeclarationError(
                f"body: {where} is for HTML and text; {self.content.url} is JSON", where=f"source {self.source.name}", hint='say which: body: "{text}"'
            )
        if form in ("html", "xml"):
            return (markup_of(part.node) if part.anchor else self.content.text), "html"
        return self.content.text, "markdown" if form == "markdown" else "plain"

    def _title(self, part: Part, values: dict[str, Any]) -> str:
        if self.source.title is not None:
            return fill(self.source.title, values)
        if isinstance(values.get("title"), str) and values["title"]:
            return str(values["title"])
        return own_title(part, self.content)


def _without_controls(text: str) -> str:
    return "".join(c for c in text if unicodedata.category(c) != "Cc")


def own_title(part: Part, content: Content) -> str:
    """What the page itself gives as a title: the first heading, else its <title>; for text files, else the file's name."""
    if isinstance(part.node, parsel.Selector):
        headings = part.node.css("h1, h2, h3" if part.anchor else "h1")
        for heading in [*headings, *([] if part.anchor else part.node.css("head > title, title")[:1])]:
            if text := element_text(heading.root):
                return text
        return ""
    if content.form == "markdown":
        return markdown_heading(content.text) or file_stem(content.url)
    return file_stem(content.url) if content.form == "plain" else ""


def markdown_heading(text: str) -> str | None:
    """The first heading of a Markdown text, outside of front matter and code fences."""
    lines = text.splitlines()
    if lines and lines[0].strip() == "---" and "---" in (ends := [line.strip() for line in lines[1:]]):
        lines = lines[ends.index("---") + 2 :]
    fence: str | None = None
    previous = ""
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
