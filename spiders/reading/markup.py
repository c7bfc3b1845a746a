"""Parses arbitrary HTML and XML into a tree safely: endless nesting, unclosed tags, a hundred thousand attributes."""

import re
from collections import Counter
from html import escape

import parsel
from lxml import etree
from lxml import html as lxml_html

from almanac.core.control_characters import without_controls

# libxml2 stops at 2048 levels and drops the rest of the page; recursive functions fail earlier. Browsers flatten at
# 512.
MAX_DEPTH = 256
# libxml2 compares each attribute with all before it: 100,000 in one tag took 100 s.
MAX_ATTRIBUTES = 200

_TOO_DEEP = etree.XPath("boolean(" + "/*" * (MAX_DEPTH + 1) + ")")
_ATTRIBUTE = r"""(?:[^>"'=]++|=\s*+"[^"]*+"|=\s*+'[^']*+'|[="'])"""
_RAW = (
    r"<!--.*?(?:-->|\Z)|<(?P<raw>"
    r"script|style|textarea|title|xmp|iframe|noembed|noframes)\b.*?(?:</(?P=raw)|\Z)|<!\[CDATA\[(?P<cdata>"
    r".*?)(?:\]\]>|\Z)"
)
_TAG = re.compile(rf"{_RAW}|<(?P<end>/?)(?P<name>[a-zA-Z][^\s/>]*+){_ATTRIBUTE}*+(?:>|\Z)", re.DOTALL | re.IGNORECASE)
_LONG_TAG = re.compile(rf"<[a-zA-Z](?=[^<>]{{{MAX_ATTRIBUTES * 4}}}){_ATTRIBUTE}*+>?")
_ONE_ATTRIBUTE = re.compile(r"""[^\s"'>/=]++(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s"'>]*+))?""")
# Pages in which CDATA sections are text; in plain HTML they are comments.
_IS_XHTML = re.compile(r"\bxmlns\b|<(?:svg|math)\b", re.IGNORECASE)
# Content after </html>, which browsers show and libxml2 drops.
_GOES_ON = re.compile(r"</html\s*+>\s*+(?:<!--(?:[^-]|-(?!->))*+-->\s*+)*+[^\s<]|</html\s*+>\s*+<[a-z]", re.IGNORECASE)
# A page of frames has no markup of its own but what stands in <noframes>, which HTML takes for text.
_FRAMESET = re.compile(r"<frameset\b", re.IGNORECASE)
_NOFRAMES = re.compile(r"<(/?)noframes\b", re.IGNORECASE)
_VOID = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"}
)
_CLOSED_BY_ITSELF = frozenset({"p", "li", "dt", "dd", "td", "th", "tr", "option"})
_INLINE = frozenset({
    "a", "abbr", "b", "big", "bdi", "bdo", "cite", "code", "em", "font", "i", "kbd", "mark", "q", "s", "samp",
    "small", "span", "strike", "strong", "sub", "sup", "tt", "u", "var",
})  # fmt: skip


def parse_markup(text: str, form: str = "html") -> parsel.Selector:
    """A selector on HTML or, with `form="xml"`, on XML. Never raises, and loses no text of an element.

    In XML, elements without a prefix are in no namespace, and those with one are found by it (`entry`, `dc:creator`).

    Elements below level 256 are merged into their ancestor; only the first 200 attributes of a tag count. An empty text
    gives an empty element. Takes linear time, about 0.1 s per megabyte.
    """
    is_xml = form == "xml"
    text = without_controls(text if is_xml else text.replace("\f", " "))  # libxml2 ends a document at NUL
    if not is_xml and "<![CDATA[" in text and _IS_XHTML.search(text):
        text = _TAG.sub(_without_cdata, text)
    if not is_xml and _GOES_ON.search(text):
        text = _TAG.sub(lambda tag: "" if tag["end"] and tag["name"].lower() in ("html", "body") else tag[0], text)
    if not is_xml and _FRAMESET.search(text):
        text = _NOFRAMES.sub(r"<\1div", text)
    text = _LONG_TAG.sub(_with_fewer_attributes, text)
    root = _parse(text, is_xml)
    if root is None or _TOO_DEEP(root):
        root = _parse(_flattened(text, is_xml), is_xml)
    if root is None and is_xml:  # no element at all
        return parse_markup(text)
    return (
        parsel.Selector(root=root, type="xml", namespaces=_as_written(root))
        if is_xml
        else parsel.Selector(root=root, type="html")
    )


def _as_written(root: etree._Element) -> dict[str, str]:
    """Names elements without a prefix as they are written, `entry`, and returns the namespaces of all prefixes, so that
    `dc:creator` is found, too.
    """
    prefixes: dict[str, str] = {}
    for element in root.iter(etree.Element):
        for prefix, namespace in (
            element.nsmap.items() if element.getparent() is None or element.nsmap != element.getparent().nsmap else ()
        ):
            if prefix and namespace:
                prefixes.setdefault(prefix, namespace)
        if element.prefix is None and element.tag.startswith("{"):
            element.tag = element.tag.partition("}")[2]
    return prefixes


def _parse(text: str, is_xml: bool) -> etree._Element | None:
    """The root; None if there is none or the parser gave up at its depth limit."""
    options = {"recover": True, "encoding": "utf-8", "huge_tree": True}
    parser = (
        etree.XMLParser(**options, resolve_entities=False, no_network=True)
        if is_xml
        else lxml_html.HTMLParser(**options)
    )
    try:
        root = etree.fromstring(text.strip().encode("utf-8", "replace") or b"<html/>", parser)
    except etree.XMLSyntaxError:
        return None
    if root is None:
        return None if is_xml else lxml_html.fromstring("<html/>")
    return None if any("depth" in entry.message for entry in parser.error_log) else root


def _without_cdata(match: re.Match[str]) -> str:
    return escape(match["cdata"], quote=False) if match["cdata"] else match[0]


def _with_fewer_attributes(tag: re.Match[str]) -> str:
    if tag[0].count("=") + tag[0].count(" ") <= MAX_ATTRIBUTES:
        return tag[0]
    attributes = []
    for attribute in _ONE_ATTRIBUTE.finditer(tag[0], 1):
        attributes.append(attribute[0])
        if len(attributes) > MAX_ATTRIBUTES:
            break
    return "<" + " ".join(attributes) + ">"


def _flattened(text: str, is_xml: bool) -> str:
    """The markup without the tags below a depth that the parser is certain to accept."""
    void = frozenset() if is_xml else _VOID
    limit = MAX_DEPTH - 20  # the parser adds elements: html, body, tbody …
    open_names: list[str] = []
    is_open: Counter[str] = Counter()
    dropped: Counter[str] = Counter()

    def close(name: str) -> None:
        while open_names:
            last = open_names.pop()
            is_open[last] -= 1
            if last == name:
                return

    def keep(tag: re.Match[str]) -> str:
        if tag["name"] is None or tag[0].endswith("/>"):
            return tag[0]
        name = tag["name"] if is_xml else tag["name"].lower()
        if name in void:
            return tag[0]
        gap = "" if name in _INLINE else " "
        if tag["end"]:
            if dropped[name]:
                dropped[name] -= 1
                return gap
            if is_open[name]:
                close(name)
            return tag[0]
        if not is_xml and name in _CLOSED_BY_ITSELF and open_names and open_names[-1] == name:
            close(name)
        if len(open_names) >= limit:
            dropped[name] += 1
            return gap
        open_names.append(name)
        is_open[name] += 1
        return tag[0]

    return _TAG.sub(keep, text)
