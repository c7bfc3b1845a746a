"""Characters that no reader sees, and that make one text look like another to a machine: hidden instructions, spam
filters outwitted, remains of editors.
"""

import re

# Unicode's Default_Ignorable_Code_Point and the anchors of interlinear annotations. The joiners U+200C and U+200D are
# missing: Persian, Indic scripts and emoji are spelled with them. The fillers U+115F and U+1160 are below: they hold a
# place in syllables of old Hangul.
_RANGES = (
    (0x00AD, 0x00AD), (0x034F, 0x034F), (0x061C, 0x061C), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x200B, 0x200B), (0x200E,
    0x200F), (0x202A, 0x202E),
    (0x2060, 0x206F), (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFFB),
    (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A),
    (0xE0000, 0xE0FFF),
)  # fmt: skip
INVISIBLE = dict.fromkeys(code for first, last in _RANGES for code in range(first, last + 1))
"""Table for `str.translate` that removes them."""

_INITIAL, _MEDIAL, _FINAL = "\u1100-\u115e\ua960-\ua97c", "\u1161-\u11a7\ud7b0-\ud7c6", "\u11a8-\u11ff\ud7cb-\ud7fb"
# A filler that stands for a missing initial or medial letter belongs to its syllable.
_LONE_FILLERS = re.compile(rf"\u115f(?![{_MEDIAL}]|\u1160[{_FINAL}])|(?<![{_INITIAL}])\u1160(?![{_FINAL}])")


def without_invisible(text: str) -> str:
    """The text without tags, variation selectors, soft hyphens, marks of direction, zero-width spaces, fillers and
    invisible operators.
    """
    return text if text.isascii() else without_lone_fillers(text.translate(INVISIBLE))


def without_lone_fillers(text: str) -> str:
    """The text without Hangul fillers that belong to no syllable."""
    return _LONE_FILLERS.sub("", text) if "\u115f" in text or "\u1160" in text else text
