"""Evaluates a declared selector on a page: on its markup, its JSON body, or embedded data (JSON-LD, microdata, OpenGraph, scripts)."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import parsel
from jmespath.visitor import TreeInterpreter

from almanac.core.logs import get_logger
from almanac.schemas.declaration.fields import FieldRule, Script, Selector
from almanac.spiders.reading.content import Content
from almanac.spiders.selecting.scripts import named_data, read_data
from almanac.spiders.selecting.selectors import element_text, is_named_otherwise, search_json, select, undeclared_prefix, unseen

_log = get_logger("almanac.selectors")
_SCRIPTS = "descendant-or-self::script"
# Properties by which an object, such as a WebPage, holds what it is about (schema.org), or other objects (JSON-LD).
_HOLDING = ("mainEntity", "mainEntityOfPage", "@graph", "@included")
_PROPERTIES = "//meta[@content and (contains(@property, ':') or starts-with(@name, 'og:'))]"
# Embedded data by page; parsed once per page (or part of one), however many rules use it.
_READ: WeakKeyDictionary[Content, dict[Any, Any]] = WeakKeyDictionary()

_WARNED_OF: set[tuple[str, str]] = set()
_MAX_WARNED = 1000


def find(content: Content, where: Selector | FieldRule, node: Any = None, *, many: bool = True, hidden: bool = False) -> list[Any]:
    """What a selector finds in `node`, in page order; the list elements are those of `select`.

    `node` is an element or JSON value of the page, None for the whole page. Data named by `from` is looked up inside the node first, then on the page.
    CSS and XPath rules for an item that is a JSON value are evaluated on the page around it. Without `many`, matches are ordered for taking the first.
    What no visitor sees is left out, unless `hidden` or the rule asks for it or for an attribute (`select`).
    """
    if where.json_ is not None and where.from_ != "body":
        found = _find_in_data(content, where, node, many=many)
        return [] if found is None else [found]
    scope = _scope(content, where, node)
    found = select(scope, where, many=many, hidden=hidden or where.hidden or where.attr is not None)
    if not found and (reason := undeclared_prefix(scope, where)) is not None:
        _warn_once(where.css or where.xpath or "", reason, content)
    return found


def _warn_once(rule: str, reason: str, content: Content) -> None:
    """Warns of a rule of which nothing can be found; once in a process, since it may be meant for other documents."""
    if len(_WARNED_OF) < _MAX_WARNED and (rule, reason) not in _WARNED_OF:
        _WARNED_OF.add((rule, reason))
        _log.warning("rule_finds_nothing", rule=rule, url=content.url, reason=reason)


def why_no_prefix(content: Content, where: Selector | FieldRule, node: Any = None) -> str | None:
    """What is wrong with a prefix of a selector that the page does not declare, with what to write; None if all are declared."""
    return undeclared_prefix(_scope(content, where, node), where)


def is_missed_by_prefix(content: Content, where: Selector) -> bool:
    """Whether a selector finds nothing on a page of XML by its prefix alone: what it names is there, under another one."""
    return is_named_otherwise(_scope(content, where, None), where)


def why_hidden(content: Content, where: Selector | FieldRule, node: Any = None, *, many: bool = True) -> str | None:
    """How the first match with a text is hidden from visitors, for a rule that finds nothing: `display: none`; None if no match is hidden."""
    if where.json_ is not None or where.hidden or where.attr is not None:
        return None
    return unseen(_scope(content, where, node), where, many=many)


def _scope(content: Content, where: Selector | FieldRule, node: Any) -> Any:
    return root_of(content, where) if node is None or (where.json_ is None) != isinstance(node, parsel.Selector) else node


def described_by_json_ld(content: Content) -> list[dict[str, Any]]:
    """The objects of the page's JSON-LD, in page order."""
    page = _markup(content)
    return [] if page is None else _json_ld(page, content.base_url).each


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


def _find_in_data(content: Content, where: Selector | FieldRule, node: Any, *, many: bool) -> Any:
    page = _markup(content)
    expression = where.json_ or "@"
    if page is None:
        return None
    if isinstance(where.from_, Script):
        name = where.from_.script
        return search_json(expression, _once(content, ("script", name), lambda: named_data(_scripts(page), name)))
    if where.from_ == "opengraph":
        properties: dict[str, list[str]] = _once(content, "opengraph", lambda: _opengraph(page))
        return search_json(expression, {name: values if many and len(values) > 1 else values[0] for name, values in properties.items()})
    read = _json_ld if where.from_ == "json-ld" else _microdata
    # A card may contain its own data; otherwise one block on the page describes all cards.
    part = node if isinstance(node, parsel.Selector) and hasattr(node.root, "getparent") and node.root.getparent() is not None else page
    things: Things = _once(content, (where.from_, part.root), lambda: read(part, content.base_url))
    if part is page or things.each:
        return things.search(expression)
    around: Things = _once(content, (where.from_, page.root), lambda: read(page, content.base_url))
    return around.search(expression) if around.agree_on(expression) else None


