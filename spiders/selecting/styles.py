"""Reads style attributes, and of a page's own style sheets the plain rules, which are about one class or id: `.note {
display: none }`.

What a browser makes of all other rules together is not worked out. A plain rule does not count where another rule of
the page, about the same class or id among others, says the opposite: there a state decides, or the size of the screen.
"""

import logging
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import tinycss2  # type: ignore[import-untyped]  # ships no types

Winners = dict[str, str]  # the winning value by property

_PROPERTIES = frozenset(
    {"display", "content-visibility", "visibility", "opacity", "font-size", "font", "text-indent", "margin-left"}
    | {"left", "top", "right", "bottom", "transform", "translate", "position", "clip", "clip-path", "width", "height"}
    | {"overflow", "overflow-x", "max-width", "max-height", "will-change"}
    | {"animation", "animation-name", "transition", "transition-property"}
)
# Where none of these is written, nothing is hidden, and no sheet is parsed.
_HIDES = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|opacity\s*:\s*(?:0(?!\.0*[1-9])|\.0)"
    r"|font-size\s*:\s*(?:0(?!\.0*[1-9])|1px)|font\s*:[^;{}]{0,100}\b0(?:px)?\s*/|-\d{3,}|-\d\d+r?em|clip"
    r"|(?:width|height)\s*:\s*[01](?:px|\s*[;!}]|\s*$)",
    re.IGNORECASE,
)
_PLAIN = re.compile(r"([a-z][a-z0-9]*)?([.#][\w-]+)", re.IGNORECASE)
_NAMES = re.compile(r"[.#][\w-]+")
_EXCEPTED = re.compile(r"(?<=:not)\((?:[^()]|\([^()]*\))*\)", re.IGNORECASE)
_POINTED_AT = re.compile(":(?:hover|focus)", re.IGNORECASE)
_MAX_SHEETS = 1_000_000  # characters of all sheets of a page; 0.1 MB takes 0.1 s
_MAX_STYLE = 20_000  # characters of an attribute
_MAX_NESTING = 20
_OF_CLASS, _OF_ID, _OF_ATTRIBUTE = range(3)
_log = logging.getLogger("almanac.spiders")


class Declared(NamedTuple):
    """A declaration: property, value in lower case, whether it is `!important`."""

    name: str
    value: str
    important: bool


class _Ranked(NamedTuple):
    """A value by what makes it win over others."""

    important: bool
    origin: int
    number: int
    value: str


def declared_of(root: Any, *, anyhow: bool = False) -> dict[Any, Winners]:
    """What plain rules and style attributes declare, by element. `anyhow` reads sheets in which nothing hides, too:
    they may show what something else hides.
    """
    rules = _plain_rules(tuple(_sheets(root, anyhow=anyhow)))
    winners: dict[Any, Winners] = {}
    for element in root.iter("*") if rules else root.xpath("//*[@style]"):
        names = [f".{name}" for name in (element.get("class") or "").split()] if rules else []
        names += [f"#{element.get('id')}"] if element.get("id") else []
        best: dict[str, _Ranked] = {}
        for rule in (rules.get(key) for name in names for key in (name, f"{element.tag}{name}")):
            for name, ranked in (rule or {}).items():
                best[name] = max(ranked, best.get(name, ranked))
        for declaration in inline(element.get("style") or ""):
            ranked = _Ranked(declaration.important, _OF_ATTRIBUTE, 0, declaration.value)
            best[declaration.name] = max(ranked, best.get(declaration.name, ranked))
        if best:
            winners[element] = {name: ranked.value for name, ranked in best.items()}
    return winners


@lru_cache(maxsize=4096)
def inline(style: str) -> tuple[Declared, ...]:
    """The declarations of a style attribute that matter here."""
    return tuple(_declarations(_parsed(style[:_MAX_STYLE]))) if style else ()


