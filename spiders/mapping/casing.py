"""Small and capital letters by the rules of a language: Turkish and Azerbaijani have an i with a dot and one without, in both cases."""

import re

from almanac.core.locales import primary

_TWO_I = frozenset(("tr", "az"))
_LEADING_I = re.compile(r"(?<![^\W\d_])i")


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
    """The text with a capital at the head of each word, and small letters behind it."""
    return (_LEADING_I.sub("İ", lower(text, language)) if has_two_i(language) else text).title()
