"""Searches declared regular expressions with a time limit, so that catastrophic backtracking costs a second and not the run."""

from functools import lru_cache

import regex  # type: ignore[import-untyped]  # ships no types

LIMIT_S = 1.0


class TooSlow(ValueError):
    """A regular expression exceeded the time limit on a text."""


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> regex.Pattern[str]:
    return regex.compile(pattern)


def search(pattern: str, text: str) -> regex.Match[str] | None:
    """The first match anywhere in `text`, as `re.search`. Raises TooSlow after `LIMIT_S` seconds."""
    try:
        return _compiled(pattern).search(text, timeout=LIMIT_S)
    except TimeoutError as error:
        raise TooSlow(f"pattern took longer than {LIMIT_S:g} s: {pattern}") from error


def first_group(pattern: str, text: str) -> str | None:
    """The first group of the first match, or the whole match if the pattern has no group; None if there is no match. Raises TooSlow."""
    match = search(pattern, text)
    return None if match is None else match[1] if match.re.groups else match[0]
