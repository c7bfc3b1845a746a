"""Superscripts and subscripts as Unicode characters, for formulas and for what is raised or lowered in running text:
x², 10⁻³, H₂O.
"""

import re
import unicodedata
from collections.abc import Sequence
from itertools import groupby
from typing import Any, Literal

from almanac.spiders.reading.own_sheets import styled_by_sheet
from almanac.spiders.reading.rewriting import remove, replace_by_text

Standing = Literal["sup", "sub", ""]

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
# What a raised or lowered text of running prose must look like to be a number or a variable: 1er, 2nd, Vmax and Mme
# stay as they are.
_NUMERIC = re.compile(rf"{_SIGN}?\d+{_SIGN}?|{_SIGN}|\(\d+\)")
_VARIABLE = re.compile(r"[nxykij]")
_TERM = re.compile(rf"(?=.*(?:[\d*/^]|{_SIGN}))(?:[\w*/.,^()⁰¹²³⁴-ⁿ ×·]|{_SIGN}){{2,30}}")
_NOTE = re.compile(r"note-?ref|(?:foot|end)-?note|fn-?ref|\bfn\b", re.IGNORECASE)
_MARK = re.compile(r"(?:[\[(]\s*)?(?:\d{1,4}|[a-z*†‡§¶])(?:\s*[\])])?(?:\s*,\s*\[?\d{1,4}\]?)*", re.IGNORECASE)
_OF_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
_SIGNS = {"TM": "™", "tm": "™", "SM": "℠"}
_WHOLE_PRICE = re.compile(r"(?:^|[^\d.,])(\d{1,3}(?:[.,\s]?\d{3})*)$")
_DECIMALS = re.compile(r"[.,](?:\d\d|[-–—]{1,2})\W{0,2}")  # .99 and ,- behind a price
_SLASHES = ("/", "⁄", "∕")
_INLINE = frozenset(
    {"span", "i", "em", "b", "strong", "a", "bdi", "small", "big", "font", "sup", "sub", "var", "u", "data"}
)
_STYLE_OF: dict[Standing, str] = {"sup": "vertical-align: super", "sub": "vertical-align: sub"}
_STYLES: dict[Standing, re.Pattern[str]] = {
    "sup": re.compile(r"vertical-align\s*:\s*super\b", re.IGNORECASE),
    "sub": re.compile(r"vertical-align\s*:\s*sub\b", re.IGNORECASE),
}
_UNLINKED = _INLINE - {"a", "sup", "sub"}  # what a style may raise or lower; a link to a note stays one
_MAX_BEFORE = 10  # elements
_AROUND = 30  # characters beside a raised text that tell what it is


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


def lowered(text: str) -> str:
    """The text with raised digits as plain ones."""
    return text.translate(_OF_SUPERSCRIPTS)


def standing_by_style(element: Any) -> Standing:
    """How the style attribute of an inline element has its text stand, as editors of documents write it:
    `vertical-align: super`.
    """
    style = (element.get("style") or "") if element.tag in _UNLINKED else ""
    return next((standing for standing, pattern in _STYLES.items() if pattern.search(style)), "")


def moved_by_sheet(root: Any) -> dict[Any, str]:
    """The inline elements that the page's own style sheets raise or lower, each with the style that does."""
    elements_by_style = {
        _STYLE_OF[standing]: styled_by_sheet(root, pattern, "vertical-align") for standing, pattern in _STYLES.items()
    }
    return {
        element: style
        for style, elements in elements_by_style.items()
        for element in elements
        if element.tag in _UNLINKED and not standing_by_style(element)
    }


def write_raised(root: Any) -> None:
    """Rewrites `<sup>`, `<sub>` and what a style attribute moves in place: numbers and variables as characters, `1/2`
    for raised over lowered digits.

    Footnote marks, which are links to a place on the page or a number in brackets, are removed. Raised words stay as
    they are written.
    """
    for element in root.iter(*_UNLINKED):
        if element is not root and (standing := standing_by_style(element)):
            element.tag = standing
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
    if (
        element.getparent() is None
        or below is None
        or below.tag != "sub"
        or (element.tail or "").strip() not in _SLASHES
    ):
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
    named = [node.get(name) or "" for node in (element, *links) for name in ("role", "epub:type", "class", "id")]
    return any("#" in (link.get("href") or "") for link in links) or any(map(_NOTE.search, named))


