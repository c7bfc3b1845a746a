"""Types for expressions in a declaration, validated when it is loaded: regular expressions, CSS, XPath and JMESPath."""

import re
from typing import Annotated

from pydantic import AfterValidator

# Functions of XPath 1.0 (section 4 of the recommendation), and `has-class` of parsel. Node tests and operators are
# written like calls, too.
_XPATH_FUNCTIONS = frozenset(
    {
        "last",
        "position",
        "count",
        "id",
        "local-name",
        "namespace-uri",
        "name",
        "string",
        "concat",
        "starts-with",
        "contains",
        "substring-before",
    }
    | {
        "substring-after",
        "substring",
        "string-length",
        "normalize-space",
        "translate",
        "boolean",
        "not",
        "true",
        "false",
        "lang",
        "number",
        "sum",
        "floor",
    }
    | {"ceiling", "round", "has-class"}
)
_NO_FUNCTIONS = frozenset({"text", "node", "comment", "processing-instruction", "and", "or", "div", "mod"})
_XPATH_LITERAL = re.compile(r"\"[^\"]*\"|'[^']*'")
_XPATH_CALL = re.compile(r"(?<![\w.:-])([^\W\d][\w.-]*)\s*\(")
_XPATH_VARIABLE = re.compile(r"\$\s*[^\W\d][\w.:-]*")
_JMESPATH_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# as keys are named, "Cena (zł)"; `$`, `/` and digits are of other languages
_QUOTABLE = re.compile(r"@?[^\W\d][\w -]*(?:\([^()]*\))?")
# What authors of XPath 2.0 and XSLT look for, and how XPath 1.0 says it.
_INSTEAD = {
    "matches": "re:test(., 'pattern')",
    "ends-with": "re:test(., 'end$')",
    "replace": "re:replace(., 'pattern', 'g', 'by'), or the field's `pattern`",
    "lower-case": "translate(., 'ABC…', 'abc…'), or re:test(., 'pattern', 'i')",
    "upper-case": "translate(., 'abc…', 'ABC…'), or re:test(., 'pattern', 'i')",
    "string-join": "the element itself, whose whole text is read, or `many: true` with `process: [join]`",
    "tokenize": "`process: [split]`",
    "distinct-values": "`many: true` with `process: [unique]`",
    "exists": "boolean(…)",
    "empty": "not(…)",
}


def check_regex(value: str) -> str:
    """Returns a regular expression, as the module `regex` understands it. Raises ValueError if it is none."""
    import regex  # type: ignore[import-untyped]  # ships no types

    try:
        regex.compile(value)
    except regex.error as error:
        raise ValueError(f"not a regular expression: {error}") from error
    return value


def check_css(value: str) -> str:
    """Returns a CSS selector. Raises ValueError if it is none."""
    from parsel.csstranslator import HTMLTranslator

    try:
        HTMLTranslator().css_to_xpath(value)
    except Exception as error:  # cssselect raises several unrelated types
        raise ValueError(f"not a CSS selector: {error}") from error
    return value


def check_xpath(value: str) -> str:
    """Returns an XPath expression. Raises ValueError if it is none."""
    from lxml import etree

    try:
        etree.XPath(value, namespaces={"re": "http://exslt.org/regular-expressions"})
    except etree.XPathError as error:
        raise ValueError(f"not an XPath expression: {error}") from error
    _check_names(_XPATH_LITERAL.sub("''", value))
    return value


def finds_elements(css: str | None, xpath: str | None) -> bool:
    """Whether a selector finds elements: no texts (`a::text`, `//a/text()`), attributes or numbers."""
    import parsel
    from parsel.csstranslator import HTMLTranslator

    path = HTMLTranslator().css_to_xpath(css) if css else xpath or ""
    try:
        roots = [match.root for match in parsel.Selector("<a>").xpath(path)]
    except ValueError:  # a prefix that only some pages declare
        roots = []
    step = path.rpartition("/")[2].strip()
    return step != "text()" and (step[:1] != "@" or "]" in step) and all(hasattr(root, "tag") for root in roots)


def _check_names(expression: str) -> None:
    """Raises ValueError for an unknown function and for a variable.

    libxml2 meets them only where a page leads it there: the rule would match nothing, and nobody would know why.
    """
    for name in _XPATH_CALL.findall(expression):
        if name not in _XPATH_FUNCTIONS and name not in _NO_FUNCTIONS:
            instead = f"; use {_INSTEAD[name]}" if name in _INSTEAD else ""
            raise ValueError(f"XPath 1.0 has no function {name}(){instead}")
    if variable := _XPATH_VARIABLE.search(expression):
        raise ValueError(f"nothing gives the variable {variable[0]} a value")


def _jmespath(value: str) -> str:
    import jmespath
    from jmespath.exceptions import JMESPathError

    try:
        jmespath.compile(value)
    except JMESPathError as error:
        raise ValueError(f"not a JMESPath expression{_quoting(value)}: {error}") from error
    return value


def _quoting(value: str) -> str:
    """How to write a path of names that JMESPath knows in quotes only, such as columns with spaces or accents; empty
    for what is no such path.
    """
    names = value.split(".")
    if not all(_QUOTABLE.fullmatch(name) for name in names):
        return ""
    quoted = ".".join(name if _JMESPATH_NAME.fullmatch(name) else f'"{name}"' for name in names)
    return f"; a name with such characters is quoted, in YAML '{quoted}'"


Regex = Annotated[str, AfterValidator(check_regex)]
Css = Annotated[str, AfterValidator(check_css)]
XPath = Annotated[str, AfterValidator(check_xpath)]
JmesPath = Annotated[str, AfterValidator(_jmespath)]
