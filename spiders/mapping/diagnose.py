"""Explains why a source yields nothing: selectors that match on no page, or content that scripts insert, and where its
data is.
"""

import json
import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

from pydantic import ValidationError

from almanac.schemas.declaration.field_rules import FieldRule, Selector
from almanac.schemas.declaration.render import Render
from almanac.schemas.declaration.source import SiteSource, Source
from almanac.schemas.errors import NoRecords
from almanac.schemas.items import Page, Reject
from almanac.spiders.mapping.fields import told_hidden
from almanac.spiders.reading.content import Content
from almanac.spiders.selecting.embedded import described_by_json_ld, why_hidden, why_no_prefix
from almanac.spiders.selecting.links import describe_unfollowed
from almanac.spiders.selecting.scripts import named_data
from almanac.spiders.selecting.selectors import element_text
from almanac.spiders.selecting.things import is_of_the_site
from almanac.spiders.selecting.urls import url_matcher

_HINT = "has the site changed? almanac test-url KB URL shows what each rule finds on a page"
_FILES_HINT = (
    "fields of files read columns and keys by name ({json: name}), and Markdown, HTML and DOCX by css or xpath"
)
_UNREAD_HINT = "mend these files, or leave them out of the glob; almanac test-url KB FILE shows what one yields"
_LOOKED_AT = 3  # pages

_ASSIGNED = re.compile(
    r"(?:\b(?:var|let|const)\s+|\b(?:window|self|globalThis)\s*\.\s*)([A-Za-z_$][\w$]*)\s*=\s*(?:JSON\s*\.\s*parse"
    r"|[\[{])"
)
_QUOTED = re.compile(r"""["'`]((?:https?://|/)[^"'`\s]{1,2000}+)["'`]""")
_ENDPOINT = re.compile(r"/api/|\.json\b|/graphql|/ajax/|/wp-json/")
_SCRIPT = "//script[not(@src) and (not(@type) or contains(@type, 'javascript') or @type = 'module')]"
_DATA = "//script[@id and contains(@type, 'json')]"
_SHOWN_KEYS = 6
_MAX_SEARCHED = 10_000  # values of one script's data
_MAX_NAMES = 50  # variables of a page
LITTLE_TEXT = 400  # characters: a page with less text is assumed to be rendered by scripts


def require_matches(
    source: Source,
    matched_total: dict[str, int],
    items_seen: int,
    pages: int,
    stored: Iterable[Page] = (),
    *,
    unfollowed: int = 0,
    unread: Sequence[Reject] = (),
) -> None:
    """Raises NoRecords if pages yielded no item at all, or a required field matched on none of them.

    A selector that matches nothing anywhere means that the site has changed, rather than a thousand bad items.

    Args:
        matched_total: number of items in which each field's rule matched.
        items_seen: number of drafts and rejects.
        pages: number of pages; with 0, nothing is checked.
        stored: the source's pages; the first few that should hold an item are searched for the cause.
        unfollowed: number of links on start pages that the crawl did not follow (`CrawlOutcome`).
        unread: those of the items that could not be read, so that no rule looked at them.
    """
    if not pages:
        return
    place = f"sources.{source.name}"
    is_site = isinstance(source, SiteSource)
    left = describe_unfollowed(source, unfollowed)
    reason = f". {left}" if left else ""
    hint, things = (_HINT, "pages") if is_site else (_FILES_HINT, "files")
    if not items_seen:
        match = getattr(source, "match", None)
        declared = ", ".join(
            f"{key}: {value}" for key, value in (("match", match), ("each", _written(source))) if value
        )
        finding = (
            f"{pages} {things} yield no item "
            f"({declared or ('no page is left to be one' if is_site else 'nothing is in them')})"
        )
        looked_at = list(islice((page for page in stored if _is_item(source, page)), _LOOKED_AT))
        reason += (_prefix_reason(source, source.each, looked_at) if source.each is not None else "") or _reason(
            source, looked_at
        )
        raise NoRecords(finding + reason, where=place, hint=hint)
    if unread and len(unread) == items_seen and any(rule.required for rule in source.declared_fields().values()):
        raise NoRecords(_unread(unread) + reason, where=place, hint=_HINT if is_site else _UNREAD_HINT)
    for name, rule in source.declared_fields().items():
        if rule.required and not matched_total.get(name):
            looked = items_seen - len(unread)
            finding = (
                f"required field '{name}': {rule.rule} matched nothing on {looked} of {looked} items ({pages} {things})"
            )
            finding += f"; {_unread(unread)}" if unread else ""
            looked_at = list(islice((page for page in stored if _is_item(source, page)), _LOOKED_AT))
            reason += (
                _prefix_reason(source, rule.each or rule, looked_at)
                or _hidden_reason(source, rule, looked_at)
                or _reason(source, looked_at)
            )
            raise NoRecords(finding + reason, where=f"{place}.fields.{name}", hint=hint)


