"""Text of PDFs that is written from right to left: which pages are, and ligatures, whose letters PDFium hands over in
the wrong order.
"""

import re
import unicodedata
from collections.abc import Callable

Box = tuple[float, float, float, float]  # left, bottom, right, top, in points from the lower left corner of the page

RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]")
# Unicode's Hebrew and Arabic ligatures
_LIGATURE_FORMS = (range(0xFB4F, 0xFB50), range(0xFBEA, 0xFDFC), range(0xFEF5, 0xFEFD))


def _ligatures() -> frozenset[str]:
    """The letters of each ligature as they are read, without marks that PDFs write as glyphs of their own."""
    forms = (unicodedata.normalize("NFKC", chr(code)) for codes in _LIGATURE_FORMS for code in codes)
    return frozenset(form for form in forms if len(form) > 1 and all(unicodedata.category(c) == "Lo" for c in form))


_LIGATURES = _ligatures()
# Ligatures back to front. What is one in either direction (lam before meem, and meem before lam) is left as it comes.
_REVERSED = re.compile(
    "|".join(sorted((form[::-1] for form in _LIGATURES if form[::-1] not in _LIGATURES), key=len, reverse=True))
)


def runs_right_to_left(text: str) -> bool:
    """Whether most letters of a text belong to scripts that are written from right to left."""
    count = len(RIGHT_TO_LEFT.findall(text))
    return count > 0 and 2 * count > sum(map(str.isalpha, text))


def with_ligatures(text: str, box_of: Callable[[int], Box | None]) -> str:
    """The text with the letters of each ligature in the order in which they are read; no other character moves.

    `box_of` gives the place of the character at an index. PDFium turns a line from right to left around character by
    character, those inside one glyph, too: of lam and alef in one glyph comes alef and lam, which is the article in
    every other place. Letters of one glyph have one and the same place.
    """

    parts: list[str] = []
    done = 0
    while (match := _REVERSED.search(text, done)) is not None:
        start, end = match.span()
        first = box_of(start)
        is_one_glyph = first is not None and all(box_of(index) == first for index in range(start + 1, end))
        parts.append(text[done:start] + match[0][::-1] if is_one_glyph else text[done : start + 1])
        done = end if is_one_glyph else start + 1
    return "".join(parts) + text[done:]
