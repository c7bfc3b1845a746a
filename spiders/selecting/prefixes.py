"""Namespace prefixes of selectors: which of them a document does not declare, so that nothing can match."""

import re
from functools import lru_cache

import parsel

_LITERAL = re.compile(r""""[^"]*"|'[^']*'""")
_PREFIXED = re.compile(r"(?<![\w.])([^\W\d][\w.-]*):(\*|[^\W\d][\w.-]*)")  # not `child::item`
_SHOWN = 8


def undeclared(scope: parsel.Selector, xpath: str) -> str | None:
    """What is wrong with a prefix of an expression that the document of `scope` does not declare, with what to write;
    None if all are declared.
    """
    qualified_name = next(((prefix, name) for prefix, name in _prefixed(xpath) if prefix not in scope.namespaces), None)
    if qualified_name is None:
        return None
    prefix, name = qualified_name
    if scope.type != "xml":
        return (
            f"the prefix '{prefix}' is not declared, as none is in HTML: `*[name()='{prefix}:{name}']` finds an "
            "element that is written so"
        )
    written = f"{prefix}:{name}"
    if scope.xpath("boolean(//*[name() = $written])", written=written).get() == "1":
        return (
            f"the prefix '{prefix}' is used in this document, which does not declare it: `*[name()='{written}']` "
            "finds what is written so"
        )
    usual = parsel.Selector(root=scope.root, type="xml").namespaces
    known = sorted(scope.namespaces.keys() - usual.keys())
    declared = (
        f"declares {', '.join(known[:_SHOWN])}{', …' if len(known) > _SHOWN else ''}" if known else "declares none"
    )
    return (
        f"the prefix '{prefix}' is not declared in this document, which {declared}: `*[local-name()='{name}']` "
        "finds elements whatever their prefix"
    )


def is_named_otherwise(scope: parsel.Selector, xpath: str) -> bool:
    """Whether elements that an expression means by an undeclared prefix are there under another one, or under one that
    nothing declares.
    """
    missed = [(prefix, name) for prefix, name in _prefixed(xpath) if prefix not in scope.namespaces and name != "*"]
    return any(
        scope.xpath("boolean(//*[local-name() = $name or name() = $written])", name=n, written=f"{p}:{n}").get() == "1"
        for p, n in missed
    )


@lru_cache(maxsize=1024)
def _prefixed(xpath: str) -> tuple[tuple[str, str], ...]:
    return tuple((match[1], match[2]) for match in _PREFIXED.finditer(_LITERAL.sub("''", xpath)))
