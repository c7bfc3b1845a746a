"""Superscripts and subscripts as Unicode characters, for formulas and for the `<sup>` and `<sub>` of running text: x², 10⁻³, H₂O."""

import re
import unicodedata
from typing import Any

from almanac.spiders.reading.rewriting import remove, replace_by_text

_MINUS = "-−‐‑–"
_SIGN = rf"[+{re.escape(_MINUS)}]"
_SUPERSCRIPTS = {
    **dict(zip("0123456789+=()", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁼⁽⁾", strict=True)),
    **dict.fromkeys(_MINUS, "⁻"),
    **dict(zip("abcdefghijklmnoprstuvwxyz", "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ", strict=True)),
    **dict(zip("ABDEGHIJKLMNOPRTUVW", "ᴬᴮᴰᴱᴳᴴᴵᴶᴷᴸᴹᴺᴼᴾᴿᵀᵁⱽᵂ", strict=True)),
    **dict(zip("βγδθφχ", "ᵝᵞᵟᶿᵠᵡ", strict=True)),
    **{mark: mark for mark in "′″‴*†‡°"},
    "∘": "°",
    "'": "′",
}
_SUBSCRIPTS = {
    **dict(zip("0123456789+=()", "₀₁₂₃₄₅₆₇₈₉₊₌₍₎", strict=True)),
    **dict.fromkeys(_MINUS, "₋"),
    **dict(zip("aehijklmnoprstuvx", "ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ", strict=True)),
    **dict(zip("βγρφχ", "ᵦᵧᵨᵩᵪ", strict=True)),
}
# What a raised or lowered text of running prose must look like to be a number or a variable: 1er, 2nd, Vmax and Mme stay as they are.
_NUMERIC = re.compile(rf"{_SIGN}?\d+{_SIGN}?|{_SIGN}|\(\d+\)")
_VARIABLE = re.compile(r"[nxykij]")
_TERM = re.compile(rf"(?=.*(?:[\d*/^]|{_SIGN}))(?:[\w*/.,^()⁰¹²³⁴-ⁿ ×·]|{_SIGN}){{2,30}}")
_MARK = re.compile(r"(?:[\[(]\s*)?(?:\d{1,4}|[a-z*†‡§¶])(?:\s*[\])])?(?:\s*,\s*\[?\d{1,4}\]?)*", re.IGNORECASE)
_SIGNS = {"TM": "™", "tm": "™", "SM": "℠"}
_PRICE = re.compile(r"(?:^|[^\d.,])\d{1,3}(?:[.,\s]?\d{3})*$")
_COST_CLASS = re.compile(r"price|amount|prix|preis|precio|prezzo", re.IGNORECASE)


def superscript(text: str) -> str:
    """The text raised: in Unicode characters where all exist, else `^q` or `^(a/b)`."""
    return _in_characters(text, _SUPERSCRIPTS, "^")


def subscript(text: str) -> str:
    """The text lowered: in Unicode characters where all exist, else `_b` or `_(A,B)`."""
    return _in_characters(text, _SUBSCRIPTS, "_")


def _in_characters(text: str, characters: dict[str, str], mark: str) -> str:
    if all(character in characters for character in text):
        return "".join(characters[character] for character in text)
    return f"{mark}{text}" if len(text) == 1 else f"{mark}({text})"


def write_raised(root: Any) -> None:
    """Rewrites `<sup>` and `<sub>` in place: numbers and variables as Unicode characters, `1/2` for raised over lowered digits.

    Footnote marks, which are links to a place on the page or a number in brackets, are removed. Raised words stay as they are written.
    """
    for element in list(root.iter("sup")):
        _write_fraction(element)
    for element in reversed(list(root.iter("sup", "sub"))):  # inner ones first
        if element is root or element.getparent() is None:
            continue
        text = " ".join("".join(element.itertext()).split())
        if _is_footnote_mark(element, text):
            remove(element)
        elif (written := _written(element, text)) is not None:
            replace_by_text(element, written)


def _write_fraction(element: Any) -> None:
    """Writes raised digits over lowered ones as `1/2`, with a space after a whole number."""
    below = element.getnext()
    if element.getparent() is None or below is None or below.tag != "sub" or (element.tail or "").strip() not in ("/", "⁄", "∕"):
        return
    upper, lower = ("".join(part.itertext()).strip() for part in (element, below))
    if upper.isdecimal() and lower.isdecimal():
        gap = " " if _text_before(element)[-1:].isdigit() else ""
        element.tail = "/"
        replace_by_text(below, lower)
        replace_by_text(element, gap + upper)


def _is_footnote_mark(element: Any, text: str) -> bool:
    if element.tag != "sup" or not _MARK.fullmatch(text):
        return False
    if text.startswith("["):
        return True
    links = [*element.iter("a"), *(ancestor for ancestor in element.iterancestors("a"))]
    return any("#" in (link.get("href") or "") or "noteref" in (link.get("role") or "") + (link.get("epub:type") or "") for link in links)


def _written(element: Any, text: str) -> str | None:
    """The text that stands for the element; None if it stays as it is."""
    before = _text_before(element)
    return scripted(text, before, is_raised=element.tag == "sup", is_price=_is_in_price(element, before))


def scripted(text: str, before: str, *, is_raised: bool, is_price: bool = False) -> str | None:
    """What a raised or lowered text of running prose is written as; None if it stays as it is.

    Args:
        text: The text that stands higher or lower than its line.
        before: What stands right before it on the line.
        is_raised: Whether it stands higher.
        is_price: Whether both belong to an amount of money, whose cents are raised.
    """
    if is_raised:
        if text in _SIGNS:
            return _SIGNS[text]
        if is_price and len(text) == 2 and text.isdigit() and _PRICE.search(before):
            return f".{text}"
    if _NUMERIC.fullmatch(text) or (_VARIABLE.fullmatch(text) and before[-1:].isalnum() and not _is_word(before)):
        return superscript(text) if is_raised else subscript(text)
    if len(text) > 1 and before[-1:] and (before[-1:].isalnum() or before[-1:] in ")]") and _TERM.fullmatch(text) and not text.isalpha():
        plain = text.replace(" ", "")
        return superscript(plain) if is_raised else subscript(plain)
    return None


def _is_word(before: str) -> bool:
    """Whether the text ends with a word of several letters, which no exponent or index belongs to."""
    return len(before) > 1 and before[-1].isalpha() and before[-2].isalpha()


def _is_in_price(element: Any, before: str) -> bool:
    around = element.getparent()
    return shows_currency(before + (element.tail or "")[:5]) or _COST_CLASS.search(around.get("class") or "") is not None


def shows_currency(text: str) -> bool:
    """Whether a text holds the sign of a currency."""
    return any(unicodedata.category(character) == "Sc" for character in text)


def _text_before(element: Any) -> str:
    """The text right before an element, up to 30 characters of the same parent, or of the parent's own predecessor where it comes first."""
    for _ in range(3):
        previous = element.getprevious()
        text = element.getparent().text or "" if previous is None else previous.tail or "".join(previous.itertext())
        if text or previous is not None:
            return str(text)[-30:]
        element = element.getparent()
        if element.getparent() is None or element.tag not in ("span", "i", "em", "b", "strong", "a", "bdi", "small", "font"):
            break
    return ""
