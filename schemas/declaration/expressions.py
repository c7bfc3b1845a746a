"""Types for expressions in a declaration, validated when it is loaded: regular expressions, CSS, XPath and JMESPath."""

from typing import Annotated

from pydantic import AfterValidator


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
    return value


def _jmespath(value: str) -> str:
    import jmespath
    from jmespath.exceptions import JMESPathError

    try:
        jmespath.compile(value)
    except JMESPathError as error:
        raise ValueError(f"not a JMESPath expression: {error}") from error
    return value


Regex = Annotated[str, AfterValidator(check_regex)]
Css = Annotated[str, AfterValidator(check_css)]
XPath = Annotated[str, AfterValidator(check_xpath)]
JmesPath = Annotated[str, AfterValidator(_jmespath)]