def _unread(rejects: Sequence[Reject]) -> str:
    """How many items cannot be read, and why most of them: `3 items cannot be read; 2 of them, such as a.html: not
    JSON`.
    """
    (reason, count), *others = Counter(reject.reason for reject in rejects).most_common()
    url = next(reject.url for reject in rejects if reject.reason == reason)
    if len(rejects) == 1:
        return f"1 item cannot be read: {url}: {reason}"
    return f"{len(rejects)} items cannot be read{f'; {count} of them' if others else ''}, such as {url}: {reason}"


def _reason(source: Source, stored: Iterable[Page]) -> str:
    """The cause found on a page, as the end of a sentence; empty if none is found."""
    looked_at = islice((page for page in stored if _is_item(source, page)), _LOOKED_AT)
    explained = ((page.url, explain_empty(Content.from_page(page, source), source)) for page in looked_at)
    return next((f". {url}: {reason}" for url, reason in explained if reason), "")


def _prefix_reason(source: Source, where: Selector | FieldRule, stored: Iterable[Page]) -> str:
    """As `_reason`, where a selector has a prefix that the page does not declare."""
    contents = (content for page in stored if not (content := Content.from_page(page, source)).is_document)
    reasons = ((content.url, why_no_prefix(content, where)) for content in contents)
    return next((f". {url}: {reason}" for url, reason in reasons if reason is not None), "")


def _hidden_reason(source: Source, rule: FieldRule, stored: Iterable[Page]) -> str:
    """As `_reason`, where what the rule finds is hidden from visitors. Documents hide nothing."""
    where = rule.each or rule
    if where.css is None and where.xpath is None:
        return ""
    contents = (content for page in stored if not (content := Content.from_page(page, source)).is_document)
    reasons = ((content.url, why_hidden(content, where)) for content in contents)
    return next((f". {url}: {told_hidden(reason)}" for url, reason in reasons if reason is not None), "")


def _is_item(source: Source, page: Page) -> bool:
    return not (isinstance(source, SiteSource) and source.match) or url_matcher(source.match)(page.url)


def _written(source: Source) -> str | None:
    return None if source.each is None else source.each.css or source.each.xpath or source.each.json_


def explain_empty(content: Content, source: Source) -> str | None:
    """An explanation for the author of selectors that find nothing on this page; None unless scripts are the cause,
    which they are not of a drawn page.
    """
    if content.form != "html" or content.page.rendered or not content.selector.xpath("//script"):
        return None
    draws = f"; or have Chromium draw it, with {_proposed(source)}" if isinstance(source, SiteSource) else ""
    drawn = "the page has no such content without a browser: scripts put it there"
    if data := list(lists_in_scripts(content)):
        name, path, rows = max(data, key=lambda json_list: len(json_list[2]))
        keys = list(dict.fromkeys(key for row in rows for key in row))
        named = ", ".join(keys[:_SHOWN_KEYS]) + (", …" if len(keys) > _SHOWN_KEYS else "")
        written = f"'{path}'" if '"' in path else f'"{path}"'  # a valid YAML string: JMESPath quotes names with a space
        place = f'{{json: {written}, from: {{script: "{name}"}}}}'
        use = (
            f"read it with each: {place} and fields such as {{json: {_yaml_name(keys[0])}}}"
            if _takes_each(source)
            else f"read it at {place}"
        )
        return (
            f"{drawn}. Its data lies in the page itself, in the script data '{name}': {len(rows)} objects with "
            f"the keys {named}; {use}{draws}"
        )
    if described := next(_described(content), None):
        kind, keys = described
        shown = ", ".join(keys[:_SHOWN_KEYS]) + (", …" if len(keys) > _SHOWN_KEYS else "")
        use = f"read it with fields such as {{json: {_yaml_name(keys[0])}, from: json-ld}}"
        return f"{drawn}. The page describes a {kind} in JSON-LD, with the keys {shown}: {use}{draws}"
    if endpoints := [url for url in dict.fromkeys(_QUOTED.findall(_scripts_text(content))) if _ENDPOINT.search(url)]:
        return (
            f"{drawn}, from data that they fetch. The page names {', '.join(endpoints[:3])}: declare such a URL "
            f"as start_urls, with json rules{draws}"
        )
    if len(element_text(content.selector.root)) < LITTLE_TEXT:
        return (
            f"{drawn}. The browser's network panel shows where they get it: declare that URL as start_urls, with "
            f"json rules{draws}"
        )
    return None