def _once(content: Content, key: Any, read: Any) -> Any:
    known = _READ.setdefault(content, {})
    if key not in known:
        known[key] = read()
    return known[key]


@dataclass(frozen=True, slots=True)
class Things:
    """The objects that a page describes, in page order.

    Attributes:
        wholes: the blocks as written, with their `@graph`.
        inner: what the objects are about, where they hold it (`mainEntity`).
    """

    each: list[Any]
    wholes: list[Any] = field(default_factory=list)
    inner: list[Any] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "inner", list(_held_by(self.each)))

    def agree_on(self, expression: str) -> bool:
        """Whether all objects that have a value for the expression have the same one. With several products, none describes a card that has no data."""
        for things in (self.each, self.inner):
            if found := [value for thing in things if not _is_nothing(value := search_json(expression, thing))]:
                return all(value == found[0] for value in found)
        return True

    def search(self, expression: str) -> Any:
        """The first result of the expression: on each object, on the list of all, on the blocks; then on those that these are about, and on all of them.

        Then on all of these again, leniently (`_Lenient`).
        """
        scopes = [*self.each, self.each, *self.wholes]
        if self.inner:
            scopes += [*self.inner, [*self.each, *self.inner]]
        by_id = {thing["@id"]: thing for thing in (*self.inner, *self.each) if isinstance(thing.get("@id"), str)}
        for interpreter in (None, _Lenient(by_id)):
            for scope in scopes:
                found = search_json(expression, scope, interpreter)
                if not _is_nothing(found):
                    return found
        return None


class _Lenient(TreeInterpreter):
    """JMESPath for linked data: a single value equals a list of one, and an object given by its `@id` alone is resolved."""

    def __init__(self, by_id: dict[str, Any]) -> None:
        super().__init__()
        self._by_id = by_id

    def visit_field(self, node: Any, value: Any) -> Any:
        if isinstance(value, list):
            value = value[0] if value else None
        if isinstance(value, dict) and value.keys() == {"@id"}:
            value = self._by_id.get(value["@id"], value) if isinstance(value["@id"], str) else value
        return super().visit_field(node, value)

    def visit_index(self, node: Any, value: Any) -> Any:
        return super().visit_index(node, _as_list(value))

    def visit_flatten(self, node: Any, value: Any) -> Any:
        found = super().visit_flatten(node, value)
        return _as_list(self.visit(node["children"][0], value)) if found is None else found


def _as_list(value: Any) -> Any:
    return value if value is None or isinstance(value, list) else [value]


def _is_nothing(value: Any) -> bool:
    if isinstance(value, dict | list):
        return all(part is None for part in (value.values() if isinstance(value, dict) else value))
    return value is None or value == ""


def _scripts(page: parsel.Selector) -> list[tuple[str | None, str]]:
    return [(script.get("id"), script.text or "") for script in page.root.xpath(_SCRIPTS)]


def _json_ld(part: parsel.Selector, _base_url: str) -> Things:
    blocks = [read_data(s.text or "") for s in part.root.xpath(_SCRIPTS) if s.get("type", "").partition(";")[0].strip().lower() == "application/ld+json"]
    return Things([thing for block in blocks for thing in _flattened(block)], [block for block in blocks if isinstance(block, dict) and "@graph" in block])


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


def _held_by(things: list[Any]) -> Iterator[dict[str, Any]]:
    """The objects that describe what the things are about, wherever those hold them; a reference describes nothing."""
    held, outermost = list(reversed(things)), set(map(id, things))
    while held:
        thing = held.pop()
        if isinstance(thing, list):
            held += reversed(thing)
        elif isinstance(thing, dict):
            if id(thing) not in outermost and not thing.keys() <= {"@id", "@type"} and "@graph" not in thing:
                yield thing
            held += [thing[key] for key in reversed(_HOLDING) if key in thing]


def _opengraph(page: parsel.Selector) -> dict[str, list[str]]:
    """Values by property, in page order; `og:title` is also there as `title`. Tags in the body and with `name` for `property` count too."""
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
    types = [name.rstrip("/").rpartition("/")[2].rpartition("#")[2] for name in _as_list(value.get("type")) or []]
    named = {"@type": types[0] if len(types) == 1 else types or None, "@id": value.get("id")}
    return {**{key: name for key, name in named.items() if name}, **{name: _as_json_ld(entry) for name, entry in value["properties"].items()}}


@lru_cache(maxsize=1)
def _microdata_reader() -> Any:
    """extruct's microdata reader with this project's text rules. Imported lazily, since it loads an RDF library (0.15 s, 18 MB)."""
    from extruct.w3cmicrodata import LxmlMicrodataExtractor  # type: ignore[import-untyped]  # ships no types

    class Reader(LxmlMicrodataExtractor):  # type: ignore[misc]  # ships no types
        def _extract_textContent(self, node: Any) -> str:  # noqa: N802  # the base class's name
            return element_text(node)

        def _extract_property_value(self, node: Any, *args: Any, **keys: Any) -> Any:
            value = super()._extract_property_value(node, *args, **keys)
            return value if value or node.tag not in ("time", "data", "meter") else element_text(node)

    return Reader()
