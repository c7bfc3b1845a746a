"""Tells how an element hides itself, by attributes and winning declarations, and which hiding is not believed, because
scripts undo it.
"""

import re
from collections.abc import Iterator
from typing import Any

from lxml import etree

from almanac.spiders.selecting.styles import Winners, inline

NO_TEXT = frozenset({"script", "style", "title", "meta", "link"})
PICTURES = frozenset({"img", "picture", "svg", "video", "iframe", "canvas", "object"})
# How scripts that let things fade in mark them.
_FADING = re.compile(r"data-(?:aos|sal|animat|scroll|reveal|w-id|wow|sr-id|motion|in-?view)|uk-scrollspy$")
_FADING_CLASS = re.compile(
    r"wow$|aos-|animat|elementor-invisible|et[-_]waypoint|.{0,30}(?:fade-?in|reveal)|lazy", re.IGNORECASE
)
_FAR = -1000  # pixels to the left or above: out of every screen
_LENGTH = re.compile(r"(-?(?:\d+\.?\d*|\.\d+))(px|r?em|vw|vh|%|pt)?")
# a hundred percent is how carousels put slides aside
_PIXELS = {"px": 1, "": 1, "em": 16, "rem": 16, "pt": 1.33, "vw": 12.8, "vh": 8, "%": 2}
_NEARLY_ALL = 0.9  # of a page's characters
_LITTLE = 200  # characters that may be hidden whatever their share
_MAIN_PART = 1000  # characters


def hides_itself(element: Any, style: Winners) -> str | None:
    """How an element hides itself and what is in it; None if it does not."""
    display = style.get("display")
    if display == "none":
        return "display: none"
    if display is None and "hidden" in element.attrib and element.get("hidden").strip().lower() != "until-found":
        return "hidden"
    if display is None and ("popover" in element.attrib or (element.tag == "dialog" and "open" not in element.attrib)):
        return "a dialog that nothing opens"
    if style.get("content-visibility") == "hidden":
        return "content-visibility: hidden"
    if not _is_to_fade_in(element):
        if style.get("visibility") in ("hidden", "collapse"):
            return "visibility: hidden"
        if _is_nothing(style.get("opacity", "")) and element.tag not in PICTURES:
            return "opacity: 0"
    if _is_off_screen(style):
        return "off-screen"
    if _is_clipped(style):
        return "clipped"
    return "font-size: 0" if size_of(style) == "hidden" else None


def _is_to_fade_in(element: Any) -> bool:
    """Whether its style attribute makes it transparent: scripts write that there of what they fade in, beside
    `visibility` or not, and so hide nothing.
    """
    return any(
        declaration.name == "opacity" and _is_nothing(declaration.value)
        for declaration in inline(element.get("style", ""))
    )


def _is_nothing(opacity: str) -> bool:
    amount = _first_length(opacity)
    return amount is not None and amount < 0.01


def _is_off_screen(style: Winners) -> bool:
    moved = [style.get(name, "") for name in ("transform", "translate") if "scale" not in style.get(name, "")]
    if any(amount <= _FAR for value in moved for amount in _lengths(value)):
        return True
    if any(
        (amount := _first_length(style.get(name, ""))) is not None and amount <= _FAR
        for name in ("text-indent", "margin-left")
    ):
        return True
    if style.get("position") not in ("absolute", "fixed", "relative"):
        return False
    return any(
        (amount := _first_length(style.get(side, ""))) is not None and amount <= _FAR
        for side in ("left", "top", "right", "bottom")
    )


def _is_clipped(style: Winners) -> bool:
    """Whether a text is for screen readers: cut off to a box of a pixel or nothing."""
    if style.get("position") in ("absolute", "fixed") and style.get("clip", "").startswith("rect"):
        return all(abs(amount) <= 1 for amount in _lengths(style["clip"]))
    path = style.get("clip-path", "")
    if path.startswith("inset") and (first := _LENGTH.search(path)) and first[2] == "%" and float(first[1]) >= 50:
        return True
    if path.startswith("circle") and _first_length(path.removeprefix("circle(")) == 0:
        return True
    cut_off = any(style.get(name, "").split(" ")[0] in ("hidden", "clip") for name in ("overflow", "overflow-x"))
    return cut_off and all(
        any(_is_tiny(style.get(f"{bound}{side}", "")) for bound in ("", "max-")) for side in ("width", "height")
    )


def _is_tiny(value: str) -> bool:
    length = _first_length(value)
    return length is not None and length <= 1


