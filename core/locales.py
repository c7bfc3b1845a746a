"""CLDR's locale of a language tag, for the notation of numbers, dates and prices."""

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from babel import Locale


def primary(language: str) -> str:
    """The primary subtag of a language tag: `vi` for `vi-VN`."""
    return language.replace("_", "-").partition("-")[0].lower()


@lru_cache(maxsize=256)
def locale_of(language: str) -> "Locale | None":
    """CLDR's locale for a BCP 47 tag, or for its primary language; None for `und`, `auto` and languages that CLDR
    lacks.
    """
    from babel import Locale, UnknownLocaleError  # a crawl, and the reading of a mail, need tags alone

    if primary(language) in ("und", "auto", ""):
        return None
    for tag in (language.replace("_", "-"), primary(language)):
        try:
            return Locale.parse(tag, sep="-")
        except (UnknownLocaleError, ValueError):
            continue
    return None
