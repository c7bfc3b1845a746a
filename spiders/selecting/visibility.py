"""What a browser does not show: hidden copies must not stand in for what a reader sees, nor be found beside it."""

import re
from typing import Any

import parsel
from lxml import etree

_UNSHOWN_TAGS = frozenset({"template", "noscript"})
_UNSHOWN_STYLE = re.compile(r"(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.IGNORECASE)
# The same as `_is_unshown`, for text and attribute nodes, which do not know their element once they are found.
_SHOWN_XPATH = (
    "[not(ancestor-or-self::*[@hidden or @aria-hidden='true' or self::template or self::noscript"
    " or contains(translate(@style, 'DISPLAYNOE ', 'displaynoe'), 'display:none')"
    " or contains(translate(@style, 'VISBLTYHDEN ', 'visbltyhden'), 'visibility:hidden')])]"
)


def visible_first(found: list[parsel.Selector], scope: parsel.Selector, xpath: str) -> list[parsel.Selector]:
    """Matches of `xpath` in `scope`, visible ones before hidden ones, else in page order."""
    shown = _shown(found, scope, xpath)
    return [match for match, is_shown in zip(found, shown, strict=True) if is_shown] + [m for m, is_shown in zip(found, shown, strict=True) if not is_shown]


def without_hidden_copies(found: list[parsel.Selector], scope: parsel.Selector, xpath: str) -> list[parsel.Selector]:
    """Matches without the hidden ones that repeat a visible one: the same text, or the same links (a card that was left behind).

    Where anything visible is found, what stands in a template is no match of its own: it is a form that a script fills in.
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
    """Which of the matches a browser shows; all of them, if it is not to be told."""
    if not found or isinstance(found[0].root, etree._Element):
        memo: dict[Any, bool] = {}
        return [not isinstance(match.root, etree._Element) or not _is_hidden(match.root, memo) for match in found]
    if not isinstance(found[0].root, str):  # a number or a truth value
        return [True] * len(found)
    visible = [match.root for match in scope.xpath(f"({xpath}){_SHOWN_XPATH}")]
    flags, position = [], 0
    for match in found:  # visible matches are a subsequence of all matches
        is_next = position < len(visible) and visible[position] == match.root
        flags.append(is_next)
        position += is_next
    return flags


def _is_hidden(element: Any, memo: dict[Any, bool]) -> bool:
    """Whether the element or one around it is hidden. `memo` holds what is known of other elements."""
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
