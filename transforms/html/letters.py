"""Texts as letters and digits only, for comparing them regardless of spaces and punctuation."""

import re
import unicodedata

NOT_LETTERS = re.compile(r"[\W_]+")


def letters(text: str) -> str:
    """Letters and digits, in lower case."""
    return NOT_LETTERS.sub("", unicodedata.normalize("NFC", text)).lower()
