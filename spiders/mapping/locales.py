"""What a language writes its numbers and dates with, by CLDR: the decimal mark, and whether the month comes first."""

from functools import lru_cache

from babel import Locale, UnknownLocaleError


def primary(language: str) -> str:
    """`vi` of `vi-VN`."""
    return language.replace("_", "-").partition("-")[0].lower()


@lru_cache(maxsize=256)
def locale_of(language: str) -> Locale | None:
    """CLDR's data on a BCP 47 tag, or on its language alone; None for `und` and languages that CLDR does not have."""
    if primary(language) in ("und", "auto", ""):
        return None
    for tag in (language.replace("_", "-"), primary(language)):
        try:
            return Locale.parse(tag, sep="-")
        except (UnknownLocaleError, ValueError):
            continue
    return None


def decimal_mark(language: str) -> str:
    """`.` or `,`. Where the language is not known, `.`, as in most data."""
    locale = locale_of(language)
    mark = locale.number_symbols.get("latn", {}).get("decimal", ".") if locale else "."
    return mark if mark in ".," else "."


def is_month_first(language: str) -> bool | None:
    """Whether 03/04/2024 is the fourth of March: in the United States and where English is named without a country. None where nobody can tell."""
    locale = locale_of(language)
    return None if locale is None else locale.date_formats["short"].pattern.lstrip("\u200e\u200f").startswith("M")
