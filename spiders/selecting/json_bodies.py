"""Bodies that a source's rules read as JSON, and those among them that are none: an answer cut short, an error page, an
error in JSON.
"""

import json

from almanac.schemas.declaration.field_rules import FieldRule, Selector
from almanac.schemas.declaration.source import FilesSource, SiteSource, Source
from almanac.spiders.reading.content import Content
from almanac.spiders.selecting.selectors import search_json

_ERRORS = ("error", "errors", "fault", "exception")  # what APIs call it
_SHOWN = 200  # characters
_TEXTS = ("html", "xml", "plain")  # what an error page may be


def problem_of_json(content: Content) -> str | None:
    """Why a body is no JSON; None if it is."""
    try:
        _ = content.json
    except ValueError as error:
        return f"not JSON: {error}"
    return None


def error_in(content: Content, source: SiteSource, *, as_listing: bool, as_item: bool) -> str | None:
    """The error that an API tells with status 200, where its items or cards should be; None where it has some, or tells
    none.

    Of a page that is an item itself, nobody knows: it may tell of errors beside its fields.
    """
    cards = source.listing.each if as_listing and source.listing is not None else None
    if as_item and source.each is None:
        return None
    rules = [rule for rule in (cards, source.each if as_item else None) if rule is not None and rule.reads_body]
    error = next(filter(None, map(content.json.get, _ERRORS)), None) if isinstance(content.json, dict) else None
    if error is None or not rules or any(search_json(rule.json_ or "", content.json) for rule in rules):
        return None
    message = json.dumps(error, ensure_ascii=False)
    if source.request is not None:  # a server may repeat the key that it does not know
        message = source.request.masked(message)
    return f"an error in place of {rules[0].json_}: {message[:_SHOWN]}"


def why_not_json(content: Content, source: Source) -> str | None:
    """Why a page cannot be read, of which nothing but JSON is read; None if it can, or if something else is."""
    return None if content.form != "json" and not _reads_json_alone(content, source) else problem_of_json(content)


def begins_as_json(content: Content) -> bool:
    """Whether a body begins as a JSON object or list, so that one that is no JSON was cut short."""
    return content.text.lstrip("\ufeff \t\r\n").startswith(("{", "["))


def reads_json(source: SiteSource, *, as_listing: bool, as_item: bool) -> bool:
    """Whether a rule reads JSON bodies, of those for pages that lead on (cards, pagination) or for pages of items."""
    has_json_cards = source.listing is not None and source.listing.each.reads_body
    return (as_listing and (has_json_cards or source.pagination.json_ is not None)) or (
        as_item and not _has_own_text(source) and any(rule.reads_body for rule in _rules(source))
    )


def turned_from_json(content: Content, stored: Content) -> bool:
    """Whether a page in HTML or text was JSON when it was stored."""
    return content.form in _TEXTS and stored.form in ("json", *_TEXTS) and problem_of_json(stored) is None


def _rules(source: Source) -> list[Selector | FieldRule]:
    """The rules that read whole pages: fields read what `each` finds, which may be data within a page."""
    if source.each is not None and not source.each.reads_body:
        return [source.each]
    return [*source.fields.values(), *([source.each] if source.each is not None else [])]


def _has_own_text(source: Source) -> bool:
    """Whether the items' text is the pages' own, and JSON only adds to it, as front matter does, which other files of a
    folder lack.
    """
    is_own = source.body in ("main", "all") or (isinstance(source.body, Selector) and not source.body.reads_body)
    return source.yields == "documents" and source.each is None and is_own


def _reads_json_alone(content: Content, source: Source) -> bool:
    """Whether every rule needs a JSON body, so that a page in HTML must be an error page. Of questions and answers,
    rules read the pairs.
    """
    if (
        (isinstance(source, FilesSource) and source.format == "faq")
        or _has_own_text(source)
        or content.form not in _TEXTS
    ):
        return False
    rules = _rules(source)
    return any(rule.reads_body for rule in rules) and not any(rule.css or rule.xpath for rule in rules)