def scripted(text: str, before: str, after: str = "", *, is_raised: bool) -> str | None:
    """What a raised or lowered text of running prose is written as; None if it stays as it is, as the `th` of 5th does.

    Args:
        text: The text that stands higher or lower than its line.
        before: What stands right before it on the line.
        after: What follows it.
        is_raised: Whether it stands higher.
    """
    if is_raised:
        if text in _SIGNS:
            return _SIGNS[text]
        if (cents := _cents(text, before, after)) is not None:
            return cents
    characters = superscript if is_raised else subscript
    if _NUMERIC.fullmatch(text) or (_VARIABLE.fullmatch(text) and before[-1:].isalnum() and not _is_word(before)):
        return characters(text)
    if (
        len(text) > 1
        and before[-1:]
        and (before[-1:].isalnum() or before[-1:] in ")]")
        and _TERM.fullmatch(text)
        and not text.isalpha()
    ):
        return characters(text.replace(" ", ""))
    return None


def raised_in(stretches: Sequence[tuple[str, Standing]]) -> list[str]:
    """The texts of a paragraph's stretches, as office files have them, with what is raised or lowered written as that
    in `<sup>` and `<sub>` is.

    Stretches that stand alike, one after the other, are one: its text is that of the first of them.
    """
    written = [text for text, _ in stretches]
    groups = [
        list(group)
        for _, group in groupby(
            (place for place, text in enumerate(written) if text), key=lambda place: stretches[place][1]
        )
    ]
    whole = ["".join(written[place] for place in group) for group in groups]
    standing = [stretches[group[0]][1] for group in groups]
    texts = [text.strip() for text in whole]
    for number, group in enumerate(groups):
        before = "".join(whole[max(0, number - _AROUND) : number])[-_AROUND:]  # none is empty
        after = "".join(whole[number + 1 : number + 1 + _AROUND])[:_AROUND]
        if not standing[number] or not texts[number]:
            continue
        if (
            standing[number : number + 3] == ["sup", "", "sub"]
            and texts[number + 1] in _SLASHES
            and texts[number].isdecimal()
        ):
            shown: str | None = (" " if before[-1:].isdigit() else "") + texts[number]
        elif (
            standing[max(0, number - 2) : number + 1] == ["sup", "", "sub"]
            and texts[number - 1] in _SLASHES
            and texts[number].isdecimal()
        ):
            shown = texts[number]
        else:
            shown = scripted(texts[number], before, after, is_raised=standing[number] == "sup")
        if shown is not None:
            for place in group:
                written[place] = ""
            written[group[0]] = whole[number].replace(texts[number], shown)
    return written


def _cents(text: str, before: str, after: str) -> str | None:
    """Cents that are raised behind the whole part of a price, with the mark between them where it is missing; None if
    the text is none.
    """
    if before[-1:].isdigit() and _DECIMALS.fullmatch(text):
        return text
    if not re.fullmatch(r"\d\d\W?", text):
        return None
    if re.search(r"\d\s?\W$", before) and _has_currency(before[-1:]):
        return text  # the currency is the mark: 12€⁹⁹
    whole = _WHOLE_PRICE.search(before)
    if whole is None or not _has_currency(before[: whole.start(1)].rstrip()[-1:] + text + after[:2]):
        return None
    return decimals_behind(whole[1], text)


def decimals_behind(whole: str, decimals: str) -> str:
    """Decimals with the mark that does not separate the thousands of the whole part."""
    return f"{',' if '.' in whole else '.'}{decimals}"


def _has_currency(text: str) -> bool:
    return any(unicodedata.category(character) == "Sc" for character in text)


def _written(element: Any, text: str) -> str | None:
    """The text that stands for the element; None if it stays as it is."""
    return scripted(text, _text_before(element), element.tail or "", is_raised=element.tag == "sup")


def _is_word(before: str) -> bool:
    """Whether the text ends with a word of several letters, which no exponent or index belongs to."""
    return len(before) > 1 and before[-1].isalpha() and before[-2].isalpha()


def _text_before(element: Any) -> str:
    """The text right before an element on its line, up to 30 characters, across the inline elements that it stands in
    and behind.
    """
    text = ""
    for _ in range(_MAX_BEFORE):
        if len(text) >= _AROUND:
            break
        previous, parent = element.getprevious(), element.getparent()
        if previous is not None:
            text = (previous.tail or "") + text
            if previous.tag in _INLINE:
                text = "".join(previous.itertext()) + text
            elif isinstance(previous.tag, str):
                break
            element = previous
            continue
        if parent is None:
            break
        text = (parent.text or "") + text
        if parent.getparent() is None or parent.tag not in _INLINE:
            break
        element = parent
    return text[-_AROUND:]
