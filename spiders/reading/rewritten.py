"""The content of an element as a reader sees it: the one place where a page's markup is rewritten before text is taken
from it.

Selectors run on the page as parsed. What they find is rewritten as a copy, for bodies, fields, titles, and questions
with their answers alike: formulas as one line of text, raised and lowered numbers as characters, ruby without its
annotation, images as their `alt`, and prices without the ones that are struck.
"""

import copy
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from lxml import etree

from almanac.core.control_characters import drop_controls
from almanac.schemas.left_out import LeaveOut, untold
from almanac.spiders.reading.formulas import write_formulas
from almanac.spiders.reading.images import alt_text, drop_fallbacks, write_images
from almanac.spiders.reading.raised import moved_by_sheet, standing_by_style, write_raised
from almanac.spiders.reading.rewriting import local_name
from almanac.spiders.reading.ruby import write_ruby
from almanac.spiders.reading.struck import drop_struck_prices

# In the order in which they run, after struck prices are gone and before images are written.
_STEPS: dict[str, Callable[[Any], None]] = {
    "formulas": write_formulas,
    "ruby": write_ruby,
    "raised": write_raised,
    "media": drop_fallbacks,
}
_TAGS = {
    **dict.fromkeys(("math", "mjx-container"), "formulas"),
    **dict.fromkeys(("ruby", "rt"), "ruby"),
    **dict.fromkeys(("sup", "sub"), "raised"),
    **dict.fromkeys(("del", "s", "strike"), "prices"),
    **dict.fromkeys(("img", "area", "input", "svg"), "images"),
    **dict.fromkeys(("video", "audio"), "media"),
}
_FORMULA_CLASS = re.compile("katex|MathJax|mjx|mwe-math|ltx_Math")


def rewritten(element: Any, *, images: bool = True, asked_for: bool = False, leave_out: LeaveOut = untold) -> Any:
    """The element, rewritten as a copy without a parent where there is something to rewrite, else itself.

    Without `images`, an image gives its text only if the element has no other, as in a title. `asked_for` says that a
    declared selector chose the element, so that it is read even if it is a struck price. `leave_out` is told of the
    struck prices and annotations that are not read.
    """
    if not isinstance(element, etree._Element) or not isinstance(element.tag, str):
        return element
    work = _work(element)
    styled = styles_of_sheets(element.getroottree().getroot())
    styles = {number: styled[inner] for number, inner in enumerate(element.iter()) if inner in styled} if styled else {}
    work |= {"raised"} if styles else set()
    if not work or (work == {"images"} and not images and any(map(str.strip, element.itertext()))):
        return element
    copied = copy.copy(element)
    copied.tail = None
    drop_controls(copied)
    for number, inner in enumerate(list(copied.iter())) if styles else ():
        if number in styles:
            inner.set("style", styles[number])
    if "prices" in work:
        for number, text in enumerate(drop_struck_prices(copied, asked_for=asked_for)):
            leave_out("struck_prices", text, number)
    for number, note in enumerate(copied.iter("rt") if "ruby" in work else ()):
        leave_out("ruby", "".join(note.itertext()), number)
    for name, step in _STEPS.items():
        if name in work:
            step(copied)
    if images and "images" in work:
        write_images(copied)
    elif "images" in work and not any(map(str.strip, copied.itertext())):
        copied.text = alt_text(copied)
    return copied


@lru_cache(maxsize=2)  # a page, and the piece of markup that is read from it
def styles_of_sheets(root: Any) -> dict[Any, str]:
    """The elements that the page's own style sheets raise or lower, each with a `style` attribute that says so, behind
    what its own says.
    """
    return {
        element: "; ".join(filter(None, (element.get("style"), style)))
        for element, style in moved_by_sheet(root).items()
    }


def _work(element: Any) -> set[str]:
    """What there is to rewrite in an element."""
    work: set[str] = set()
    for inner in element.iter(etree.Element):
        tag = inner.tag
        if tag in _TAGS:
            work.add(_TAGS[tag])
        elif (tag == "script" and (inner.get("type") or "").startswith("math/")) or (
            ":" in tag and local_name(inner) == "math"
        ):
            work.add("formulas")
        names, style = inner.get("class"), inner.get("style")
        if names is not None and _FORMULA_CLASS.search(names):
            work.add("formulas")
        if style is not None and "through" in style:
            work.add("prices")
        if style is not None and standing_by_style(inner):
            work.add("raised")
    return work
