"""Tells matches that hold from prices that were struck out, so that a rule for "the price" does not read the old
one.
"""

import re
from collections.abc import Iterable

import parsel
from lxml import etree

from almanac.schemas.left_out import LeaveOut, untold
from almanac.spiders.reading.struck import CURRENT_XPATH, holds_only_struck_price, is_in_struck_price


def current_first(matches: list[parsel.Selector], scope: parsel.Selector, xpath: str) -> list[parsel.Selector]:
    """Matches of `xpath` in `scope`, those in no struck price before the others, each in their order."""
    flags = _struck(matches, scope, xpath)
    return _where(matches, flags, False) + _where(matches, flags, True)


def current_only(
    matches: list[parsel.Selector], scope: parsel.Selector, xpath: str, leave_out: LeaveOut = untold
) -> list[parsel.Selector]:
    """Matches without those in a struck price, of which `leave_out` is told, unless all of them are: then the rule asks
    for them.
    """
    flags = _struck(matches, scope, xpath)
    current = _where(matches, flags, False)
    for struck in _where(matches, flags, True) if current else ():
        leave_out("struck_prices", str(struck.xpath("string()").get() or ""), struck.root)
    return current or matches


def _where(matches: list[parsel.Selector], flags: list[bool], wanted: bool) -> list[parsel.Selector]:
    return [match for match, flag in zip(matches, flags, strict=True) if flag is wanted]


def _struck(matches: list[parsel.Selector], scope: parsel.Selector, xpath: str) -> list[bool]:
    """For each match, whether it is, is in or only holds a struck price. `matches` may be in another order than that of
    the page.
    """
    if isinstance(matches[0].root, etree._Element):
        elements = [match.root for match in matches]
        return [
            isinstance(element, etree._Element) and (is_in_struck_price(element) or holds_only_struck_price(element))
            for element in elements
        ]
    if not isinstance(matches[0].root, str) or not any(map(_has_digit, matches)):
        return [False] * len(matches)
    current = _counted(match.root for match in scope.xpath(f"({xpath}){CURRENT_XPATH}"))
    flags = []
    for match in matches:
        left = current.get(match.root, 0)
        current[match.root] = left - 1
        flags.append(left <= 0 and _has_digit(match))
    return flags


def _has_digit(match: parsel.Selector) -> bool:
    return re.search(r"\d", str(match.root)) is not None


def _counted(texts: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for text in texts:
        counts[text] = counts.get(text, 0) + 1
    return counts
