"""Texts as letters and digits only, for comparing them regardless of spaces and punctuation."""

import re
import unicodedata

NOT_LETTERS = re.compile(r"[\W_]+")


# A character of these scripts says about as much as two letters.
_DENSE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\U00020000-\U0003ffff]")


def weight(text: str) -> int:
    """How much a text says: its letters and digits; a character of Chinese, Japanese or Korean counts as two."""
    compact = NOT_LETTERS.sub("", text)
    return len(compact) + len(_DENSE.findall(compact))


def letters(text: str) -> str:
    """Letters and digits, in lower case."""
    return NOT_LETTERS.sub("", unicodedata.normalize("NFC", text)).lower()
