"""Characters that a parsed page may contain, and that lxml takes in no text that is set."""

import re
from typing import Any

from lxml import etree

_CONTROLS = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_ALL_TEXT = etree.XPath("string()")


def without_controls(text: str) -> str:
    """The text without control characters, half pairs and the like."""
    return _CONTROLS.sub("", text)


def drop_controls(root: Any) -> None:
    """Removes control characters from all text of the tree, so that it can be joined anew."""
    if not _CONTROLS.search(_ALL_TEXT(root)):
        return
    for element in root.iter():
        if element.text and _CONTROLS.search(element.text):
            element.text = without_controls(element.text)
        if element is not root and element.tail and _CONTROLS.search(element.tail):
            element.tail = without_controls(element.tail)
