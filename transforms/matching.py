"""Judges values by the regular expressions of a rule, as Great Expectations does, and with the time limit that declared
ones have.
"""

from collections.abc import Mapping
from typing import Any

from almanac.core.patterns import TooSlow, search
from almanac.transforms.expectations import MET


def matched(value: Any, expectation: str, arguments: Mapping[str, Any]) -> str | None:
    """MET where a value is as the rule wants it; None for no value. One on which a pattern takes too long breaks the
    rule, whatever it wants.

    Args:
        value: A text, a number, a truth value or canonical JSON.
        expectation: A name of Great Expectations that ends with `match_regex` or `match_regex_list`, with `not_` before
            it or without.
        arguments: Its arguments, `regex`, or `regex_list` and `match_on` (`any`, the default, or `all`).
    """
    if value is None:
        return None
    patterns = arguments.get("regex_list") or [arguments["regex"]]
    try:
        matches = [search(pattern, str(value)) is not None for pattern in patterns]
    except TooSlow as error:
        return str(error)
    is_found = all(matches) if arguments.get("match_on") == "all" else any(matches)
    return MET if is_found != ("not_match" in expectation) else f"not {MET}"
