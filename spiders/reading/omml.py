"""Writes a formula of Word (OMML) on one line, by way of MathML: `(a+b)/2`, `x²`, `√(a+b)`. Its bare texts would make
12 of one half.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any

from lxml import etree

from almanac.spiders.reading.mathml import formula_text
from almanac.spiders.reading.mathml_parts import MAX_DEPTH

M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_W_TEXT = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}t"
_TOKENS = re.compile(r"(?P<mn>\d+(?:[.,]\d+)*)|(?P<mi>[^\W\d_])|(?P<mtext>\s+)|(?P<mo>.)")
_LIMITS = {"undOvr": ("munder", "mover", "munderover"), "subSup": ("msub", "msup", "msubsup")}


def omml_text(math: Any) -> str:
    """The text of an `m:oMath`; empty if it has none."""
    written = etree.Element("math")
    written.extend(_inside(math, 0))
    return formula_text(written).strip() or _bare(math)


def _bare(element: Any) -> str:
    return "".join(inner.text or "" for inner in element.iter(f"{M}t", _W_TEXT)).strip()


def _inside(element: Any, depth: int) -> list[Any]:
    """What an element holds, as MathML. Its properties hold no text."""
    if element is None:
        return []
    if depth > MAX_DEPTH:
        return [_made("mtext", text=_bare(element))]
    return [
        one
        for child in element
        if isinstance(child.tag, str) and not child.tag.endswith("Pr")
        for one in _written(child, depth + 1)
    ]


def _written(element: Any, depth: int) -> list[Any]:
    name = element.tag.removeprefix(M)
    if name in ("t", _W_TEXT):
        return _tokens(element.text or "")
    if name == "r" and element.find(f"{M}rPr/{M}nor") is not None:
        return [_made("mtext", text=_bare(element))]
    write = _WRITERS.get(name)
    return [write(element, depth)] if write is not None else _inside(element, depth)


def _tokens(text: str) -> list[Any]:
    return [_made(found.lastgroup or "mo", text=found.group()) for found in _TOKENS.finditer(text)]


def _made(tag: str, inner: Iterable[Any] = (), *, text: str = "") -> Any:
    element = etree.Element(tag)
    element.text = text or None
    element.extend(inner)
    return element


def _part(element: Any, name: str, depth: int) -> Any:
    return _made("mrow", _inside(element.find(f"{M}{name}"), depth))


def _property(element: Any, name: str, default: str) -> str:
    found = element.find(f"{M}{element.tag.removeprefix(M)}Pr/{M}{name}")
    return default if found is None else str(found.get(f"{M}val", default))


def _of_parts(tag: str, *names: str) -> Callable[[Any, int], Any]:
    return lambda element, depth: _made(tag, [_part(element, name, depth) for name in names])


def _fraction(element: Any, depth: int) -> Any:
    fraction = _of_parts("mfrac", "num", "den")(element, depth)
    if _property(element, "type", "bar") == "noBar":
        fraction.set("linethickness", "0")
    return fraction


def _root(element: Any, depth: int) -> Any:
    index = _part(element, "deg", depth)
    return (
        _of_parts("mroot", "e", "deg")(element, depth)
        if len(index)
        else _made("msqrt", _inside(element.find(f"{M}e"), depth))
    )


def _sum(element: Any, depth: int) -> Any:
    """A sum, an integral or the like, with its limits, before what it is of."""
    sign = _made("mo", text=_property(element, "chr", "∫"))
    below, above = _part(element, "sub", depth), _part(element, "sup", depth)
    only_below, only_above, both = _LIMITS.get(_property(element, "limLoc", "subSup"), _LIMITS["subSup"])
    limits = [limit for limit in (below, above) if len(limit)]
    signed = (
        _made(both if len(limits) == 2 else only_below if len(below) else only_above, [sign, *limits])
        if limits
        else sign
    )
    return _made("mrow", [signed, *_inside(element.find(f"{M}e"), depth)])


def _bracketed(element: Any, depth: int) -> Any:
    separator = _property(element, "sepChr", "|")
    parts: list[Any] = []
    for inner in element.findall(f"{M}e"):
        parts += [_made("mo", text=separator)] if parts and separator else []
        parts.append(_made("mrow", _inside(inner, depth)))
    opening, closing = _property(element, "begChr", "("), _property(element, "endChr", ")")
    return _made(
        "mrow",
        [*([_made("mo", text=opening)] if opening else []), *parts, *([_made("mo", text=closing)] if closing else [])],
    )


def _function(element: Any, depth: int) -> Any:
    """A function such as sin or lim, whose name is one word, before what it is of."""
    name = element.find(f"{M}fName")
    is_plain = name is not None and all(child.tag == f"{M}r" or child.tag.endswith("Pr") for child in name)
    written = _made("mi", text=_bare(name)) if is_plain else _part(element, "fName", depth)
    return _made("mrow", [written, *_inside(element.find(f"{M}e"), depth)])


def _accent(element: Any, depth: int) -> Any:
    return _made("mover", [_part(element, "e", depth), _made("mo", text=_property(element, "chr", "\u0302"))])


def _matrix(element: Any, depth: int) -> Any:
    rows = ([_made("mtd", _inside(cell, depth)) for cell in row.findall(f"{M}e")] for row in element.findall(f"{M}mr"))
    return _made("mtable", [_made("mtr", row) for row in rows])


def _lines(element: Any, depth: int) -> Any:
    return _made("mtable", [_made("mtr", [_made("mtd", _inside(line, depth))]) for line in element.findall(f"{M}e")])


def _before(element: Any, depth: int) -> Any:
    """Scripts in front of a symbol: ¹⁴₆C."""
    scripts = [_part(element, "sub", depth), _part(element, "sup", depth)]
    return _made("mmultiscripts", [_part(element, "e", depth), _made("mprescripts"), *scripts])


_WRITERS: dict[str, Callable[[Any, int], Any]] = {
    "f": _fraction,
    "sSup": _of_parts("msup", "e", "sup"),
    "sSub": _of_parts("msub", "e", "sub"),
    "sSubSup": _of_parts("msubsup", "e", "sub", "sup"),
    "limLow": _of_parts("munder", "e", "lim"),
    "limUpp": _of_parts("mover", "e", "lim"),
    "sPre": _before,
    "rad": _root,
    "nary": _sum,
    "d": _bracketed,
    "func": _function,
    "acc": _accent,
    "m": _matrix,
    "eqArr": _lines,
}
