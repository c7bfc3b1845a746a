"""Replaces and removes elements of a tree without losing the text that follows them."""

from typing import Any

from almanac.core.control_characters import without_controls


def remove(element: Any) -> None:
    """Removes an element with all inside it; the text behind it stays."""
    replace_by_text(element, "")


def replace_by_text(element: Any, text: str) -> None:
    """Puts a text in the element's place. An element without a parent is kept, as a `<span>` with that text."""
    parent = element.getparent()
    text = without_controls(text)
    if parent is None:
        tail = element.tail
        element.clear()
        element.tag, element.text, element.tail = "span", text, tail
        return
    text += element.tail or ""
    previous = element.getprevious()
    if previous is not None:
        previous.tail = (previous.tail or "") + text
    else:
        parent.text = (parent.text or "") + text
    parent.remove(element)


def class_names(element: Any) -> set[str]:
    """The names in the element's `class`."""
    return set((element.get("class") or "").split())


def local_name(element: Any) -> str:
    """The element's name without namespace or prefix: `mi` for `{http://www.w3.org/1998/Math/MathML}mi` and `mml:mi`;
    empty for a comment.
    """
    return element.tag.rpartition("}")[2].rpartition(":")[2].lower() if isinstance(element.tag, str) else ""
