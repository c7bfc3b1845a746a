"""Tells matches that hold from prices that were struck out, so that a rule for "the price" does not read the old
one.
"""

import re
from collections.abc import Iterable

import parsel
from lxml import etree

from almanac.schemas.left_out import LeaveOut, untold
from almanac.spiders.reading.struck import CURRENT_XPATH, holds_only_struck_price, is_in_struck_price


def current_first(found: list[parsel.Selector], scope: parsel.Selector, xpath: str) -> list[parsel.Selector]:
    """Matches of `xpath` in `scope`, those in no struck price before the others, each in their order."""
    flags = _struck(found, scope, xpath)
    return _where(found, flags, False) + _where(found, flags, True)


def current_only(
    found: list[parsel.Selector], scope: parsel.Selector, xpath: str, leave_out: LeaveOut = untold
) -> list[parsel.Selector]:
    """Matches without those in a struck price, of which `leave_out` is told, unless all of them are: then the rule asks
    for them.
    """
    flags = _struck(found, scope, xpath)
    current = _where(found, flags, False)
    for struck in _where(found, flags, True) if current else ():
        leave_out("struck_prices", str(struck.xpath("string()").get() or ""), struck.root)
    return current or found


def _where(found: list[parsel.Selector], flags: list[bool], wanted: bool) -> list[parsel.Selector]:
    return [match for match, flag in zip(found, flags, strict=True) if flag is wanted]


def _struck(found: list[parsel.Selector], scope: parsel.Selector, xpath: str) -> list[bool]:
    """For each match, whether it is, is in or only holds a struck price. `found` may be in another order than that of
    the page.
    """
    if isinstance(found[0].root, etree._Element):
        elements = [match.root for match in found]
        return [
            isinstance(one, etree._Element) and (is_in_struck_price(one) or holds_only_struck_price(one))
            for one in elements
        ]
    if not isinstance(found[0].root, str) or not any(map(_has_digit, found)):
        return [False] * len(found)
    current = _counted(match.root for match in scope.xpath(f"({xpath}){CURRENT_XPATH}"))
    flags = []
    for match in found:
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
