"""Values are judged by regular expressions as Great Expectations judges them, within a time limit."""

from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from almanac.core import patterns
from almanac.transforms.expectations import MET
from almanac.transforms.matching import matched

_TEXTS = (
    st.text("ab1. ", max_size=6)
    | st.integers(-50, 50)
    | st.booleans()
    | st.floats(allow_nan=False, allow_infinity=False)
)
_PATTERNS = st.sampled_from(["a", "^a", "b$", r"\d+", "^$", "(a|b)1", "True", r"\.", "^(?:ab)"])


@given(_TEXTS, _PATTERNS, _PATTERNS)
def test_as_the_library_does(value: Any, first: str, second: str) -> None:
    column = pd.Series([value], dtype=object).astype(str)
    has_first, has_second = (bool(column.str.contains(pattern)[0]) for pattern in (first, second))
    both = {"regex_list": [first, second]}
    assert (matched(value, "expect_column_values_to_match_regex", {"regex": first}) == MET) == has_first
    assert (matched(value, "expect_column_values_to_not_match_regex", {"regex": first}) == MET) == (not has_first)
    assert (matched(value, "expect_column_values_to_match_regex_list", both) == MET) == (has_first or has_second)
    assert (matched(value, "expect_column_values_to_match_regex_list", {**both, "match_on": "all"}) == MET) == (
        has_first and has_second
    )
    assert (matched(value, "expect_column_values_to_not_match_regex_list", both) == MET) == (
        not (has_first or has_second)
    )


@pytest.mark.parametrize(
    "expectation", ["expect_column_values_to_match_regex", "expect_column_values_to_not_match_regex"]
)
def test_what_takes_too_long_breaks_the_rule(expectation: str) -> None:
    slow = "a{1,5000}a{1,5000}b"
    patterns._spent[slow] = 60.0
    assert "took longer than" in (matched("a" * 5000, expectation, {"regex": slow}) or "")
    assert matched(None, expectation, {"regex": slow}) is None
    patterns._spent.clear()
