"""The regular expressions of XPath (`re:test`, `re:match`, `re:replace` of EXSLT), with the time limit that all
declared ones have.

lxml has these functions, too, and matches with `re`, which nothing bounds. A text on which a pattern takes too long has
no match, nor has any where what is given is no pattern.
"""

from typing import Any

import regex  # type: ignore[import-untyped]  # ships no types
from lxml import etree

from almanac.core.patterns import TooSlow, compiled, within_limit

_NAMESPACE = "http://exslt.org/regular-expressions"


def limit_xpath_patterns() -> None:
    """Puts these functions in the place of lxml's, for the whole process."""
    etree.FunctionNamespace(_NAMESPACE).update({"test": _test, "match": _match, "replace": _replace})


def _test(_: Any, text: Any, pattern: Any, flags: Any = "") -> bool:
    return (
        _apply_pattern(pattern, flags, lambda expression, seconds: expression.search(_text(text), timeout=seconds))
        is not None
    )


def _match(_: Any, text: Any, pattern: Any, flags: Any = "") -> list[Any]:
    """The first match and its groups as elements; with the flag g, all matches."""

    def match(expression: Any, seconds: float) -> list[str]:
        if "g" in _text(flags):
            return [
                "".join(groups) if isinstance(groups, tuple) else groups
                for groups in expression.findall(_text(text), timeout=seconds)
            ]
        first = expression.search(_text(text), timeout=seconds)
        return [] if first is None else [first.group(), *first.groups("")]

    root = etree.Element("matches")
    for matched in _apply_pattern(pattern, flags, match) or []:
        etree.SubElement(root, "match").text = matched
    return list(root)


def _replace(_: Any, text: Any, pattern: Any, flags: Any, replacement: Any) -> str:
    count = 0 if "g" in _text(flags) else 1
    replaced = _apply_pattern(
        pattern,
        flags,
        lambda expression, seconds: expression.sub(_text(replacement), _text(text), count=count, timeout=seconds),
    )
    return _text(text) if replaced is None else str(replaced)


def _apply_pattern(pattern: Any, flags: Any, match: Any) -> Any:
    written = _text(pattern)
    try:
        expression = compiled(written, regex.IGNORECASE if "i" in _text(flags) else 0)
        return within_limit(written, lambda seconds: match(expression, seconds))
    except (TooSlow, regex.error):  # XPath may put a pattern together of what stands on the page
        return None


def _text(value: Any) -> str:
    """The text of what XPath passes on: of nodes, that of the first one."""
    if isinstance(value, list):
        value = value[0] if value else ""
    return "".join(value.itertext()) if isinstance(value, etree._Element) else str(value)
