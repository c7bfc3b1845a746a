"""Finds the elements that a rule of a page's own style sheets is about."""

import re
from functools import lru_cache
from typing import Any

from lxml import etree
from parsel.csstranslator import HTMLTranslator

_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_MAX_SELECTORS = 100


@lru_cache(maxsize=6)  # for each style, a page and the piece of markup that is read from it
def styled_by_sheet(root: Any, style: re.Pattern[str], word: str) -> frozenset[Any]:
    """The elements for which a rule in the page's own `<style>` declares what `style` finds; `word` is in every such
    rule.

    Sheets in other files are not fetched.
    """
    selectors: list[str] = []
    for sheet in root.iter("style"):
        css = sheet.text or ""
        if word in css:
            selectors += [selector for rule in _COMMENT.sub("", css).split("}") for selector in _selectors(rule, style)]
    elements: set[Any] = set()
    for selector in selectors[:_MAX_SELECTORS]:
        try:
            elements.update(
                match
                for match in root.xpath(HTMLTranslator().css_to_xpath(selector))
                if match.tag not in ("html", "body", "main")
            )
        # a rule that cannot be read counts for nothing, as in a browser
        except (SyntaxError, RuntimeError, etree.XPathError):
            continue
    return frozenset(elements)


def _selectors(rule: str, style: re.Pattern[str]) -> list[str]:
    head, _, declared = rule.rpartition("{")
    if not style.search(declared):
        return []
    return [
        selector for part in head.rpartition("{")[2].split(",") if (selector := part.strip()) and ":" not in selector
    ]
