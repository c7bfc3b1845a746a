"""Takes struck prices out of a tree, such as the `<del>` beside an `<ins>`: a struck price is no price any more.

Struck is what stands in `<del>`, `<s>` or `<strike>`, or in a style attribute of line-through. What classes or labels
call an older price is a matter of selectors.
"""

import re
from typing import Any

from almanac.spiders.reading.currencies import currency_beside
from almanac.spiders.reading.rewriting import class_names, remove

_STYLE = re.compile(r"text-decoration(?:-line)?\s*:[^;]*line-through", re.IGNORECASE)
_NUMBER = re.compile(r"\d+(?:[.,\s'’]\d+)*")
_MAX_FIGURE = 80  # characters of a struck text that is a price and no passage
_MAX_LEVELS = 5  # elements around a number that are looked at
_READ_ALOUD = frozenset({"screen-reader-text", "visually-hidden", "sr-only"})  # classes of texts that are not drawn
_MAX_LETTERS = 4  # of a struck number without a currency: what is longer is a text with a number in it
# `is_in_struck_price` for text and attribute nodes, which have no reference to their element.
CURRENT_XPATH = (
    f"[not(ancestor-or-self::*[position() <= {_MAX_LEVELS}][self::del or self::s or self::strike or "
    f"re:test(string(@style), '{_STYLE.pattern}', 'i')])]"
)


def drop_struck_prices(root: Any, *, asked_for: bool = False) -> list[str]:
    """Removes struck prices from the tree, with what says them once more to screen readers; returns their texts. Other
    struck text stays.

    With `asked_for`, a declared selector chose the root: where nothing but a struck price is in it, the price stays.
    """
    struck = _struck_prices(root)
    if asked_for and struck and not _says_more(root, struck):
        return []
    dropped: list[str] = []
    for element in struck:
        following = element.getnext()
        if following is not None and not (element.tail or "").strip() and _repeats(following, element):
            dropped.append(_text_in(following))
            remove(following)
        dropped.append(_text_in(element))
        remove(element)
    for element in root.iterdescendants("*"):
        if _is_read_aloud(element) and not len(element) and (element.text or "")[:1].isalpha():
            element.text = f" {element.text} "
    return dropped


def holds_only_struck_price(root: Any) -> bool:
    """Whether the element has a struck price in it, and nothing else."""
    struck = _struck_prices(root)
    return bool(struck) and not _says_more(root, struck)


def is_in_struck_price(element: Any) -> bool:
    """Whether the element is, or is in, a struck price."""
    for _ in range(_MAX_LEVELS):
        if element is None:
            return False
        if _is_struck(element):
            return _is_price(_text_in(element))
        element = element.getparent()
    return False


def _struck_prices(root: Any) -> list[Any]:
    """The outermost struck elements inside a tree that hold an amount."""
    struck = [element for element in root.iterdescendants("*") if _is_struck(element)]
    every = set(struck)
    return [element for element in struck if every.isdisjoint(element.iterancestors()) and _is_price(_text_in(element))]


def _is_struck(element: Any) -> bool:
    style = element.get("style")
    return element.tag in ("del", "s", "strike") or (style is not None and _STYLE.search(style) is not None)


def _says_more(root: Any, struck: list[Any]) -> bool:
    """Whether a tree has letters or digits besides some of its elements."""
    left = "".join(root.itertext())
    for element in struck:
        left = left.replace("".join(element.itertext()), "", 1)
    return any(map(str.isalnum, left))


def _repeats(element: Any, struck: Any) -> bool:
    """Whether an element tells screen readers a struck price: `Original price was: $20.00.`"""
    numbers = set(_NUMBER.findall(_text_in(element)))
    return _is_read_aloud(element) and bool(numbers) and numbers <= set(_NUMBER.findall(_text_in(struck)))


def _is_read_aloud(element: Any) -> bool:
    return element.tag != "ins" and not _READ_ALOUD.isdisjoint(class_names(element))


def _is_price(text: str) -> bool:
    """Whether a text is an amount: a number beside a currency, or a number with few letters."""
    numbers = list(_NUMBER.finditer(text)) if len(text) <= _MAX_FIGURE else []
    has_currency = any(currency_beside(text[: number.start()], text[number.end() :]) for number in numbers)
    return has_currency or (bool(numbers) and _is_bare(text))


def _is_bare(text: str) -> bool:
    return sum(map(str.isalpha, text)) <= _MAX_LETTERS


def _text_in(element: Any) -> str:
    return " ".join("".join(element.itertext()).split())