def _described(content: Content) -> Iterator[tuple[str, list[str]]]:
    """Yields (type, keys) of what the page's JSON-LD says of its subject, and not of the site, its publisher or the way
    to the page.
    """
    waiting: deque[Any] = deque(described_by_json_ld(content))
    for _ in range(_MAX_SEARCHED):
        if not waiting:
            return
        node = waiting.popleft()
        if isinstance(node, list):
            waiting.extend(node)
        elif isinstance(node, dict):
            waiting.extend(value for value in [node.get("@graph")] if value)
            kinds = node.get("@type")
            kind = kinds[0] if isinstance(kinds, list) and kinds else kinds
            keys = [key for key, value in node.items() if not key.startswith("@") and value not in (None, "", [], {})]
            if isinstance(kind, str) and not is_of_the_site(node) and keys:
                yield kind, keys


def _proposed(source: SiteSource) -> str:
    """The section `render` that waits for what the source looks for."""
    for rule in (source.each, *source.fields.values()):
        engine = next((name for name in ("css", "xpath") if rule is not None and getattr(rule, name)), None)
        if engine is None or "::" in (selector := getattr(rule, engine)):
            continue
        with suppress(ValidationError):  # of an element that a browser cannot wait for
            waits = Render(wait_for=f"{engine}={selector}").wait_for
            return f"render: {{wait_for: {json.dumps(waits, ensure_ascii=False)}}}"
    return "render: true"


def _takes_each(source: Source) -> bool:
    return source.each is not None or source.yields == "records"


def lists_in_scripts(content: Content) -> Iterator[tuple[str, str, list[dict[str, Any]]]]:
    """Yields (name of the script data, JMESPath of a list in it, its objects)."""
    elements = content.selector.root.xpath("//script")
    scripts = [(element.get("id"), element.text or "") for element in elements]
    names = [f"#{element.get('id')}" for element in content.selector.root.xpath(_DATA)]
    names += list(dict.fromkeys(_ASSIGNED.findall(_scripts_text(content))))
    for name in names[:_MAX_NAMES]:
        for path, rows in lists_of_objects(named_data(scripts, name)):
            yield name, path, rows


def lists_of_objects(data: Any) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yields (JMESPath, objects) for lists of objects anywhere in the data, nearest to its root first."""
    waiting = deque([("", data)])
    for _ in range(_MAX_SEARCHED):
        if not waiting:
            return
        path, value = waiting.popleft()
        if isinstance(value, dict):
            waiting.extend((f"{path}.{identifier(key)}".lstrip("."), part) for key, part in value.items())
        elif isinstance(value, list) and value and all(isinstance(entry, dict) and entry for entry in value):
            yield f"{path}[]", value


def identifier(key: str) -> str:
    """A key as JMESPath names it."""
    return key if re.fullmatch(r"[A-Za-z_]\w*", key, re.ASCII) else json.dumps(key, ensure_ascii=False)


def _yaml_name(key: str) -> str:
    name = identifier(key)
    return name if name == key else f"'{name}'"


def _scripts_text(content: Content) -> str:
    return "\n".join(content.selector.xpath(f"{_SCRIPT}/text()").getall())
