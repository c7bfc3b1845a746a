"""Parts of a MathML formula: its tokens as text, and which groups of elements need brackets when they are written on
one line.
"""

import re
import unicodedata
from dataclasses import dataclass
from html import unescape
from typing import Any

from almanac.spiders.reading.rewriting import local_name

TOKENS = frozenset({"mi", "mn", "mo", "mtext", "ms"})
ROWS = frozenset({"math", "mrow", "mstyle", "mpadded", "merror", "menclose", "mtd", "semantics"})
SCRIPTS = frozenset({"msub", "msup", "msubsup", "munder", "mover", "munderover", "mmultiscripts"})
_UNSEEN = frozenset(
    {"annotation", "annotation-xml", "mphantom", "none", "mprescripts", "malignmark", "maligngroup", "script", "style"}
)
RELATIONS = frozenset("=<>≤≥≠≈≡≢∼≃≅∝→←↔⇒⇐⇔↦⟶⟵⟹⟸⟺∈∉∋⊂⊃⊆⊇⊊≪≫≺≻∣⊢⊨⇌⇀≜≔≐≦≧⩽⩾") | {":=", "==", "!=", "<=", ">=", "->", "=>"}
_BIG = frozenset("∑∏∐∫∬∭∮∯⋃⋂⨁⨂⨀⋁⋀⨆")
_OPENING, _CLOSING = "([{⟨⌊⌈|‖∥", ")]}⟩⌋⌉|‖∥"
_OPERATORS = re.compile(r"[+\-−±∓=<>,;:∪∩∧∨⊕⊗]")
_INVISIBLE = re.compile("[\u2061-\u2064\u200b-\u200d\u2060\ufeff\ufe0e\ufe0f]")
MAX_DEPTH = 60  # levels; what lies deeper is written without its structure


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a row. `kind` is how it stands beside others: space, relation, comma, operator, word, fraction, big (an
    operator with limits), or term.
    """

    text: str
    kind: str = "term"


def children_of(element: Any) -> list[Any]:
    return [child for child in element if local_name(child) and local_name(child) not in _UNSEEN]


def kind_of(element: Any) -> str:
    inner = unwrapped(element)
    name = local_name(inner)
    if name in TOKENS:
        return token(inner, name).kind
    return "fraction" if name == "mfrac" else "big" if name in SCRIPTS and has_limits(inner) else "term"


def token(element: Any, name: str) -> Piece:
    text = plain("".join(element.itertext()))
    if name == "mtext":
        return Piece(re.sub(r"\s+", " ", text), "word" if text.strip() else "space")
    text = "".join(text.split()) if name != "mo" else " ".join(text.split())
    if name == "ms":
        return Piece(f'"{text}"', "word")
    if name == "mi" and element.get("mathvariant") == "double-struck":
        text = "".join(map(_double_struck, text))
    if name == "mn" or not text:
        return Piece(text)
    if text.isalpha() and len(text) > 1:
        return Piece(text, "word")
    if name == "mi" and (text.isalnum() or len(text) > 1):
        return Piece(text)
    return Piece(
        "−" if text == "-" else text,
        "relation" if text in RELATIONS else "comma" if text in (",", ";", ":") else "operator",
    )


def plain(text: str) -> str:
    """The text without invisible operators, mathematical letters as plain ones, but double-struck ones as they are."""
    text = _INVISIBLE.sub("", unescape(text) if "&" in text else text).replace("\xa0", " ")
    if text.isascii():
        return text
    return "".join(
        unicodedata.normalize("NFKC", c)
        if "\U0001d400" <= c <= "\U0001d7ff" and "DOUBLE-STRUCK" not in unicodedata.name(c, "")
        else c
        for c in text
    )


def _double_struck(letter: str) -> str:
    for name in (f"DOUBLE-STRUCK CAPITAL {letter}", f"MATHEMATICAL DOUBLE-STRUCK CAPITAL {letter}"):
        try:
            return unicodedata.lookup(name) if letter.isupper() else letter
        except KeyError:
            continue
    return letter


def unwrapped(element: Any) -> Any:
    """The element, or what it holds if it only groups one other."""
    for _ in range(MAX_DEPTH):
        inner = children_of(element)
        if local_name(element) not in ROWS or not inner or (len(inner) > 1 and local_name(element) != "semantics"):
            return element
        element = inner[0]
    return element


def _parts(element: Any) -> list[Any]:
    """The element's children, and those of groups in it that are not bracketed together."""
    element = unwrapped(element)
    return children_of(element) if local_name(element) in ROWS else [element]


