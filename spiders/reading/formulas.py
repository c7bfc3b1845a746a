"""Replaces the formulas of a page by one text each.

KaTeX, MathJax and Wikipedia write a formula two or three times: MathML for screen readers, its TeX source, and glyphs
or an image to look at. Kept is the source, as its author wrote it; where there is none, the text of the MathML.
"""

import re
from collections.abc import Iterator
from typing import Any

from lxml import etree, html

from almanac.core.control_characters import without_controls
from almanac.spiders.reading.mathml import formula_text
from almanac.spiders.reading.rewriting import class_names, local_name, remove, replace_by_text

# Elements that hold one formula in all its forms.
_RENDERED = frozenset(
    {"katex", "katex-display", "MathJax", "MathJax_Display", "MathJax_SVG", "MathJax_SVG_Display", "MathJax_CHTML"}
    | {"mjx-chtml", "mwe-math-element", "ltx_Math"}
)
_TEX = re.compile("x-tex|latex|^tex$", re.IGNORECASE)  # encodings of an annotation
_TEX_ATTRIBUTES = ("alttext", "data-latex", "data-tex", "alt")


def write_formulas(root: Any) -> None:
    """Replaces each formula in the tree by its text, in place."""
    for preview in [element for element in root.iter("span", "div") if "MathJax_Preview" in class_names(element)]:
        if preview.getparent() is not None and not (preview.tail or "").strip() and _is_formula(preview.getnext()):
            remove(preview)  # what stands there until the formula is drawn
    formulas, waiting = [], [root]
    while waiting:
        element = waiting.pop()
        if _is_formula(element):
            formulas.append(element)
        else:
            waiting += [child for child in reversed(element) if isinstance(child.tag, str)]
    for element in formulas:
        following = element.getnext()
        is_source = following is not None and following.tag == "script" and _is_formula(following)
        if is_source and element.tag != "script" and not (element.tail or "").strip():
            remove(element)  # MathJax puts the source behind what it draws
        elif text := _text_of(element):
            _replace(element, text)


def _is_formula(element: Any) -> bool:
    if element is None or not isinstance(element.tag, str):
        return False
    if element.tag == "script":
        return (element.get("type") or "").startswith("math/")
    is_drawn = element.tag in ("span", "div", "nobr") and not _RENDERED.isdisjoint(class_names(element))
    return is_drawn or local_name(element) in ("math", "mjx-container")


def _text_of(element: Any) -> str:
    """The TeX source of a formula, else the text of its MathML, else what it is called or says."""
    if element.tag == "script" and "mml" not in (element.get("type") or ""):
        return element.text or ""
    if tex := next(filter(None, (source for whole in _wholes(element) for source in _sources(whole))), ""):
        return tex
    markup = element.text if element.tag == "script" else element.get("data-mathml")
    holder = html.fragment_fromstring(markup, create_parent="div") if markup else element
    for math in holder.iter(etree.Element):
        if local_name(math) == "math" and (text := formula_text(math)):
            return text
    return element.get("aria-label") or "".join(element.itertext())


def _wholes(element: Any) -> list[Any]:
    """What stands in a formula for all of it; the sources of its parts are not its own."""
    images = list(element.iter("img"))
    return [
        element,
        *(part for part in element.iterdescendants(etree.Element) if _is_whole(part)),
        *(images if len(images) == 1 and not "".join(element.itertext()).strip() else ()),
    ]


def _is_whole(element: Any) -> bool:
    is_whole = local_name(element) in ("math", "mjx-math", "svg") or element.get("data-mml-node") == "math"
    return is_whole and "math" not in map(local_name, element.iterancestors())


def _sources(element: Any) -> Iterator[str | None]:
    if local_name(element) == "math" and [*map(local_name, element.iterchildren(etree.Element))] == ["semantics"]:
        for note in next(element.iterchildren(etree.Element)):
            if local_name(note) == "annotation" and _TEX.search(note.get("encoding") or ""):
                yield "".join(note.itertext())
    yield from map(element.get, _TEX_ATTRIBUTES)


def _replace(element: Any, text: str) -> None:
    """Puts the formula in the element's place; a block stays one."""
    text = " ".join(text.split())
    if element.tag == "div" and element.getparent() is not None:
        tail = element.tail
        element.clear()
        element.text, element.tail = without_controls(text), tail
    else:
        is_displayed = "block" in (element.get("display") or "") or any(
            "isplay" in name for name in class_names(element)
        )
        replace_by_text(element, f" {text} " if is_displayed else text)
