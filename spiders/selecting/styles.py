"""Reads the style sheets of a page, as far as they decide what a browser shows: which properties, by which rules, on a
desktop screen.
"""

import logging
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import cssselect2  # type: ignore[import-untyped]  # ships no types
import tinycss2  # type: ignore[import-untyped]  # ships no types

# Properties by what they can hide with. A group in which nothing on the page hides is not looked at.
GROUPS = {
    **dict.fromkeys(("display", "content-visibility"), "display"),
    "visibility": "visibility",
    "opacity": "opacity",
    **dict.fromkeys(("font-size", "font"), "size"),
    **dict.fromkeys(
        ("left", "top", "right", "bottom", "margin-left", "text-indent", "transform", "translate", "position"), "place"
    ),
    **dict.fromkeys(
        ("clip", "clip-path", "overflow", "overflow-x", "overflow-y", "width", "height", "max-width", "max-height"),
        "clip",
    ),
    **dict.fromkeys(
        ("animation", "animation-name", "transition", "transition-property", "transition-duration", "will-change"),
        "motion",
    ),
}
# Where none of these is written, nothing is hidden, and no sheet is parsed.
_HIDES = re.compile(
    r"display\s*:\s*none|content-visibility\s*:\s*hidden|visibility\s*:\s*(?:hidden|collapse)|opacity\s*:\s*(?:0(?"
    r"!\.0*[1-9])|\.0)"
    r"|font-size\s*:\s*(?:0(?!\.0*[1-9])|1px)|font\s*:[^;{}]{0,100}\b0(?:px)?\s*/|-\d{3,}|-\d\d+r?em|clip|(?:w"
    r"idth|height)\s*:\s*[01](?:px|\s*[;!}]|\s*$)",
    re.IGNORECASE,
)
_MAX_SHEETS = 1_000_000  # characters of all sheets of a page; 0.1 MB takes 0.1 s
_MAX_PRELUDE = 20_000  # characters
_MAX_NESTING = 20
_WIDTH, _HEIGHT, _EM = 1280, 800, 16  # of the screen, in pixels
_LOCK_STATE = re.compile(r"\.no[-_]?js\b|:not\(\s*\.js\b", re.IGNORECASE)
_DEED = re.compile(r":(hover|focus|focus-within|focus-visible|active|target|checked)(?![\w-])", re.IGNORECASE)
_ALWAYS_ON = ("(color)", "(hover)", "(hover: hover)", "(any-hover: hover)", "(pointer: fine)", "(any-pointer: fine)",
"(orientation: landscape)", "(scripting)",
              "(scripting: enabled)", "(prefers-reduced-motion: no-preference)", "(prefers-color-scheme: light)")  # fmt: skip  # noqa: E501
_LIMIT = re.compile(r"\((min|max)-(width|height)\s*:\s*([\d.]+)(px|em|rem)\)")
_RANGE = re.compile(r"\((?:([\d.]+)(px|em|rem)\s*([<>]=?)\s*)?(width|height)(?:\s*([<>]=?)\s*([\d.]+)(px|em|rem))?\)")
_log = logging.getLogger("almanac.spiders")


@dataclass(frozen=True, slots=True)
class Declared:
    """A declaration: property, value in lower case, whether it is `!important`."""

    name: str
    value: str
    important: bool


@dataclass(frozen=True)
class Rule:
    """The declarations of a rule that matter here, and where it stands: `layer` is the number of its cascade layer,
    None outside of layers.
    """

    prelude: str
    declared: tuple[Declared, ...]
    layer: int | None

    @cached_property
    def selectors(self) -> list[Any]:
        """Its selectors, compiled; none if they are invalid, or undone by a script as soon as the page is read
        (`.no-js`).
        """
        return [] if _LOCK_STATE.search(self.prelude) else _compiled(self.prelude)

    @cached_property
    def deeds(self) -> list[Any]:
        """Its selectors as they are once a visitor points, clicks or ticks (`:hover`, `:target`, `:checked`); none if
        it has no such state.
        """
        if not _DEED.search(self.prelude):
            return []
        done = _DEED.sub(lambda state: "[id]" if state[1].lower() == "target" else ":not(_)", self.prelude)
        return [selector for selector in _compiled(done) if selector.id or selector.class_name or selector.local_name]


@dataclass(frozen=True, slots=True)
class Sheet:
    """The rules of one style sheet in order, and the number of cascade layers."""

    rules: tuple[Rule, ...]
    layers: int


def sheets_of(root: Any, *, anyhow: bool = False) -> list[Sheet]:
    """The style sheets in the page's `style` elements that apply on a screen, in order.

    None if they are too large to judge, or if nothing in them hides, unless `anyhow`: a sheet may also show what
    something else hides.
    """
    elements = [
        e
        for e in root.iter("style")
        if e.text and (e.get("type") or "text/css").strip().lower() == "text/css" and applies(e.get("media") or "all")
    ]
    texts = [
        element.text for element in elements if next(element.iterancestors("noscript", "template", "svg"), None) is None
    ]
    if not anyhow and not any(_HIDES.search(text) for text in texts):
        return []
    if (size := sum(map(len, texts))) > _MAX_SHEETS:
        _log.warning(
            "a page has %d characters of style sheets, more than are judged: nothing counts as hidden by them", size
        )
        return []
    return [_sheet(text) for text in texts]


