"""Searches declared regular expressions with a time limit, so that catastrophic backtracking costs a text and not the
run.

A pattern that took too long for some texts has less time for each of the others, which is still a hundred times what
one without backtracking takes. Matching in linear time, as RE2 does, would need no limit, but takes no lookaround and
no backreference.
"""

import time
from collections import defaultdict
from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

import regex  # type: ignore[import-untyped]  # ships no types

# Seconds for one text, by those that the pattern has taken, in this process, on texts for which it took too long.
LIMITS_S = ((10.0, 1.0), (60.0, 0.01), (float("inf"), 0.001))

_T = TypeVar("_T")
# seconds that each pattern took on texts for which it took too long
_spent: defaultdict[str, float] = defaultdict(float)


class TooSlow(ValueError):
    """A regular expression exceeded the time limit on a text."""


@lru_cache(maxsize=1024)
def compiled(pattern: str, flags: int = 0) -> regex.Pattern[str]:
    """A pattern. Raises `regex.error` if it is none."""
    return regex.compile(pattern, flags)


def search(pattern: str, text: str) -> regex.Match[str] | None:
    """The first match anywhere in `text`, as `re.search`. Raises TooSlow after a second, or sooner if the pattern was
    too slow before.
    """
    return within_limit(pattern, lambda seconds: compiled(pattern).search(text, timeout=seconds))


def first_group(pattern: str, text: str) -> str | None:
    """The first group of the first match, or the whole match if the pattern has no group; None if there is no match.
    Raises TooSlow.
    """
    match = search(pattern, text)
    return None if match is None else match[1] if match.re.groups else match[0]


def within_limit(pattern: str, match: Callable[[float], _T]) -> _T:
    """The result of `match`, which is given the seconds that it may take, and raises TimeoutError beyond. Raises
    TooSlow then.
    """
    limit_s = next(limit_s for most_s, limit_s in LIMITS_S if _spent[pattern] < most_s)
    begun = time.monotonic()
    try:
        return match(limit_s)
    except TimeoutError as error:
        _spent[pattern] += time.monotonic() - begun
        raise TooSlow(f"pattern took longer than {limit_s:g} s: {pattern}") from error
