"""Turns drafts into items: cleans fields, converts bodies to readable text, and fills templates."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import unquote, urlsplit

from almanac.core.templates import fill
from almanac.schemas.declaration.field_rules import FieldRule, Origin
from almanac.schemas.declaration.source import Source
from almanac.schemas.declaration.template import template_names
from almanac.schemas.declaration.workspace import Workspace
from almanac.schemas.items import PAGE_BREAK, PLACES, Draft, Item, Reject
from almanac.schemas.left_out import LeftOut
from almanac.transforms.clean import Clean, clean_text, clean_value
from almanac.transforms.html.page import html_to_markdown
from almanac.transforms.passages import passage_of
from almanac.transforms.workspaces import misfit

# what `json` reads out of attributes and elements, or not in a page of HTML at all
_PARSED = ("body", "microdata", "opengraph")


def prepare_items(
    drafts: Iterable[Draft],
    source: Source,
    clean: Clean,
    *,
    language: str,
    workspace: Workspace | None,
    left_out: LeftOut | None = None,
) -> Iterator[Item | Reject]:
    """Yields an item for each draft, in order; a Reject if no text is left, or if its workspace is no name
    (`transforms.workspaces`).

    Args:
        drafts: Items as mapped.
        source: Their source.
        clean: How texts are cleaned.
        language: Declared language, a BCP 47 tag or `auto`: the notation of values in the passages of records.
        workspace: What keeps workspaces apart; no passage shows it.
        left_out: Tallies what their texts are without.
    """
    for draft in drafts:
        if (
            workspace is not None
            and (
                reject := misfit(
                    draft, source, workspace, clean, entities=workspace.field in _with_entities(draft, source)
                )
            )
            is not None
        ):
            yield reject
            continue
        item = _prepare(draft, source, clean, left_out)
        if item.kind == "record":
            item = replace(
                item, passage=_passage(item, source, draft.language or language, workspace.field if workspace else None)
            )
        if item.text.strip():
            yield item
        else:
            reason = (
                "no text to embed"
                if draft.kind == "record"
                else "no main text found"
                if source.body == "main"
                else "no text found"
            )
            rule = (
                f"body: {source.body}"
                if draft.kind == "document"
                else f"text: {source.text}"
                if source.text is not None
                else "text"
            )
            yield Reject(draft.source, draft.url, draft.document_id, "clean", reason, "text", None, rule)


def with_length(items: Iterable[Item], source: Source) -> Iterable[Item]:
    """The items; documents with the `length` of their text, once nothing changes it any more, where the metadata are
    declared to have it.
    """
    if "length" not in source.document_facts:
        return items
    return (
        replace(item, metadata={**item.metadata, "length": len(item.text)}) if item.kind == "document" else item
        for item in items
    )


def _with_entities(draft: Draft, source: Source) -> set[str]:
    """Names of the fields in which entities may stand.

    An HTML parser has decoded those of elements and attributes. It leaves scripts as they are, and many systems escape
    the JSON there like the page around it. JSON of files and interfaces is no markup's part, and says `&amp;` where it
    means it as often as HTML; that is for `clean` alone to decide, as for any text.
    """
    if draft.markup != "html":
        return set(draft.fields)
    around = source.each.from_ if source.each is not None and source.each.json_ is not None else "body"
    return {name for name, rule in source.declared_fields().items() if _reads_script(rule, around)}


def _reads_script(rule: FieldRule, around: Origin) -> bool:
    """Whether a value, or one inside it, is JSON of a script; `around` names the data that the item is a part of,
    `body` where it is none.
    """
    where = rule.each or rule
    origin = around if where.from_ == "body" else where.from_
    is_script = where.json_ is not None and origin not in _PARSED and rule.type != "html"
    return is_script or any(
        _reads_script(inner, origin if where.json_ is not None else "body") for inner in (rule.fields or {}).values()
    )


def _prepare(draft: Draft, source: Source, clean: Clean, left_out: LeftOut | None) -> Item:
    rules = source.declared_fields()
    coded = _with_entities(draft, source)
    fields = {  # URLs are not cleaned like prose
        name: value
        if name in rules and rules[name].type == "url"
        else clean_value(value, clean, entities=name in coded)
        for name, value in draft.fields.items()
        if name != PLACES
    }
    made_of = template_names(source.title if isinstance(source.title, str) else "{title}")
    title = clean_text(draft.title, clean, entities=draft.markup != "html" or not coded.isdisjoint(made_of))
    known = {**fields, "url": draft.url, "title": title}
    places: list[list[Any]] = []
    if draft.kind == "record":
        text = _record_text(source, known, fields)
    elif draft.markup == "paged":
        text, places = _paged_text(draft.body or "", clean)
    else:
        text = _document_text(draft, source, clean, left_out)
    names = source.metadata if source.metadata is not None else list(draft.fields if source.takes_own_fields else rules)
    metadata = {name: known[name] for name in names if known.get(name) is not None}
    if "filename" in source.document_facts:
        metadata["filename"] = unquote(urlsplit(draft.url).path.rpartition("/")[2])
    if draft.language is not None:
        metadata.setdefault("language", draft.language)
    return Item(
        source=draft.source,
        kind=draft.kind,
        document_id=draft.document_id,
        url=draft.url,
        title=title,
        text=text,
        fields={**fields, PLACES: places} if places else fields,
        metadata=metadata,
        raw_sha256=draft.raw_sha256,
        fetched_at=draft.fetched_at,
        language=draft.language,
    )


def _passage(item: Item, source: Source, language: str, workspace: str | None) -> str | None:
    names = (
        source.metadata
        if source.metadata is not None
        else list(item.fields if source.takes_own_fields else source.declared_fields())
    )
    values = {**item.fields, "url": item.url, "title": item.title}
    return passage_of(source, values, names, item.title, item.text, language=language, workspace=workspace)


def _record_text(source: Source, known: dict[str, object], own: dict[str, object]) -> str:
    if source.text is not None:
        return fill(source.text, known)
    title = str(known["title"] or "")
    rules = source.declared_fields()
    names = [name for name, rule in rules.items() if rule.type in (None, "text", "html")]
    # a column `url` may differ from the item's URL
    texts = [own.get(name, known.get(name)) for name in (own if source.takes_own_fields else names)]
    parts = [title, *(t for t in texts if isinstance(t, str) and t and t != title)]
    return "\n".join(part for part in parts if part)


def _document_text(draft: Draft, source: Source, clean: Clean, left_out: LeftOut | None) -> str:
    body = draft.body or ""
    if draft.markup == "html":
        return clean_text(
            html_to_markdown(body, "main" if source.body == "main" else "all", left_out),
            clean,
            entities=False,
            code=True,
        )
    return clean_text(body, clean, code=draft.markup == "markdown")


def _paged_text(body: str, clean: Clean) -> tuple[str, list[list[Any]]]:
    """The text of a document in pages, and where each of them begins: [start in characters, unit, page]. A page without
    text has no place.
    """
    before, *pages = body.split(PAGE_BREAK)
    text = clean_text(before, clean, entities=False, code=True)
    places: list[list[Any]] = []
    for page in pages:
        line, _, written = page.partition("\n")
        cleaned = clean_text(written, clean, entities=False, code=True).strip("\n")
        if cleaned.strip():
            unit, _, name = line.partition("=")
            text += "\n\n" if text else ""
            places.append([len(text), unit, name if unit == "sheet" else int(name)])
            text += cleaned
    return text, places
