"""Notation of numbers and dates by language, from CLDR: the decimal mark, and whether the month comes first."""

from functools import lru_cache

from babel import Locale, UnknownLocaleError


def primary(language: str) -> str:
    """The primary subtag of a language tag: `vi` for `vi-VN`."""
    return language.replace("_", "-").partition("-")[0].lower()


@lru_cache(maxsize=256)
def locale_of(language: str) -> Locale | None:
    """CLDR's locale for a BCP 47 tag, or for its primary language; None for `und`, `auto` and languages that CLDR lacks."""
    if primary(language) in ("und", "auto", ""):
        return None
    for tag in (language.replace("_", "-"), primary(language)):
        try:
            return Locale.parse(tag, sep="-")
        except (UnknownLocaleError, ValueError):
            continue
    return None


def decimal_mark(language: str) -> str:
    """The decimal mark, `.` or `,`; `.` where the language is not known, as in most data."""
    locale = locale_of(language)
    mark = locale.number_symbols.get("latn", {}).get("decimal", ".") if locale else "."
    return mark if mark in ".," else "."


def is_month_first(language: str) -> bool | None:
    """Whether 03/04/2024 is the fourth of March (United States, and English without a region). None if the language is not known."""
    locale = locale_of(language)
    return None if locale is None else locale.date_formats["short"].pattern.lstrip("\u200e\u200f").startswith("M")