def size_of(style: Winners) -> str | None:
    """`hidden` for characters without a size, `shown` for others, None if nothing is said or the size is a share of the
    parent's.
    """
    value = style.get("font-size")
    if value is None and "font" in style:
        value = next(
            (word.partition("/")[0] for word in style["font"].split() if word[:1].isdigit() or word[:1] == "."), "1em"
        )
        if not value.startswith("0") or value.startswith("0."):
            return "shown"
    if value is None or value in ("inherit", "unset", "smaller", "larger"):
        return None
    size = _LENGTH.fullmatch(value)
    if size is None:
        return "shown"
    if float(size[1]) < 0.01 or (size[2] == "px" and float(size[1]) <= 1):
        return "hidden"
    return None if size[2] in ("em", "%") else "shown"


def _lengths(value: str) -> Iterator[float]:
    return (float(length[1]) * _PIXELS[length[2] or ""] for length in _LENGTH.finditer(value))


def _first_length(value: str) -> float | None:
    """The length at the beginning of a value, in pixels; None if there is none."""
    length = _LENGTH.match(value)
    return float(length[1]) * _PIXELS[length[2] or ""] if length else None


def fades_in(element: Any, reason: str, style: Winners) -> bool:
    """Whether a script shows the element as the page is read or scrolled."""
    if "cloak" in element.get("class", "") or any(
        name in element.attrib for name in ("x-cloak", "v-cloak", "ng-cloak")
    ):
        return True
    if reason not in ("opacity: 0", "visibility: hidden", "off-screen"):
        return False
    if any(_FADING.match(name) for name in element.attrib) or any(
        map(_FADING_CLASS.match, element.get("class", "").split())
    ):
        return True
    moves = any(
        style.get(name, "none") not in ("none", "")
        for name in ("animation", "animation-name", "transition", "transition-property", "will-change")
    )
    return moves or (reason == "opacity: 0" and style.get("transform", "none") != "none")


def not_believed(root: Any, own: dict[Any, str]) -> set[Any]:
    """Of the elements that hide themselves, those that are the page itself: its main part, or together nearly all its
    text.
    """
    if not own:
        return set()
    mains = root.xpath("//main | //*[@role='main']")
    if mains and all(is_inside(main, own.keys()) for main in mains):
        disbelieved = {element for main in mains for element in (main, *main.iterancestors()) if element in own}
    else:
        disbelieved = set()
    characters, hidden = _characters(root, own.keys() - disbelieved)
    total = characters + sum(hidden.values())
    most = {element for element, size in hidden.items() if size > _MAIN_PART and size * 2 > total}
    disbelieved |= {
        element
        for element in most
        if own[element] == "noscript" or next(element.iter("h1", "article"), None) is not None
    }
    gone = sum(size for element, size in hidden.items() if element not in disbelieved)
    return disbelieved | own.keys() if gone > _LITTLE and gone > total * _NEARLY_ALL else disbelieved


def _characters(root: Any, own: Any) -> tuple[int, dict[Any, int]]:
    """(characters shown, characters inside each outermost element that hides itself)."""
    characters, hidden = 0, {}
    walk = etree.iterwalk(root, events=("start", "end"))
    for event, element in walk:
        if event == "end":
            characters += _count(element.tail)
        elif element.tag in ("template", *NO_TEXT):
            walk.skip_subtree()
        elif element in own:
            hidden[element] = sum(
                _count(part.text) + _count(part.tail) * (part is not element)
                for part in element.iter()
                if part.tag not in NO_TEXT
            )
            walk.skip_subtree()
        else:
            characters += _count(element.text)
    return characters, hidden


def _count(text: str | None) -> int:
    return 0 if text is None else len("".join(text.split()))


def is_formula(element: Any) -> bool:
    """Whether nothing but formulas is in the element: they are hidden beside the glyphs that are drawn for them, and
    are what is read.
    """
    has_formula = False
    walk = etree.iterwalk(element, events=("start", "end", "comment", "pi"))
    for event, inner in walk:
        if event != "start":
            if inner is not element and _count(inner.tail):
                return False
        elif inner.tag == "math" or (inner.tag == "script" and (inner.get("type") or "").startswith("math/")):
            has_formula = True
            walk.skip_subtree()
        elif inner.tag in NO_TEXT:
            walk.skip_subtree()
        elif _count(inner.text):
            return False
    return has_formula


def is_marked(element: Any) -> bool:
    """Whether an attribute says that the element is hidden."""
    style = element.get("style", "").replace(" ", "").lower()
    return (
        "hidden" in element.attrib
        or "popover" in element.attrib
        or any(mark in style for mark in ("display:none", "visibility:hidden", "opacity:0"))
    )


def is_inside(element: Any, some: Any) -> bool:
    """Whether the element or one around it is among `some`."""
    while element is not None:
        if element in some:
            return True
        element = element.getparent()
    return False
