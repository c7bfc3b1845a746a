"""Names of languages."""

from babel import Locale, UnknownLocaleError


def language_name(tag: str) -> str:
    """English name of a language with its tag: `Hebrew (he)` for `he`. An unknown tag is returned unchanged."""
    try:
        return f"{Locale.parse(tag, sep='-').english_name} ({tag})"
    except (UnknownLocaleError, ValueError):
        return tag
