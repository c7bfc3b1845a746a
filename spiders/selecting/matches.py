"""Keeps the matches of a selector that a visitor sees, and puts those aside that are copies of others."""

import copy
from dataclasses import dataclass
from typing import Any

import parsel
from lxml import etree

from almanac.schemas.left_out import LeaveOut, untold
from almanac.spiders.selecting.visibility import Visibility, emptied, visibility_around


@dataclass(frozen=True, slots=True)
class _Match:
    """A match, and the element that it is or lies in; None for a number. `is_text` is False for attributes."""

    selector: parsel.Selector
    place: Any
    is_text: bool = True

    def hidden(self, page: Visibility) -> str | None:
        """How the match is hidden as a text; None if it is seen, or no text."""
        if self.place is None or not self.is_text:
            return None
        return page.reason(self.place) if self.place is self.selector.root else page.reason_of_text(self.place)

    def is_aside(self, page: Visibility) -> bool:
        """Whether the match is hidden, be it from screen readers only, as a carousel's copies of its slides are."""
        return self.place is not None and (page.reason(self.place) is not None or page.is_silent(self.place))


def is_content(node: Any) -> bool:
    """Whether what an XPath found is an element, an attribute or a text, and no comment or processing instruction."""
    return not callable(getattr(node, "tag", None))


def keep_visible(
    matches: list[parsel.Selector],
    scope: parsel.Selector,
    xpath: str,
    *,
    many: bool,
    hidden: bool,
    leave_out: LeaveOut = untold,
) -> list[parsel.Selector]:
    """Of the matches of `xpath` in `scope`, those that a visitor sees, and attributes; with `hidden`, all.

    With `many` in page order, without those aside that repeat another one; otherwise those aside come last. Texts that
    XPath puts together (`normalize-space(…)`) are made of what is seen. `leave_out` is told of those that are hidden:
    without `many`, where there is no other.
    """
    page = visibility_around(scope.root)
    if not matches or not (page.hides or page.silent):
        return matches
    placed = _placed(matches, scope, xpath)
    if placed is None:
        return matches if hidden or not page.hides else list(_emptied(scope, page).xpath(xpath))
    seen = placed if hidden else [match for match in placed if match.hidden(page) is None]
    for match in placed if many or not seen else ():
        if not hidden and match.hidden(page) is not None:
            leave_out(
                "hidden",
                _text(match.selector),
                match.place if match.place is match.selector.root else (match.place, match.selector.root),
            )
    aside = [match.is_aside(page) for match in seen]
    plain = [match for match, is_aside in zip(seen, aside, strict=True) if not is_aside]
    if many:
        seen = _without_copies(seen, plain, aside) if plain else seen
    else:
        seen = plain + [match for match, is_aside in zip(seen, aside, strict=True) if is_aside]
    return [match.selector for match in seen]


def why_unseen(matches: list[parsel.Selector], scope: parsel.Selector, xpath: str) -> str | None:
    """How the first of the matches that are hidden and have a text is hidden; None if there is none."""
    page = visibility_around(scope.root)
    placed = _placed(matches, scope, xpath) if matches and page.hides else None
    return next(
        (reason for match in placed or [] if (reason := match.hidden(page)) is not None and _text(match.selector)), None
    )


def _without_copies(matches: list[_Match], plain: list[_Match], aside: list[bool]) -> list[_Match]:
    """The matches without those aside that repeat one of the others: the same text, or links that it has too (a
    leftover card); nor any in a <template>.
    """
    texts = {_text(match.selector) for match in plain} - {""}
    links = [_links(match.selector) for match in plain]

    def is_copy(match: _Match) -> bool:
        if next((True for _ in match.place.iterancestors("template")), False):
            return True
        own = _links(match.selector)
        return _text(match.selector) in texts or (bool(own) and any(own <= others for others in links))

    return [match for match, is_aside in zip(matches, aside, strict=True) if not is_aside or not is_copy(match)]


def _placed(matches: list[parsel.Selector], scope: parsel.Selector, xpath: str) -> list[_Match] | None:
    """The matches, elements and texts in any mixture, with their places; None where they are texts that XPath put
    together.
    """
    if not any(isinstance(match.root, str) for match in matches):
        return [_Match(match, match.root if isinstance(match.root, etree._Element) else None) for match in matches]
    placed = scope.root.xpath(xpath, namespaces=scope.namespaces, smart_strings=True)
    if not isinstance(placed, list):
        return None
    return [_at(match, node) for match, node in zip(matches, filter(is_content, placed), strict=True)]


def _at(match: parsel.Selector, node: Any) -> _Match:
    if isinstance(node, etree._Element):
        return _Match(match, node)
    parent = node.getparent()
    return _Match(match, parent.getparent() if node.is_tail else parent, not node.is_attribute)


def _emptied(scope: parsel.Selector, page: Visibility) -> parsel.Selector:
    """The scope in a copy of the page in which everything stands in its place, and hidden text is missing."""
    root = scope.root.getroottree().getroot()
    twin = copy.deepcopy(root)
    place = twin
    for original, inner in list(zip(root.iter(), twin.iter(), strict=True)):
        if original is scope.root:
            place = inner
        if page.reason_of_text(original) is not None:
            emptied(inner)
    return parsel.Selector(root=place, type=scope.type, namespaces=scope.namespaces)


def _text(match: parsel.Selector) -> str:
    return (
        " ".join("".join(match.root.itertext()).split())
        if isinstance(match.root, etree._Element)
        else " ".join(str(match.root).split())
    )


def _links(match: parsel.Selector) -> frozenset[str]:
    if not isinstance(match.root, etree._Element):
        return frozenset()
    return frozenset(href for href in match.root.xpath("descendant-or-self::a/@href") if not href.startswith("#"))
