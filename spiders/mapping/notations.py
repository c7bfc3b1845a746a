"""Notation of numbers and dates by language, from CLDR: the decimal mark, and whether the month comes first."""

from almanac.core.locales import locale_of


def decimal_mark(language: str) -> str:
    """The decimal mark, `.` or `,`; `.` where the language is not known, as in most data."""
    locale = locale_of(language)
    mark = locale.number_symbols.get("latn", {}).get("decimal", ".") if locale else "."
    return mark if mark in ".," else "."


def is_month_first(language: str) -> bool | None:
    """Whether 03/04/2024 is the fourth of March (United States, and English without a region). None if the language is
    not known.
    """
    locale = locale_of(language)
    return None if locale is None else locale.date_formats["short"].pattern.lstrip("\u200e\u200f").startswith("M")