def _sheets(root: Any, *, anyhow: bool) -> list[str]:
    texts = [
        element.text
        for element in root.iter("style")
        if element.text
        and (element.get("type") or "text/css").strip().lower() == "text/css"
        and not _media(element.get("media") or "all").isdisjoint(("all", "screen"))
        and next(element.iterancestors("noscript", "template", "svg"), None) is None
    ]
    if not anyhow and not any(map(_HIDES.search, texts)):
        return []
    if (size := sum(map(len, texts))) > _MAX_SHEETS:
        _log.warning(
            "a page has %d characters of style sheets, more than are judged: nothing counts as hidden by them", size
        )
        return []
    return texts


@lru_cache(maxsize=16)  # the pages of a site share their sheets
def _plain_rules(sheets: tuple[str, ...]) -> dict[str, dict[str, _Ranked]]:
    """The declarations of plain rules by what they are about (`.note`, `p.note`, `#note`), but those that another rule
    contradicts.
    """
    rules: dict[str, dict[str, _Ranked]] = {}
    others: dict[tuple[str, str], set[str]] = {}  # name and property → values of rules that are not plain
    number = 0
    for selectors, declared, is_plain in (rule for sheet in sheets for rule in _rules(_parsed_sheet(sheet), 0)):
        for selector in map(str.strip, _EXCEPTED.sub("", selectors).split(",")):
            plain = _PLAIN.fullmatch(selector) if is_plain else None
            number += 1
            for declaration in declared:
                if plain is not None:
                    origin = _OF_ID if plain[2][0] == "#" else _OF_CLASS
                    ranked = _Ranked(declaration.important, origin, number, declaration.value)
                    known = rules.setdefault((plain[1] or "").lower() + plain[2], {})
                    known[declaration.name] = max(ranked, known.get(declaration.name, ranked))
                elif not _POINTED_AT.search(selector):
                    for name in _NAMES.findall(selector):
                        others.setdefault((name, declaration.name), set()).add(declaration.value)
    return {
        key: {
            name: ranked
            for name, ranked in declared.items()
            if others.get((_NAMES.findall(key)[-1], name), {ranked.value}) <= {ranked.value}
        }
        for key, declared in rules.items()
    }


def _rules(nodes: Iterable[Any], depth: int) -> Iterator[tuple[str, list[Declared], bool]]:
    """Yields selectors, declarations, and whether the rule stands by itself: in no other, under no condition."""
    for node in nodes if depth < _MAX_NESTING else ():
        if node.type not in ("qualified-rule", "at-rule") or node.content is None:
            continue
        is_media = node.type == "at-rule" and node.lower_at_keyword == "media"
        if is_media and all(query.startswith("print") for query in _media(_written(node.prelude))):
            continue
        inner = _parsed(node.content)
        if node.type == "qualified-rule":
            selectors = _written(node.prelude)
            yield selectors, list(_declarations(inner)), depth == 0
        yield from ((selectors, declared, False) for selectors, declared, _ in _rules(inner, depth + 1))


def _media(queries: str) -> set[str]:
    """The media queries of a list, in lower case, without an `only`, which says nothing."""
    return {query.strip().removeprefix("only ").strip() for query in queries.lower().split(",")}


def _parsed_sheet(css: str) -> list[Any]:
    try:
        return list(tinycss2.parse_stylesheet(css, skip_comments=True, skip_whitespace=True))
    except (ValueError, OverflowError, RecursionError):  # a number of thousands of digits, endless nesting
        return []


def _parsed(css: Any) -> list[Any]:
    try:
        return list(tinycss2.parse_blocks_contents(css, skip_comments=True, skip_whitespace=True))
    except (ValueError, OverflowError, RecursionError):
        return []


def _declarations(nodes: Iterable[Any]) -> Iterator[Declared]:
    for node in nodes:
        if node.type == "declaration" and node.lower_name in _PROPERTIES:
            yield Declared(node.lower_name, _written(node.value).lower(), node.important)


def _written(tokens: list[Any]) -> str:
    """The tokens as text; empty if they are nested too deep."""
    try:
        return str(tinycss2.serialize(tokens)).strip()
    except RecursionError:
        return ""
