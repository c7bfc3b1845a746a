"""Finds what a page shows once a visitor uses one of its controls: folded sections, tabs, accordions, menus,
dialogs.
"""

import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any
from urllib.parse import unquote

from lxml import etree

_POINTING = ("aria-controls", "popovertarget", "commandfor", "aria-owns")
_SCRIPTED = ("data-", "on")  # beginnings of the names of attributes that scripts read, or are
_NAME = re.compile(r"\.?(?:[\w-]|\\.)+")  # of a class with its full stop
_TITLES = frozenset({"h1", "h2", "h3", "h4", "h5", "h6", "dt", "legend", "button"})
_ENTRIES = frozenset({"li", "tr", "article", "div", "section"})
_PANELS = frozenset({"div", "section", "article", "p", "ul", "ol", "dl", "dd", "table", "blockquote", "pre"})
_ASKING = _TITLES | {"div", "p", "a", "span", "strong", "b", "summary", "header"}
_QUESTION_MARKS = "?？؟՞⁇"
_MAX_QUESTION = 500  # characters
_MAX_SIBLINGS = 50
_ROUNDS = 10  # of controls inside what another control opens


def opened(hidden: set[Any], root: Any, *, is_inside: Callable[[Any, set[Any]], bool]) -> set[Any]:
    """Of the elements that hide themselves, those that a visitor can open.

    Args:
        hidden: the elements.
        root: the page's root element.
        is_inside: tells whether an element or one around it is among some of `hidden`; a control that is hidden opens
            nothing.
    """
    openable = {element for element in hidden if _opens_by_nature(element)}
    left = {element for element in hidden if element not in openable}
    if not left:
        return openable
    pointers = list(_pointers(root))
    for _ in range(_ROUNDS):
        names = {name for control, name in pointers if not is_inside(control, left)}
        more = {
            e
            for e in left
            if e.get("id") in names or any(f".{name}" in names for name in (e.get("class") or "").split())
        }
        more |= {e for e in left - more if _is_under_a_title(e, left) or _is_more_of_a_list(e, left)}
        openable |= more
        left -= more
        if not more or not left:
            break
    return openable


def _opens_by_nature(element: Any) -> bool:
    """Whether it is a tab's panel, or the folded part of a `<details>`."""
    above = element.getparent()
    return element.get("role", "").strip().lower() == "tabpanel" or (
        above is not None and above.tag == "details" and element.tag != "summary"
    )


def _pointers(root: Any) -> Iterator[tuple[Any, str]]:
    """Yields (control, an id that it names, or a class with a full stop before it)."""
    own = next(iter(root.xpath("//link[@rel='canonical' and @href]/@href")), "").partition("#")[0]
    for control in root.iter(etree.Element):
        for attribute, value in control.attrib.items():
            if attribute == "href" and value[:11].lower() != "javascript:":
                page, _, place = value.partition("#")
                if place and page in ("", own):
                    yield control, unquote(place)
            elif attribute in ("href", *_POINTING) or attribute.startswith(_SCRIPTED):
                yield from ((control, name.replace("\\", "")) for name in _NAME.findall(value))
    buttons = {control.get("id"): control for control in root.xpath("//*[@id and (self::button or @role='button')]")}
    for region in root.xpath("//*[@aria-labelledby and @id]"):  # a region is named after the button that opens it
        names = region.get("aria-labelledby").split()
        yield from ((buttons[name], region.get("id")) for name in names if name in buttons)


def _is_under_a_title(element: Any, hidden: set[Any]) -> bool:
    """Whether it is all that stands under a title that is a button, under a term, or under a question: an accordion
    that names no target.
    """
    if element.tag not in _PANELS or (element.tail or "").strip():
        return False
    title, below = _neighbour(element, hidden, preceding=True), _neighbour(element, hidden, preceding=False)
    if title is None or not (below is None or below.tag in _TITLES or _asks(below)):
        return False
    if title.tag == "dt":
        return bool(element.tag == "dd")
    if title.tag == "button":
        return title.get("aria-expanded") is not None or _has_twin(title)
    return _asks(title) or (title.tag in _TITLES and any(_is_button(part) for part in title.iter()))


def _is_more_of_a_list(element: Any, hidden: set[Any]) -> bool:
    """Whether it is at the hidden end of a list, with a button right after it: "show more"."""
    if element.tag not in _ENTRIES or not (element.get("class") or element.tag in ("li", "tr", "article")):
        return False
    before, after = _neighbour(element, hidden, preceding=True), _neighbour(element, hidden, preceding=False)
    if (
        before is None
        or before.tag != element.tag
        or not set((before.get("class") or "").split()) <= set((element.get("class") or "").split())
    ):
        return False
    if after is None and element.getparent() is not None:
        after = _neighbour(element.getparent(), hidden, preceding=False)
    while after is not None and len(after) == 1 and not _is_button(after) and not (after.text or "").strip():
        after = after[0]
    return after is not None and (
        _is_button(after)
        or (after.tag == "a" and after.get("href", "#").strip()[:11].lower() in ("", "#", "javascript:"))
    )


def _neighbour(element: Any, hidden: set[Any], *, preceding: bool) -> Any:
    """The nearest sibling that is not hidden itself; None if there is none."""
    siblings = (
        sibling
        for sibling in element.itersiblings(preceding=preceding)
        if isinstance(sibling.tag, str) and sibling.tag not in ("script", "style")
    )
    return next((sibling for sibling in islice(siblings, _MAX_SIBLINGS) if sibling not in hidden), None)


def _is_button(element: Any) -> bool:
    return element.tag == "button" or element.get("aria-expanded") is not None or element.get("role") == "button"


def _has_twin(button: Any) -> bool:
    """Whether another button of its kind is beside it; one alone may do anything."""
    neighbours = (*islice(button.itersiblings("button"), 1), *islice(button.itersiblings("button", preceding=True), 1))
    return any(other.get("class") == button.get("class") for other in neighbours)


def _asks(title: Any) -> bool:
    text = "".join(title.itertext()).strip() if title.tag in _ASKING else ""
    return len(text) <= _MAX_QUESTION and text[-1:] in tuple(_QUESTION_MARKS)
