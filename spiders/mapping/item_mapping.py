"""Maps the parts of one page to items: a draft for each, or a reject with its reason."""

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import parsel

from almanac.core.templates import fill
from almanac.core.unforeseen import FORESEEN, reason_of_defect
from almanac.schemas.declaration.field_rules import FieldRule, Selector
from almanac.schemas.declaration.source import FilesSource, RowSource, SiteSource, Source
from almanac.schemas.items import Draft, Markup, Reject
from almanac.spiders.mapping.fields import FieldReading, FieldScope, read_fields, told_hidden
from almanac.spiders.mapping.parts import Part, read_parts
from almanac.spiders.mapping.titles import own_title
from almanac.spiders.reading.content import Content
from almanac.spiders.reading.document import as_html, as_markdown
from almanac.spiders.reading.language import AUTO, UNDETERMINED, language_of, language_of_values
from almanac.spiders.selecting.embedded import find, why_hidden, why_no_prefix
from almanac.spiders.selecting.selectors import markup_of, text_of
from almanac.spiders.selecting.urls import joined

Card = dict[str, FieldReading]

_OWN = FieldRule.model_validate({"json": "@"})  # the rule reported for a field that the item itself names


@dataclass(frozen=True, slots=True)
class MappedItem:
    """One item and the readings it was made from; exactly one of `draft` and `reject` is set."""

    readings: dict[str, FieldReading]
    draft: Draft | None = None
    reject: Reject | None = None


@dataclass(slots=True)
class PageItems:
    """What one page yields. `rejects` are the parts that could not be read at all."""

    items: list[MappedItem] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)


def map_page(content: Content, source: Source, language: str, card: Card | None = None) -> PageItems:
    """Maps a page to its items. `card` holds the readings of the listing card that led to it."""
    page_items = PageItems()
    for item in map_parts(content, source, language, card):
        if isinstance(item, Reject):
            page_items.rejects.append(item)
        else:
            page_items.items.append(item)
    return page_items


def map_parts(
    content: Content, source: Source, language: str, card: Card | None = None
) -> Iterator[MappedItem | Reject]:
    """Maps a page one part at a time, in page order; yields a Reject for a part, or a rest of the page, that could not
    be read at all.
    """
    try:
        mapper = _Mapper(content, source, language, card or {})
        for part in read_parts(content, source):
            yield part if isinstance(part, Reject) else _mapped(part, mapper)
    except FORESEEN:
        raise
    except Exception as error:
        yield Reject(source.name, content.url, None, "map", reason_of_defect(error, url=content.url))