def is_bracketed(element: Any) -> bool:
    """Whether the element is one pair of brackets around everything else."""
    element = unwrapped(element)
    if local_name(element) == "mfenced":
        return True
    parts = children_of(element)
    if local_name(element) not in ROWS or len(parts) < 2:
        return False
    depth = 0
    for number, part in enumerate(parts):
        text = plain("".join(part.itertext())).strip() if local_name(part) == "mo" else ""
        if text and text in "|‖∥":
            if number not in (0, len(parts) - 1):
                return False
            depth += 1 if number == 0 else -1
        elif text:
            depth += (text in _OPENING) - (text in _CLOSING)
        if depth == 0 and number < len(parts) - 1:
            return False
    return depth == 0


def has_limits(element: Any) -> bool:
    """Whether the base of scripts is a sum, an integral, or a name such as lim and sin: what follows is parted from the
    scripts.
    """
    base = children_of(element)[:1]
    inner = unwrapped(base[0]) if base else None
    if inner is None or local_name(inner) not in TOKENS:
        return False
    piece = token(inner, local_name(inner))
    return piece.text in _BIG or (piece.kind == "word" and local_name(inner) != "mtext")


def is_single(element: Any) -> bool:
    """Whether a script or a root can follow or precede the element without brackets."""
    inner = unwrapped(element)
    name = local_name(inner)
    if name in ("mover", "munder"):
        return len(children_of(inner)) > 0 and is_single(children_of(inner)[0])
    return (
        name in TOKENS or name in ("mfenced", "mtable") or not "".join(inner.itertext()).strip() or is_bracketed(inner)
    )


def is_product(numerator: Any) -> bool:
    """Whether a numerator needs no brackets: no sum, fraction or comma outside of brackets. A sign may precede it."""
    if is_bracketed(numerator):
        return True
    for number, part in enumerate(_parts(numerator)):
        inner = unwrapped(part)
        name = local_name(inner)
        text = plain("".join(inner.itertext())).strip()
        if name == "mfrac" or (
            name in ("mo", "mi") and _OPERATORS.fullmatch(text) and not (number == 0 and text in "-−")
        ):
            return False
        if name in ROWS and not is_bracketed(inner) and not is_product(inner):
            return False
        if name in ("mtext", "mspace") and len(_parts(numerator)) > 1:
            return False
    return True


def is_factor(denominator: Any) -> bool:
    """Whether a denominator needs no brackets: a single term with its scripts, a root, or a differential such as dx."""
    parts = _parts(denominator)
    if len(parts) == 2 and plain("".join(parts[0].itertext())).strip() in ("d", "∂"):
        parts = parts[1:]
    if len(parts) > 1:
        return is_bracketed(denominator) or _is_call(parts)
    return not parts or is_single(parts[0]) or local_name(unwrapped(parts[0])) in {*SCRIPTS, "msqrt", "mroot"}


def _is_call(parts: list[Any]) -> bool:
    """Whether the elements are a name with an argument in brackets: `P(A)`."""
    texts = [plain("".join(part.itertext())).strip() for part in parts if local_name(part) == "mo"]
    texts = [text for text in texts if text]
    return (
        local_name(unwrapped(parts[0])) == "mi"
        and texts[:1] == ["("]
        and texts[-1] == ")"
        and len(texts) == 2
        and len(parts) < 6
    )


def are_bracketed(elements: list[Any]) -> bool:
    texts = [plain("".join(element.itertext())).strip() for element in elements]
    return texts[0] == "(" and texts[-1] == ")" and texts.count("(") == 1 and texts.count(")") == 1
