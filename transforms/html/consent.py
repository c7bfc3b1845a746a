"""Boxes that ask for consent, to cookies for example: they stand on every page of a site, and on a short page they are
most of its text.
"""

import re
from typing import Any

from lxml import etree

_BOXES = frozenset({"amp-consent", "amp-user-notification"})
_TAGS = ("div", "section", "aside", "dialog", "form", *_BOXES)
_ASKS = re.compile(
    r"cookies?[-_ ]?(?:alert|banner|bar|box|bubble|control|dialog|disclaimer|hinweis|hint|info|law|layer|message|m"
    r"odal|notice|notif|overlay|popup|prompt|toast"
    r"|wall|warning)|consent|gdpr|dsgvo|rgpd|onetrust|usercentrics|didomi|cmplz|cookiebot|cybot|borlabs|(?:^|"
    r"\s)cookies?(?:$|\s)",
    re.IGNORECASE,
)
_ABOUT = re.compile("cookie|consent", re.IGNORECASE)
# What holds one of these holds more than a question; inside of some, a box of that name is part of the text.
_HOLDS_MORE = (
    "boolean(.//h1 | .//main | .//article | .//nav | .//header | .//footer | ancestor::main | ancestor::article)"
)
_CONTROL = (
    "boolean(.//button | .//input | .//*[@role='button'] | .//a[contains(@class, 'btn') or contains(@class, 'button')])"
)
_READ = etree.XPath(".//text()[not(parent::script or parent::style or parent::noscript or parent::title)]")


def drop_consent(root: Any) -> list[str]:
    """Removes the boxes that ask for consent, in place, and returns their texts: those called so that hold a control to
    answer by.

    Pages that are about cookies or consent by their titles are left alone, and so is what would leave a page without
    text.
    """
    boxes = [
        box
        for box in root.iter(*_TAGS)
        if box.tag in _BOXES or _ASKS.search(box.get("id") or "") or _ASKS.search(box.get("class") or "")
    ]
    if not boxes or any(_ABOUT.search(title.text_content()) for title in root.iter("title", "h1")):
        return []
    left = len(_text(root))
    gone: set[Any] = set()
    texts: list[str] = []
    for box in boxes:
        if (
            box not in gone
            and (box.tag in _BOXES or box.xpath(_CONTROL))
            and not box.xpath(_HOLDS_MORE)
            and (size := len(_text(box))) < left
        ):
            left -= size
            gone.update(box.iter())
            texts.append(" ".join(_READ(box)))
            box.drop_tree()
    return texts


def _text(element: Any) -> str:
    """Its text without white space, scripts and styles."""
    return "".join("".join(_READ(element)).split())