def _mapped(part: Part, mapper: "_Mapper") -> "MappedItem | Reject":
    """A part as an item; an exception that nobody foresaw costs this one, not those after it."""
    try:
        return mapper.map(part)
    except FORESEEN:
        raise
    except Exception as error:
        url = f"{mapper.content.url}{part.anchor or ''}"
        return Reject(mapper.source.name, url, None, "map", reason_of_defect(error, url=url))


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an item is: the URL that cites it, the id it has unless one is declared, and whether the URL is from a
    field of its own.
    """

    url: str
    item_id: str
    is_own: bool


class _Mapper:
    """Maps the parts of one page to items."""

    def __init__(self, content: Content, source: Source, language: str, card: Card) -> None:
        self.content, self.source, self.language, self.card = content, source, language, card
        self.digest = content.page.sha256
        # a row's page says nothing of it, and is another one once other rows have come or gone
        self.place = source.name if isinstance(source, RowSource) else content.url
        self.cites_parts = isinstance(source, FilesSource) or content.form in ("jsonl", "eml")
        self._ids: set[str] = set()

    def map(self, part: Part) -> MappedItem:
        language = language_of(self.content, self.language, self._sample(part))
        readings = self._readings(part, language)
        # the page has several, or says little: the record may have one
        if language == UNDETERMINED and self.source.yields == "records":
            language = language_of_values([reading.value for reading in readings.values()])
            readings = readings if language == UNDETERMINED else self._readings(part, language)
        values = {name: reading.value for name, reading in readings.items()}
        place = self._place(part, values)
        if problems := {name: reading for name, reading in readings.items() if reading.problem}:
            return MappedItem(readings, reject=self._problem(problems, place, values))
        if (unseen := self._unseen_body(part)) is not None:
            return MappedItem(
                readings, reject=self._reject(place.url, place.item_id, unseen, "body", f"body: {self.source.body}")
            )
        title = self._title(part, {**values, "url": place.url})
        document_id = _without_controls(
            place.item_id
            if self.source.id == "url"
            else self._declared_id(part, {**values, "url": place.url, "title": title})
        )
        if not document_id:
            reason = f"the id {self.source.id} is empty; there is {', '.join(list(values)[:10]) or 'no field'}"
            return MappedItem(
                readings,
                reject=self._reject(
                    place.url, None, reason, "id", self.source.id, breaks={"id": f"id: {self.source.id}"}
                ),
            )
        url = place.url
        is_first = document_id not in self._ids  # a second item of that id is quarantined and reported with its line
        self._ids.add(document_id)
        if (
            is_first
            and self.cites_parts
            and part.anchor
            and part.document is None
            and not place.is_own
            and self.source.id != "url"
        ):
            # not the line number: inserting a line would change every item below it
            url = f"{self.place}#{document_id}"
        return MappedItem(
            readings, draft=self._draft(part, document_id, url, title, self._fields(readings, url), language)
        )

    def _declared_id(self, part: Part, values: dict[str, Any]) -> str:
        """The id by the declared template; that of an attached file, unless it has it by its URL, with the file's
        name.
        """
        if isinstance(self.source, RowSource):
            return fill(self.source.id, part.own)
        filled, anchor = fill(self.source.id, values), part.anchor or ""
        return f"{filled}{anchor}" if filled and part.document is not None and anchor not in filled else filled

    def _sample(self, part: Part) -> Any:
        """What shows the language of a part: an attached file has its own, whatever that of its mail."""
        return part.node if part.document is None or self.language != AUTO else as_html(part.document)

    def _readings(self, part: Part, language: str) -> dict[str, FieldReading]:
        """The page's own readings, with the card's where the page's rule found nothing."""
        if self.source.takes_own_fields:
            return {name: FieldReading(value, _OWN, matched=True, field=name) for name, value in part.own.items()}
        own = read_fields(self.source.fields, FieldScope(part.node, self.content, language, self.source.workspace))
        readings = {}
        for name, rule in self.source.declared_fields().items():
            carried, read = self.card.get(name), own.get(name)
            if read is not None and (read.matched or carried is None or not carried.matched):
                readings[name] = read
            elif carried is not None:
                readings[name] = carried
            else:
                problem = (
                    "required field is missing: no card of a listing leads here"
                    if rule.required and rule.default is None
                    else None
                )
                readings[name] = FieldReading(
                    rule.default,
                    rule,
                    problem=problem,
                    field=name,
                    breaks=rule.conditions["required"] if problem else None,
                )
        return readings

    def _place(self, part: Part, values: dict[str, Any]) -> _Place:
        """The item's place: that of its `url` field if declared, else the page's. A file's own `url` value counts only
        if it is an http(s) URL.
        """
        page_url = self.content.url
        declared = values.get("url")
        if (
            isinstance(declared, str)
            and declared
            and page_url.startswith(("http://", "https://"))
            and not self.source.takes_own_fields
        ):
            declared = joined(self.content.base_url, declared) or declared  # reported as it is where it is no URL
        if (
            isinstance(declared, str)
            and declared
            and (not self.source.takes_own_fields or declared.startswith(("http://", "https://")))
        ):
            return _Place(declared, declared, is_own=True)
        here = page_url + (part.anchor or "")
        return _Place(here if self.cites_parts else page_url, here, is_own=False)

    def _fields(self, readings: dict[str, FieldReading], url: str) -> dict[str, Any]:
        fields = {name: reading.value for name, reading in readings.items()}
        if "url" in fields and not self.source.takes_own_fields:
            fields["url"] = url
        return fields

    def _problem(self, problems: dict[str, FieldReading], place: _Place, values: dict[str, Any]) -> Reject:
        """A reject for the first problem, which notes what else is broken."""
        document_id = place.item_id if self.source.id == "url" else fill(self.source.id, values)
        name, first = next(iter(problems.items()))
        breaks = (
            {reading.field or name: reading.breaks for name, reading in problems.items() if reading.breaks is not None}
            if first.breaks
            else {}
        )
        return self._reject(
            place.url,
            document_id or None,
            first.problem or "",
            first.field or name,
            first.rule.rule,
            first.offending,
            breaks,
        )

    def _reject(
        self,
        url: str,
        document_id: str | None,
        reason: str,
        field_name: str,
        rule: str,
        value: Any = None,
        breaks: dict[str, str] | None = None,
    ) -> Reject:
        return Reject(
            self.source.name,
            url,
            document_id,
            "map",
            reason,
            field=field_name,
            value=value,
            rule=rule,
            breaks=breaks or {},
        )

    def _draft(
        self, part: Part, document_id: str, url: str, title: str, fields: dict[str, Any], language: str
    ) -> Draft:
        body: str | None = None
        markup: Markup = "html" if self.content.form in ("html", "xml") or self.content.is_document else "plain"
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
            language=language if self.language == AUTO else None,
        )

    def _unseen_body(self, part: Part) -> str | None:
        """Why a document has no text, where its declared body is hidden from visitors, or has a prefix that the page
        does not declare; None otherwise.
        """
        where = self.source.body
        if self.source.yields != "documents" or self._is_fetched_document or part.document is not None:
            return None
        if not isinstance(where, Selector) or find(self.content, where, part.node):
            return None
        if (reason := why_no_prefix(self.content, where, part.node)) is not None:
            return reason
        reason = why_hidden(self.content, where, part.node)
        return None if reason is None else told_hidden(reason)

    def _body(self, part: Part, values: dict[str, Any]) -> tuple[str, Markup]:
        where, content = self.source.body, self.content
        if part.document is not None:
            return as_markdown(part.document), "paged"
        if isinstance(where, Selector) and not self._is_fetched_document:
            matches = find(content, where, part.node)
            return "\n".join(
                markup_of(match, hidden=where.hidden, leave_out=content.leave_out) for match in matches
            ), "plain" if where.json_ is not None else "html"
        if isinstance(where, str) and where not in ("main", "all"):
            return fill(where, values), "plain"
        if part.body is not None:
            return part.body, "markdown"
        if isinstance(part.node, parsel.Selector):
            return markup_of(part.node, leave_out=content.leave_out), "html"
        if content.is_document:  # all of it is content: a document has no navigation
            return as_markdown(content.document), "paged"
        if content.form in ("html", "xml"):
            # as parsed, where excessive nesting has been flattened
            return markup_of(content.selector, leave_out=content.leave_out), "html"
        return content.prose, "markdown" if content.form == "markdown" else "plain"

    @property
    def _is_fetched_document(self) -> bool:
        """Whether it is a document of a site, for whose pages body and title are declared: it has neither navigation
        nor their elements.
        """
        return self.content.is_document and isinstance(self.source, SiteSource)

    def _title(self, part: Part, values: dict[str, Any]) -> str:
        if part.document is not None:  # an attached file: the declared title, as the fields, is the mail's
            return part.title
        declared = self.source.title
        if isinstance(declared, Selector):
            matches = find(self.content, declared, part.node)
            texts = (text_of(match, declared.attr, hidden=declared.hidden) for match in matches)
            if text := next((str(text) for text in texts if text not in (None, "")), ""):
                return text
        elif declared is not None and ((filled := fill(declared, values)) or not self._is_fetched_document):
            return filled
        named = values.get("title")
        if isinstance(named, str | int | float) and not isinstance(named, bool) and str(named).strip():
            return str(named)
        return part.title or own_title(self.content, part.node, is_part=part.anchor is not None)


def _without_controls(text: str) -> str:
    return "".join(c for c in text if unicodedata.category(c) != "Cc")