def may_hide(style: str) -> bool:
    """Whether a style attribute may hide its element."""
    return _HIDES.search(style) is not None


@lru_cache(maxsize=4096)
def inline(style: str) -> tuple[Declared, ...]:
    """The declarations of a style attribute that matter here."""
    return tuple(_declarations(_parsed(tinycss2.parse_blocks_contents, style[:_MAX_PRELUDE])))


@lru_cache(maxsize=16)  # the pages of a site share their sheets
def _sheet(text: str) -> Sheet:
    layers: list[str] = []
    return Sheet(tuple(_rules(_parsed(tinycss2.parse_stylesheet, text), "", None, layers, 0)), len(layers))


def _rules(nodes: Iterable[Any], around: str, layer: int | None, layers: list[str], depth: int) -> Iterator[Rule]:
    """The rules among parsed nodes, those of nested rules and of at-rules that apply included. `around` is the selector
    of the rule that they are nested in.
    """
    if depth > _MAX_NESTING:
        return
    own: list[Any] = []
    for node in nodes:
        if node.type == "declaration":
            own.append(node)
        elif node.type == "qualified-rule":
            prelude = _nested(_written(node.prelude), around)
            if prelude and len(prelude) <= _MAX_PRELUDE:
                yield from _rules(
                    _parsed(tinycss2.parse_blocks_contents, node.content), prelude, layer, layers, depth + 1
                )
        elif node.type == "at-rule":
            condition = _written(node.prelude).lower()
            name = node.lower_at_keyword
            if name == "layer":
                names = [part.strip() for part in condition.split(",")] if condition else [f"#{len(layers)}"]
                layers += [part for part in names if part not in layers]
                inner: int | None = layers.index(names[-1])
            else:
                inner = layer
            applying = (
                name == "layer"
                or (name == "media" and applies(condition))
                or (name == "supports" and not condition.startswith("not"))
            )
            if node.content is not None and applying:
                yield from _rules(
                    _parsed(tinycss2.parse_blocks_contents, node.content), around, inner, layers, depth + 1
                )
    if around and (declared := tuple(_declarations(own))):
        yield Rule(around, declared, layer)


def _parsed(parse: Callable[..., list[Any]], css: Any) -> list[Any]:
    try:
        return parse(css, skip_comments=True, skip_whitespace=True)
    except (ValueError, OverflowError, RecursionError):  # a number of thousands of digits, endless nesting
        return []


def _nested(prelude: str, around: str) -> str:
    if not (prelude and around):
        return prelude
    parent = f":is({around})"
    return ", ".join(part.replace("&", parent) if "&" in part else f"{parent} {part}" for part in prelude.split(","))


def _declarations(nodes: Iterable[Any]) -> Iterator[Declared]:
    for node in nodes:
        if node.type == "declaration" and node.lower_name in GROUPS:
            yield Declared(node.lower_name, _written(node.value).lower(), node.important)


def _written(tokens: list[Any]) -> str:
    """The tokens as text; empty if they are nested too deep."""
    try:
        return str(tinycss2.serialize(tokens)).strip()
    except RecursionError:
        return ""


def _compiled(prelude: str) -> list[Any]:
    try:
        found = cssselect2.compile_selector_list(prelude)
    # a browser drops a rule that it cannot read, whatever is wrong with it: unknown names, endless nesting
    except Exception:
        return []
    return [selector for selector in found if selector.pseudo_element is None and not selector.never_matches]


def applies(media: str) -> bool:
    """Whether a list of media queries holds on a desktop screen, 1280 × 800 pixels. What is not known does not hold."""
    return any(_holds(query.strip()) for query in media.lower().split(","))


def _holds(query: str) -> bool:
    negated = query.startswith("not ")
    parts = [
        re.sub(r"\s*:\s*", ": ", part.strip()) for part in re.split(r"\band\b", re.sub(r"^(?:not|only)\s+", "", query))
    ]
    known = [_part_holds(part) for part in parts]
    if None in known:
        return False
    return all(known) != negated


def _part_holds(part: str) -> bool | None:
    if part in ("all", "screen", ""):
        return True
    if re.fullmatch(r"[a-z]+", part):
        return False
    if part in _ALWAYS_ON:
        return True
    if limit := _LIMIT.fullmatch(part):
        size, bound = _size(limit[2]), _pixels(limit[3], limit[4])
        return size >= bound if limit[1] == "min" else size <= bound
    if bounds := _RANGE.fullmatch(part):
        size = _size(bounds[4])
        below = not bounds[1] or _compared(_pixels(bounds[1], bounds[2]), bounds[3], size)
        return below and (not bounds[6] or _compared(size, bounds[5], _pixels(bounds[6], bounds[7])))
    return None


def _size(name: str) -> float:
    return _WIDTH if name == "width" else _HEIGHT


def _pixels(number: str, unit: str) -> float:
    try:
        return float(number) * (1 if unit == "px" else _EM)
    except ValueError:
        return 0.0


def _compared(left: float, mark: str, right: float) -> bool:
    return {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[mark]
