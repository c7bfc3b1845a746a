"""Evaluates a declared selector on a page: on its markup, its JSON body, or embedded data (JSON-LD, microdata,
OpenGraph, scripts).
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any
from weakref import WeakKeyDictionary

import parsel

from almanac.core.logs import get_logger
from almanac.schemas.declaration.field_rules import FieldRule, Script, Selector
from almanac.spiders.reading.content import Content
from almanac.spiders.selecting.scripts import named_data, read_data
from almanac.spiders.selecting.selectors import (
    element_text,
    is_named_otherwise,
    search_json,
    select,
    undeclared_prefix,
    unseen,
)
from almanac.spiders.selecting.things import Subject, Subjects, Things, as_list

_log = get_logger("almanac.selectors")
_SCRIPTS = "descendant-or-self::script"
_PROPERTIES = "//meta[@content and (contains(@property, ':') or starts-with(@name, 'og:'))]"
# Embedded data by page; parsed once per page (or part of one), however many rules use it.
_READ: WeakKeyDictionary[Content, dict[Any, Any]] = WeakKeyDictionary()

_WARNED_OF: set[tuple[str, str]] = set()
_MAX_WARNED = 1000


def find(
    content: Content,
    where: Selector | FieldRule,
    node: Any = None,
    *,
    many: bool = True,
    hidden: bool = False,
    about: Subjects | None = None,
) -> list[Any]:
    """What a selector finds in `node`, in page order; the list elements are those of `select`.

    `node` is an element or JSON value of the page, None for the whole page. Data named by `from` is looked up inside
    the node first, then on the page: in the thing of `about`, or in the first that the selector finds something in. CSS
    and XPath rules for an item that is a JSON value are evaluated on the page around it. Without `many`, matches are
    ordered for taking the first. What no visitor sees is left out, and tallied, unless `hidden` or the rule asks for it
    or for an attribute (`select`).
    """
    if where.json_ is not None and where.from_ != "body":
        json_value = _find_in_data(content, where, node, about or {}, many=many)
        return [] if json_value is None else [json_value]
    scope = _scope(content, where, node)
    matches = select(
        scope, where, many=many, hidden=hidden or where.hidden or where.attr is not None, leave_out=content.leave_out
    )
    if not matches and (reason := undeclared_prefix(scope, where)) is not None:
        _warn_once(where.css or where.xpath or "", reason, content)
    return matches


def _warn_once(rule: str, reason: str, content: Content) -> None:
    """Warns of a rule of which nothing can be found; once in a process, since it may be meant for other documents."""
    if len(_WARNED_OF) < _MAX_WARNED and (rule, reason) not in _WARNED_OF:
        _WARNED_OF.add((rule, reason))
        _log.warning("rule_finds_nothing", rule=rule, url=content.url, reason=reason)


def why_no_prefix(content: Content, where: Selector | FieldRule, node: Any = None) -> str | None:
    """What is wrong with a prefix of a selector that the page does not declare, with what to write; None if all are
    declared.
    """
    return undeclared_prefix(_scope(content, where, node), where)


def is_missed_by_prefix(content: Content, where: Selector) -> bool:
    """Whether a selector finds nothing on a page of XML by its prefix alone: what it names is there, under another
    one.
    """
    return is_named_otherwise(_scope(content, where, None), where)


def why_hidden(content: Content, where: Selector | FieldRule, node: Any = None, *, many: bool = True) -> str | None:
    """How the first match with a text is hidden from visitors, for a rule that finds nothing: `display: none`; None if
    no match is hidden.
    """
    if where.json_ is not None or where.hidden or where.attr is not None:
        return None
    return unseen(_scope(content, where, node), where, many=many)


def _scope(content: Content, where: Selector | FieldRule, node: Any) -> Any:
    return (
        root_of(content, where) if node is None or (where.json_ is None) != isinstance(node, parsel.Selector) else node
    )


def described_by_json_ld(content: Content) -> list[dict[str, Any]]:
    """The objects of the page's JSON-LD, in page order."""
    return things_on(content, "json-ld").each


def things_on(content: Content, origin: str) -> Things:
    """The things that a page describes in its `json-ld` or `microdata`."""
    page = _markup(content)
    return Things([]) if page is None else _things(content, origin, page)


def root_of(content: Content, where: Selector | FieldRule) -> Any:
    """The page as `where` reads it: its JSON body or its markup; None if it has none."""
    if where.json_ is None:
        return _markup(content)
    try:
        return content.json
    except ValueError:
        return None


def _markup(content: Content) -> parsel.Selector | None:
    return content.selector if content.has_markup else None


def _find_in_data(content: Content, where: Selector | FieldRule, node: Any, about: Subjects, *, many: bool) -> Any:
    page = _markup(content)
    expression = where.json_ or "@"
    if page is None:
        return None
    if isinstance(where.from_, Script):
        name = where.from_.script
        return search_json(expression, _once(content, ("script", name), lambda: named_data(_scripts(page), name)))
    if where.from_ == "opengraph":
        properties: dict[str, list[str]] = _once(content, "opengraph", lambda: _opengraph(page))
        return search_json(
            expression, {name: values if many and len(values) > 1 else values[0] for name, values in properties.items()}
        )
    subject = about.get(where.from_) or subjects_of(content, [where], node)[where.from_]
    return subject.find(expression)


