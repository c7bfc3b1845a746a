"""When a pagination ends: where a page adds nothing to what the pages before it held.

Servers that are asked for a page too many answer 404, an empty list, or the last page again, for ever.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import parsel

from spiders.links import Road, json_of, spread
from spiders.mapping.embedded import find
from spiders.reading.content import Content

_FAILURES = 3
_TEXTS = "//text()[normalize-space() and not(ancestor::a or ancestor::script or ancestor::style or ancestor::option)]"


@dataclass(slots=True)
class Chain:
    """The pages of one pagination so far, as hashes of what they held."""

    seen: set[int] = field(default_factory=set)
    failures: int = 0  # in a row

    def may_pass_over(self) -> bool:
        """Whether to try the number after one that failed: a single broken page must not end a listing, a broken server should."""
        self.failures += 1
        return self.failures < _FAILURES

    def adds(self, marks: Iterable[str]) -> bool:
        """Takes in what a page holds, and tells whether any of it is new."""
        new = {hash(mark) for mark in marks} - self.seen
        self.seen |= new
        self.failures = 0
        return bool(new)


def marks_of(content: Content, road: Road) -> Iterator[str]:
    """What counts as added by a page: its cards, its items, or else the links that are followed from it, and its text where it is an item."""
    source = road.source
    if source.listing is not None:
        yield from (url for _, url in road.cards(content))
    elif source.each is not None:
        yield from map(_written, spread(find(content, source.each)))
    elif content.form == "json":
        body = json_of(content)
        if not _is_hollow(body):
            yield json.dumps(body, sort_keys=True)
    else:
        # Where items or links are declared, they are what counts: a clock on the page would be something new for ever.
        if road.may_be_item(content.url):
            yield from _texts(content)
        here = urlsplit(content.url).path
        # Links to the same path are most often the numbers of pages.
        yield from (link.url for link in road.links(content) if link.role == "link" and urlsplit(link.url).path != here)


def _written(match: Any) -> str:
    return str(match.get()) if isinstance(match, parsel.Selector) else json.dumps(match, sort_keys=True)


def _is_hollow(value: Any) -> bool:
    """Whether a JSON value is only the frame of an empty answer: `[]`, or `{"page": 9, "items": [], "total": 0}`."""
    if isinstance(value, dict):
        inner = list(value.values())
        return all(_is_hollow(one) or isinstance(one, int | float) for one in inner) and (not inner or any(isinstance(one, list | dict) for one in inner))
    return value in (None, "", [])


def _texts(content: Content) -> Iterator[str]:
    """Texts of a page. Those of links are left out, for the numbers of pages are among them, and so is the page's own number."""
    texts = content.selector.xpath(_TEXTS).getall() if content.form in ("html", "xml") else content.text.splitlines()
    numbers = {value for _, value in parse_qsl(urlsplit(content.url).query) if value.isdigit()}
    for text in texts:
        if words := [word for word in text.split() if word not in numbers]:
            yield " ".join(words)
