"""HTML that is escaped, or in a CDATA section: the text of an XML element, as feeds hold their descriptions and
contents, or a text of JSON.
"""

import copy
import html
import re
from typing import Any

from lxml.html import defs

from almanac.core.control_characters import without_controls
from almanac.spiders.reading.markup import parse_markup
from almanac.spiders.reading.rewriting import local_name

_TAG = re.compile(r"</?([a-z][a-z0-9]*|[A-Z][A-Z0-9]+|P)(?:\s[^<>]*)?/?>")  # not the `<String>` of `List<String>`
_ESCAPED = re.compile(r"\s*&(?:lt|#60|#x3c);[a-zA-Z]", re.IGNORECASE)
_ENTITY = re.compile(r"&(?:[a-zA-Z][a-zA-Z0-9]+|#\d+|#x[0-9a-fA-F]+);")
# What feeds hold texts in. Of a whole item, others are left alone: a title that names a tag is more likely than one set
# in bold.
_TEXTS = frozenset({"description", "encoded", "summary", "content", "content_encoded", "fulltext"})
_FEEDS = frozenset({"rss", "feed", "rdf"})


def unescaped(text: str) -> str:
    """A text that is escaped HTML, without a tag of its own, such as `&lt;p&gt;Hello&lt;/p&gt;`, as HTML; any other
    unchanged.
    """
    if not (_ESCAPED.match(text) and "<" not in text):
        return text
    written = html.unescape(text)
    return written if _has_tags(written) else text


def with_markup_parsed(element: Any) -> Any:
    """An element of XML, as a copy with the HTML that is its text as elements; itself where there is none.

    Of a larger part of a feed, that is done for descriptions, summaries and contents. Atom's `type` counts: `text` is
    left alone, `html` always parsed.
    """
    if not isinstance(element.tag, str):
        return element
    is_feed = local_name(element.getroottree().getroot()) in _FEEDS
    if not (
        any(map(_is_text_of_feed, element.iter()))
        if is_feed and len(element)
        else not len(element) and _holds_html(element)
    ):
        return element
    work = copy.deepcopy(element)
    work.tail = None
    for leaf in [node for node in work.iter() if _is_text_of_feed(node)] if len(work) else [work]:
        _parse_text(leaf)
    return work


def _is_text_of_feed(element: Any) -> bool:
    return not len(element) and local_name(element) in _TEXTS and _holds_html(element)


def _holds_html(element: Any) -> bool:
    kind, text = (element.get("type") or "").lower(), element.text or ""
    if kind in ("text", "text/plain") or not text.strip():
        return False
    return kind in ("html", "text/html") or _has_tags(text) or bool(_ENTITY.search(text))


def _has_tags(text: str) -> bool:
    return any(match[1].lower() in defs.tags for match in _TAG.finditer(text))


def _parse_text(leaf: Any) -> None:
    text = leaf.text
    if not _has_tags(text):
        leaf.text = without_controls(html.unescape(text))
        return
    body = parse_markup(text).root.find("body")
    leaf.text = None
    if body is not None:
        leaf.text = body.text
        leaf.extend(body)