def subjects_of(
    content: Content, rules: Iterable[Selector | FieldRule], node: Any = None, around: Subjects | None = None
) -> dict[str, Subject]:
    """What the fields of one record are read from, by the kind of data, `json-ld` and `microdata`, as far as rules read
    these.

    A node may hold data of its own. Otherwise what the record is read from counts that it is a part of (`around`), or
    the things of the page describe it.
    """
    wanted: dict[str, list[tuple[str, bool]]] = {}
    for where, is_required in _looking(rules):
        if where.from_ in ("json-ld", "microdata"):
            wanted.setdefault(str(where.from_), []).append((where.json_ or "@", is_required))
    page, subjects = _markup(content), dict(around or {})
    if page is None:
        return subjects
    for origin, expressions in wanted.items():
        part = (
            node
            if isinstance(node, parsel.Selector)
            and hasattr(node.root, "getparent")
            and node.root.getparent() is not None
            else page
        )
        is_shared = part is not page and not _things(content, origin, part).each
        if is_shared and origin in subjects:
            continue
        things = _things(content, origin, page if is_shared else part)
        subject: Subject = _once(content, (origin, things, tuple(expressions)), partial(things.subject_of, expressions))
        subjects[origin] = replace(subject, is_shared=True) if is_shared else subject.of_part(node)
    return subjects


def _looking(rules: Iterable[Selector | FieldRule]) -> Iterator[tuple[Selector | FieldRule, bool]]:
    """The selectors by which rules, and those nested in them, look for something, each with whether it has to find
    it.
    """
    for rule in rules:
        if isinstance(rule, Selector):
            yield rule, False
            continue
        yield rule.each or rule, rule.required
        yield from _looking((rule.fields or {}).values())


def _things(content: Content, origin: str, part: parsel.Selector) -> Things:
    read = _json_ld if origin == "json-ld" else _microdata
    things: Things = _once(content, (origin, part.root), partial(read, part, content.base_url))
    return things


def _once(content: Content, key: Any, read: Any) -> Any:
    known = _READ.setdefault(content, {})
    if key not in known:
        known[key] = read()
    return known[key]


def _scripts(page: parsel.Selector) -> list[tuple[str | None, str]]:
    return [(script.get("id"), script.text or "") for script in page.root.xpath(_SCRIPTS)]


def _json_ld(part: parsel.Selector, _base_url: str) -> Things:
    blocks = [
        read_data(s.text or "")
        for s in part.root.xpath(_SCRIPTS)
        if s.get("type", "").partition(";")[0].strip().lower() == "application/ld+json"
    ]
    return Things(
        [thing for block in blocks for thing in _flattened(block)],
        [block for block in blocks if isinstance(block, dict) and "@graph" in block],
    )


def _flattened(block: Any) -> Iterator[dict[str, Any]]:
    """The objects of a block: itself, its list entries, or those of its `@graph`."""
    if isinstance(block, list):
        for entry in block:
            yield from _flattened(entry)
    elif isinstance(block, dict):
        if isinstance(block.get("@graph"), dict | list):
            yield from _flattened(block["@graph"])
        else:
            yield block


def _opengraph(page: parsel.Selector) -> dict[str, list[str]]:
    """Values by property, in page order; `og:title` is also there as `title`. Tags in the body and with `name` for
    `property` count too.
    """
    properties: dict[str, list[str]] = {}
    for meta in page.root.xpath(_PROPERTIES):
        name = (meta.get("property") or meta.get("name")).strip().lower()
        for key in (name, name.removeprefix("og:")) if name.startswith("og:") else (name,):
            properties.setdefault(key, []).append(meta.get("content"))
    return properties


def _microdata(part: parsel.Selector, base_url: str) -> Things:
    try:
        items = _microdata_reader().extract_items(part.root, base_url)
    except (RecursionError, ValueError):  # endless nesting, or a reference that is not a URL
        items = []
    return Things([thing for item in items if isinstance(thing := _as_json_ld(item), dict)])


def _as_json_ld(value: Any) -> Any:
    """A microdata item in the shape of JSON-LD: `@type` without its vocabulary, beside the properties."""
    if isinstance(value, list):
        return [_as_json_ld(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    if "properties" not in value:
        return value.get("value")
    types = [name.rstrip("/").rpartition("/")[2].rpartition("#")[2] for name in as_list(value.get("type")) or []]
    named = {"@type": types[0] if len(types) == 1 else types or None, "@id": value.get("id")}
    return {
        **{key: name for key, name in named.items() if name},
        **{name: _as_json_ld(entry) for name, entry in value["properties"].items()},
    }


@lru_cache(maxsize=1)
def _microdata_reader() -> Any:
    """extruct's microdata reader with this project's text rules. Imported lazily, since it loads an RDF library (0.15
    s, 18 MB).
    """
    from extruct.w3cmicrodata import LxmlMicrodataExtractor  # type: ignore[import-untyped]  # ships no types

    class Reader(LxmlMicrodataExtractor):  # type: ignore[misc]  # ships no types
        def _extract_textContent(self, node: Any) -> str:  # noqa: N802  # the base class's name
            return element_text(node)

        def _extract_property_value(self, node: Any, *args: Any, **keys: Any) -> Any:
            value = super()._extract_property_value(node, *args, **keys)
            return value if value or node.tag not in ("time", "data", "meter") else element_text(node)

    return Reader()
