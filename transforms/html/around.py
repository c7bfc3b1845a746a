"""Boxes that stand around a text by what they are called, where tags do not say so: `<div class="site-footer">`, `<div
id="navbar">`.
"""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from almanac.transforms.html.blocks import Block

_OF_PAGE = r"(?:^|\s)(?:(?:site|page|main|global|top|bottom|layout|section|wp|l|c|o)[-_]*)?"
_PART = r"(?:[-_]*(?:wrap|wrapper|container|area|inner|outer|content|bar|box|row|main|primary|top|bottom|\d))*(?:\s|$)"
_FOOTER = (
    r"foot(?:er)?|fu(?:ss|ß)(?:zeile|bereich)?"
    r"|pied(?:[-_]?de[-_]?page)?|pie[-_]?(?:de[-_]?)?p[aá]gina|rodap[eé]|colophon|copyright|site[-_]?info|page"
    r"[-_]?bottom"
)
_NAVIGATION = r"nav|navi|navigation|navbar|breadcrumbs?"
_AROUND = re.compile(f"{_OF_PAGE}(?:{_FOOTER}|{_NAVIGATION}){_PART}", re.IGNORECASE)
# These names may also be those of a text: the menu of a restaurant, the header of an article.
_OFTEN_AROUND = re.compile(
    f"{_OF_PAGE}(?:menu|men[uú]|header|head|kopf(?:zeile|bereich)?|top|masthead|links){_PART}", re.IGNORECASE
)
_ROLES = frozenset({"navigation", "contentinfo", "banner", "search"})


def mark_around(blocks: list[Block]) -> None:
    """Marks the blocks in boxes called navigation or footer, and in those called menu or header of which most is links.

    A box with the page's <h1> or with half of what is no link on the page is never one: the class names of a page's
    whole content may be anything.
    """
    sizes: Counter[Any] = Counter()
    linked: Counter[Any] = Counter()
    for block in blocks:
        for element in (block.element, *block.above):
            sizes[element] += block.size
            linked[element] += block.linked
    page = sum(block.size - block.linked for block in blocks)
    titles = {element for block in blocks if block.element.tag == "h1" for element in (block.element, *block.above)}

    def is_around(element: Any) -> bool:
        is_mostly_links = 2 * linked[element] > sizes[element]
        return (
            element not in titles
            and 2 * (sizes[element] - linked[element]) < page
            and _is_called_around(element, is_mostly_links)
        )

    around = {element for element in sizes if is_around(element)}
    for block in blocks:
        block.is_around = not around.isdisjoint((block.element, *block.above))


def _is_called_around(element: Any, is_mostly_links: bool) -> bool:
    names: Iterable[str] = (element.get("class") or "", element.get("id") or "")
    patterns = (_AROUND, _OFTEN_AROUND) if is_mostly_links else (_AROUND,)
    return element.get("role") in _ROLES or any(pattern.search(name) for pattern in patterns for name in names)
