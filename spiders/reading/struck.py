"""Takes struck prices out of a tree, such as the `<del>` beside an `<ins>`: a struck price is no price any more.

Struck is what stands in `<del>`, `<s>` or `<strike>`, in a style of line-through, or in a class that says so. A class
or a label that only names an older price ("old-price", "Was") counts where another price stands beside it.
"""

import re
from collections.abc import Callable, Collection
from itertools import islice
from typing import Any

from lxml import etree

from almanac.spiders.reading.price_marks import (
    MAX_FIGURE,
    NUMBER,
    OLD_LABEL,
    REGULAR_LABEL,
    begins_with_price,
    has_old_class,
    is_price,
    is_spoken,
    is_struck,
    struck_by_sheet,
    text_in,
)
from almanac.spiders.reading.rewriting import remove

_MAX_SIBLINGS = 6
_CURRENT = re.compile(r"current|actuel|aktuell|actual|attuale|hiện tại|当前|現在", re.IGNORECASE)


def drop_struck_prices(root: Any, *, asked_for: bool = False) -> list[str]:
    """Removes struck prices from the tree, with the labels that announce them, and returns their texts. Other struck
    text stays.

    With `asked_for`, a declared selector chose the root: where nothing but a struck price is in it, the price stays.
    """
    struck = _struck_prices(root)
    if struck and asked_for and _is_nothing_but_label(_text_without(root, struck)):
        return []
    dropped: list[str] = []
    for element in struck:
        _remove_with_labels(element, dropped)
    for element in _outermost(root, _may_be_old):
        if element.getparent() is not None and is_price(text_in(element)) and _stands_beside_price(element, root):
            _remove_with_labels(element, dropped)
    for element in _elements(root):
        if element.getparent() is not None and is_spoken(element):
            if OLD_LABEL.fullmatch(text_in(element)):
                _remove_announced(element, root, dropped)
            _part(element)
    return dropped


def holds_only_struck_price(root: Any) -> bool:
    """Whether the element has a struck price in it, and nothing else but its label."""
    struck = _struck_prices(root, struck_by_sheet(root.getroottree().getroot()))
    return bool(struck) and _is_nothing_but_label(_text_without(root, struck))


def _struck_prices(root: Any, by_sheet: Collection[Any] = ()) -> list[Any]:
    return [
        element
        for element in _outermost(root, lambda one: one in by_sheet or is_struck(one))
        if is_price(text_in(element))
    ]


def _may_be_old(element: Any) -> bool:
    """Whether a class or a label says that the element is for an older price."""
    if has_old_class(element):
        return True
    if not is_spoken(element):
        return False
    text = text_in(element)
    return len(text) <= MAX_FIGURE and NUMBER.search(text) is not None and OLD_LABEL.match(text) is not None


def _elements(root: Any) -> list[Any]:
    return [element for element in root.iterdescendants() if isinstance(element.tag, str)]


def _outermost(root: Any, is_one: Callable[[Any], bool]) -> list[Any]:
    found = [element for element in _elements(root) if is_one(element)]
    every = set(found)
    return [element for element in found if every.isdisjoint(element.iterancestors())]


def _is_nothing_but_label(text: str) -> bool:
    return (
        not any(map(str.isalnum, text))
        or OLD_LABEL.fullmatch(text) is not None
        or REGULAR_LABEL.fullmatch(text) is not None
    )


def _text_without(root: Any, left_out: list[Any]) -> str:
    """The text of a tree without some of its elements, and without scripts and styles."""
    skipped = set(left_out)
    pieces: list[str] = []
    walk = etree.iterwalk(root, events=("start", "end"))
    for event, element in walk:
        if event == "end":
            pieces.append((element.tail or "") if element is not root else "")
        elif element in skipped or element.tag in ("script", "style"):
            walk.skip_subtree()
        else:
            pieces.append(element.text or "")
    return " ".join("".join(pieces).split())


def _stands_beside_price(element: Any, root: Any) -> bool:
    """Whether another price stands near: beside the element or one of the two around it, as far as they are in the
    tree.
    """
    for _ in range(3):
        if element is root or element.getparent() is None:
            return False
        for preceding in (True, False):
            beside = list(islice(element.itersiblings(preceding=preceding), _MAX_SIBLINGS))
            text = "".join(one.tail or "" for one in beside) + (
                (element.getparent().text or "")[-MAX_FIGURE:] if preceding else element.tail or ""
            )
            if begins_with_price(text) or any(
                begins_with_price(text_in(one)) for one in beside if isinstance(one.tag, str) and not has_old_class(one)
            ):
                return True
        element = element.getparent()
    return False


def _remove_with_labels(element: Any, dropped: list[str]) -> None:
    """Removes a struck price, the label in front of it, and what a screen reader is told about it."""
    parent = element.getparent()
    previous, following = element.getprevious(), element.getnext()
    amounts = {_digits(number[0]) for number in NUMBER.finditer(text_in(element))}
    if following is not None and is_spoken(following) and not (element.tail or "").strip():
        told = [_digits(number[0]) for number in NUMBER.finditer(text_in(following))]
        if told and set(told) <= amounts and not _CURRENT.search(text_in(following)):
            _drop(following, dropped)
    _drop(element, dropped)
    if previous is not None and previous.getparent() is not None and not (previous.tail or "").strip():
        if OLD_LABEL.fullmatch(text_in(previous)) or (
            is_spoken(previous) and REGULAR_LABEL.fullmatch(text_in(previous))
        ):
            _drop(previous, dropped)
    elif previous is None and parent is not None and not len(parent) and _is_only_label(parent):
        dropped.append(parent.text)
        parent.text = None


def _drop(element: Any, dropped: list[str]) -> None:
    dropped.append(text_in(element))
    remove(element)


def _is_only_label(element: Any) -> bool:
    return (
        bool((element.text or "").strip())
        and OLD_LABEL.fullmatch(element.text or "") is not None
        and element.getparent() is not None
    )


def _part(spoken: Any) -> None:
    """Puts spaces around words for screen readers, which stand in no line with what is seen."""
    spoken.text = f" {spoken.text or ''}"
    spoken.tail = f" {spoken.tail or ''}"


def _digits(text: str) -> str:
    return re.sub(r"\D", "", text)


def _remove_announced(label: Any, root: Any, dropped: list[str]) -> None:
    """Removes the price that a label such as "Was" announces to screen readers, where another one stands beside it."""
    if label.getparent() is None:
        return
    following = label.getnext()
    if (
        following is not None
        and not (label.tail or "").strip()
        and is_price(text_in(following))
        and _stands_beside_price(following, root)
    ):
        _drop(following, dropped)
        _drop(label, dropped)
