"""Small and capital letters by the rules of a language: Turkish and Azerbaijani have an i with a dot and one without,
in both cases.
"""

import re

from almanac.core.locales import primary

_TWO_I = frozenset(("tr", "az"))
_WORD = re.compile(r"[^\W_](?:['’ʼ]?[^\W_]|[\u0300-\u036f])*")  # with its accents: don't, l’école, 3rd


def has_two_i(language: str) -> bool:
    """Whether the language writes İ for a capital i, and ı for a small I."""
    return primary(language) in _TWO_I


def lower(text: str, language: str) -> str:
    """The text in small letters."""
    return (text.replace("İ", "i").replace("I", "ı") if has_two_i(language) else text).lower()


def upper(text: str, language: str) -> str:
    """The text in capital letters."""
    return (text.replace("i", "İ") if has_two_i(language) else text).upper()


def title(text: str, language: str) -> str:
    """The text with a capital at the head of each word, and small letters behind it. An apostrophe is inside a word:
    Don't, L'école.
    """
    return _WORD.sub(lambda word: _head(word[0][0], language) + word[0][1:], lower(text, language))


def _head(letter: str, language: str) -> str:
    return "İ" if letter == "i" and has_two_i(language) else letter.title()
