"""Declared regular expressions have a time limit."""

from collections.abc import Iterator

import pytest

from almanac.core import patterns
from almanac.core.patterns import TooSlow, first_group, search

_SLOW, _TEXT = "a{1,5000}a{1,5000}b", "a" * 5000


@pytest.fixture(autouse=True)
def _unspent() -> Iterator[None]:
    patterns._spent.clear()
    yield
    patterns._spent.clear()


def test_a_pattern_that_was_too_slow_has_less_time_for_the_next_text() -> None:
    with pytest.raises(TooSlow, match="longer than 1 s"):
        search(_SLOW, _TEXT)
    patterns._spent[_SLOW] = 10.0
    with pytest.raises(TooSlow, match=r"longer than 0\.01 s"):
        search(_SLOW, _TEXT)
    patterns._spent[_SLOW] = 60.0
    with pytest.raises(TooSlow, match=r"longer than 0\.001 s"):
        search(_SLOW, _TEXT)
    assert first_group(_SLOW, "aaab") == "aaab"
    assert search("another", "another") is not None
