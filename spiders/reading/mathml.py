"""Writes a MathML formula on one line: `(a+b)/(c+d)`, `x²+y² = z²`, `√(a+b)`, `∑ᵢ₌₁ⁿ i²`, `(a b; c d)` for a matrix."""

import re
import unicodedata
from typing import Any

from almanac.spiders.reading.mathml_parts import (
    MAX_DEPTH,
    RELATIONS,
    ROWS,
    SCRIPTS,
    TOKENS,
    Piece,
    are_bracketed,
    children_of,
    has_limits,
    is_bracketed,
    is_factor,
    is_product,
    is_single,
    kind_of,
    plain,
    token,
)
from almanac.spiders.reading.raised import subscript, superscript
from almanac.spiders.reading.rewriting import local_name

_ACCENTS = {
    **dict.fromkeys("^ˆ\u0302", "\u0302"),
    **dict.fromkeys("¯‾―_─\u0304\u0305", "\u0304"),
    **dict.fromkeys("~˜∼\u0303", "\u0303"),
    **dict.fromkeys("→⇀⃗", "\u20d7"),
    **dict.fromkeys("˙.\u0307", "\u0307"),
    **dict.fromkeys("¨\u0308", "\u0308"),
    **dict.fromkeys("ˇ\u030c", "\u030c"),
    **dict.fromkeys("´\u0301", "\u0301"),
    **dict.fromkeys("`\u0300", "\u0300"),
    **dict.fromkeys("˘\u0306", "\u0306"),
    **dict.fromkeys("˚\u030a", "\u030a"),
}
_LINES = frozenset("_―¯‾─\u0332")
_BRACES = frozenset("⏞⏟⎴⎵⏜⏝︷︸﹇﹈")
_ROOTS = {"2": "√", "3": "∛", "4": "∜"}


def formula_text(math: Any) -> str:
    """The formula of a `<math>` element, in one line; empty if it has none.

    Fractions are written with a slash, with brackets where they are needed. Superscripts and subscripts are Unicode
    characters where all exist, else `^(…)` and `_(…)`. Relations have spaces around them, rows of a matrix are parted
    by semicolons, invisible operators are left out.
    """
    return " ".join(unicodedata.normalize("NFC", _row(children_of(math), 0, spaced=True)).split())


def _row(elements: list[Any], depth: int, *, spaced: bool = False) -> str:
    pieces = [piece for element in elements for piece in _pieces(element, depth, spaced) if piece.text]
    text, before = "", None
    for number, piece in enumerate(pieces):
        following = pieces[number + 1] if number + 1 < len(pieces) else None
        text += " " if before is not None and _are_apart(before, piece, following, spaced) else ""
        text += piece.text
        before = None if piece.kind == "comma" and _is_in_number(pieces, number) else piece
    return text


def _is_in_number(pieces: list[Piece], number: int) -> bool:
    """Whether a comma groups the digits of a number: 1,000."""
    around = pieces[number - 1 : number] + pieces[number + 1 : number + 2]
    return (
        pieces[number].text == ","
        and len(around) == 2
        and around[0].text.isdigit()
        and around[1].text.isdigit()
        and len(around[1].text) == 3
    )


def _are_apart(before: Piece, piece: Piece, following: Piece | None, spaced: bool) -> bool:
    kinds = {before.kind, piece.kind}
    if "space" in kinds:
        return False
    if "relation" in kinds:
        return spaced
    if before.kind == "comma":
        return (spaced and not (before.text == ":" and piece.text[0].isdigit())) or piece.kind == "word"
    last, first = before.text[-1], piece.text[0]
    starts = first.isalnum() or first in "√∛∜∑∏∫∞∂"
    ends = last.isalnum() or last in ")]}" or unicodedata.combining(last) > 0
    if "word" in kinds:
        return (
            starts and ends and (following is None or following.text != "(" or piece.kind != "term" or last.isalnum())
        )
    if "fraction" in kinds:
        return starts and (last.isalnum() or before.kind == "fraction")
    if before.kind == "big":
        return starts or first in "(["
    return last.isdigit() and first.isdigit() and last.isdecimal() and first.isdecimal()


def _pieces(element: Any, depth: int, spaced: bool) -> list[Piece]:
    """The element as parts of a row; several for an element that only groups others."""
    name = local_name(element)
    if depth > MAX_DEPTH:
        return [Piece(plain("".join(element.itertext())))]
    if name in TOKENS:
        return [token(element, name)]
    if name == "semantics":
        first = children_of(element)[:1]
        return _pieces(first[0], depth + 1, spaced) if first else []
    if name == "maction":
        chosen = children_of(element)[:1]
        return _pieces(chosen[0], depth + 1, spaced) if chosen else []
    if name in ROWS:
        inner = _row(children_of(element), depth + 1, spaced=spaced) if len(element) else plain(element.text or "")
        kind = kind_of(element) if len(children_of(element)) == 1 else "term"
        return [Piece(inner, kind)]
    if name == "mspace":
        width = element.get("width") or "0"
        return (
            [Piece(" ", "space")]
            if element.get("linebreak") == "newline" or not re.match(r"\s*(?:-|negative|0*\.?0*(?:[a-z]|$))", width)
            else []
        )
    if name in SCRIPTS:
        return [_scripts(element, name, depth)]
    written = _WRITERS.get(name)
    if written is not None:
        return [Piece(written(element, depth), "fraction" if name == "mfrac" else "term")]
    return [Piece(_row(children_of(element), depth + 1) if len(element) else plain(element.text or ""))]


