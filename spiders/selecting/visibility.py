"""Tells visible matches from those that a browser hides, so that hidden copies neither replace nor repeat what a reader sees."""

import re
from typing import Any

import parsel
from lxml import etree

_UNSHOWN_TAGS = frozenset({"template", "noscript"})
_UNSHOWN_STYLE = re.compile(r"(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.IGNORECASE)
# `_is_unshown` as XPath, for text and attribute nodes, which have no reference to their element.
_SHOWN_XPATH = (
    "[not(ancestor-or-self::*[@hidden or @aria-hidden='true' or self::template or self::noscript"
    " or contains(translate(@style, 'DISPLAYNOE ', 'displaynoe'), 'display:none')"
    " or contains(translate(@style, 'VISBLTYHDEN ', 'visbltyhden'), 'visibility:hidden')])]"
)


def visible_first(found: list[parsel.Selector], scope: parsel.Selector, xpath: str) -> list[parsel.Selector]:
    """Matches of `xpath` in `scope`, visible ones before hidden ones, each in page order."""
    shown = _shown(found, scope, xpath)
    return [match for match, is_shown in zip(found, shown, strict=True) if is_shown] + [m for m, is_shown in zip(found, shown, strict=True) if not is_shown]


def without_hidden_copies(found: list[parsel.Selector], scope: parsel.Selector, xpath: str) -> list[parsel.Selector]:
    """Matches without hidden ones that repeat a visible one: the same text, or links that a visible one has too (a leftover card).

    Where anything visible is found, matches in a <template> are dropped too, since scripts fill them in.
    """
    shown = _shown(found, scope, xpath)
    if all(shown) or not any(shown):
        return found
    visible = [match for match, is_shown in zip(found, shown, strict=True) if is_shown]
    texts = {_text(match) for match in visible} - {""}
    links = [_links(match) for match in visible]

    def is_copy(match: parsel.Selector) -> bool:
        if isinstance(match.root, etree._Element) and _is_in_template(match.root):
            return True
        own = _links(match)
        return _text(match) in texts or (bool(own) and any(own <= others for others in links))

    return [match for match, is_shown in zip(found, shown, strict=True) if is_shown or not is_copy(match)]


def _shown(found: list[parsel.Selector], scope: parsel.Selector, xpath: str) -> list[bool]:
    """For each match, whether a browser shows it; True where that cannot be determined."""
    if not found or isinstance(found[0].root, etree._Element):
        memo: dict[Any, bool] = {}
        return [not isinstance(match.root, etree._Element) or not _is_hidden(match.root, memo) for match in found]
    if not isinstance(found[0].root, str):  # a number or a boolean
        return [True] * len(found)
    visible = [match.root for match in scope.xpath(f"({xpath}){_SHOWN_XPATH}")]
    flags, position = [], 0
    for match in found:  # visible matches are a subsequence of all matches
        is_next = position < len(visible) and visible[position] == match.root
        flags.append(is_next)
        position += is_next
    return flags


def _is_hidden(element: Any, memo: dict[Any, bool]) -> bool:
    """Whether the element or an ancestor is hidden. `memo` caches results by element."""
    path = []
    hidden = False
    while element is not None:
        if element in memo:
            hidden = memo[element]
            break
        path.append(element)
        if _is_unshown(element):
            hidden = True
            break
        element = element.getparent()
    memo.update(dict.fromkeys(path, hidden))
    return hidden


def _is_unshown(element: Any) -> bool:
    attributes = element.attrib
    return (
        element.tag in _UNSHOWN_TAGS
        or "hidden" in attributes
        or attributes.get("aria-hidden") == "true"
        or ("style" in attributes and _UNSHOWN_STYLE.search(attributes["style"]) is not None)
    )


def _is_in_template(element: Any) -> bool:
    return element.tag == "template" or next(element.iterancestors("template"), None) is not None


def _text(match: parsel.Selector) -> str:
    return " ".join("".join(match.root.itertext()).split()) if isinstance(match.root, etree._Element) else " ".join(str(match.root).split())


def _links(match: parsel.Selector) -> frozenset[str]:
    if not isinstance(match.root, etree._Element):
        return frozenset()
    return frozenset(href for href in match.root.xpath("descendant-or-self::a/@href") if not href.startswith("#"))