def _grouped(element: Any, depth: int) -> str:
    text = _row([element], depth + 1)
    return text if not text or is_single(element) else f"({text})"


def _fraction(element: Any, depth: int) -> str:
    above, below = (*children_of(element), None, None)[:2]
    if above is None or below is None:
        return _row(children_of(element), depth + 1)
    upper, lower = _row([above], depth + 1), _row([below], depth + 1)
    if re.match(r"\s*0+(?:\.0*)?(?:[a-z]|$)", element.get("linethickness") or ""):
        return f"{upper} choose {lower}"
    return f"{upper if is_product(above) else f'({upper})'}/{lower if is_factor(below) else f'({lower})'}"


def _root(element: Any, depth: int) -> str:
    children = children_of(element)
    if local_name(element) == "msqrt":
        inner, index = children, "2"
    else:
        inner, index = children[:1], _row(children[1:2], depth + 1)
    sign = _ROOTS.get(index) or f"{superscript(index)}√"
    text = _row(inner, depth + 1) if inner else plain(element.text or "")
    is_bare = len(inner) == 1 and is_single(inner[0])
    if not is_bare and len(inner) > 1 and local_name(element) == "msqrt":
        is_bare = is_bracketed(element) or are_bracketed(inner)
    return f"{sign}{text}" if is_bare or len(text) < 2 else f"{sign}({text})"


def _scripts(element: Any, name: str, depth: int) -> Piece:
    children = children_of(element) if name != "mmultiscripts" else [child for child in element if local_name(child)]
    if not children:
        return Piece(plain(element.text or ""))
    base = children[0]
    kind = "big" if has_limits(element) else "term"
    if name == "mmultiscripts":
        return Piece(_multiscripts(children, depth), kind)
    texts = [_row([child], depth + 1).strip() for child in children[1:3]]
    if name in ("mover", "munder") and len(texts) == 1:
        accented = _accented(_row([base], depth + 1), texts[0], above=name == "mover")
        if accented is not None:
            return Piece(accented, kind_of(base))
    below, above = (*(["", *texts] if name in ("msup", "mover") else texts), "", "")[:2]
    text = _grouped(base, depth)
    if not text:  # scripts in front of a symbol: ¹⁴₆C
        return Piece(_above(above) + _below(below))
    if text in RELATIONS:
        kind = "relation"
    return Piece(text + _below(below) + _above(above), kind)


def _above(text: str) -> str:
    return superscript(text) if text else ""


def _below(text: str) -> str:
    return subscript(text) if text else ""


def _accented(base: str, mark: str, *, above: bool) -> str | None:
    """The base with an accent, or without a brace over or under it; None if the mark is neither."""
    if mark in _BRACES:
        return base
    if not above:
        return f"{base}\u0332" if mark in _LINES and len(base) == 1 else base if mark in _LINES else None
    if mark not in _ACCENTS or not base:
        return None
    if len(base) > 1 and mark in _LINES:
        return "".join(f"{character}\u0305" for character in base)
    return base + _ACCENTS[mark]


def _multiscripts(children: list[Any], depth: int) -> str:
    base = children[0]
    after: list[str] = []
    before: list[str] = []
    side = after
    for child in children[1:]:
        if local_name(child) == "mprescripts":
            side = before
        else:
            side.append("" if local_name(child) == "none" else _row([child], depth + 1).strip())
    written = [[_below("".join(side[0::2])), _above("".join(side[1::2]))] for side in (before, after)]
    return "".join(written[0][::-1]) + _grouped(base, depth) + "".join(written[1])


def _fenced(element: Any, depth: int) -> str:
    separators = "".join((element.get("separators", ",")).split())
    parts = [_row([child], depth + 1) for child in children_of(element)]
    text = parts[0] if parts else ""
    for number, part in enumerate(parts[1:]):
        mark = separators[min(number, len(separators) - 1)] if separators else ""
        text += f"{mark} {part}" if mark in (",", ";") else f"{mark}{part}"
    return f"{element.get('open', '(')}{text}{element.get('close', ')')}"


def _table(element: Any, depth: int) -> str:
    rows = []
    for row in children_of(element):
        cells = children_of(row)[1:] if local_name(row) == "mlabeledtr" else children_of(row)
        rows.append(" ".join(text for cell in cells if (text := _row([cell], depth + 1, spaced=True).strip())))
    return "; ".join(row for row in rows if row)


_WRITERS = {"mfrac": _fraction, "msqrt": _root, "mroot": _root, "mfenced": _fenced, "mtable": _table}
