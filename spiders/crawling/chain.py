"""When a pagination ends: where a page adds nothing to what the pages before it held, or three in a row that each name a next one.

Servers that are asked for a page too many answer 404, an empty list, or the last page again, for ever.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import parsel

from almanac.schemas.reports import FailedPage
from almanac.spiders.reading.content import Content
from almanac.spiders.selecting.embedded import find
from almanac.spiders.selecting.links import UrlPolicy, json_of, spread

_FAILURES = 3
_REPEATS = 3
_TEXTS = "//text()[normalize-space() and not(ancestor::a or ancestor::script or ancestor::style or ancestor::option)]"


@dataclass(slots=True)
class Chain:
    """The pages of one pagination so far, as hashes of what they held."""

    seen: set[int] = field(default_factory=set)
    failures: int = 0  # in a row
    repeats: int = 0  # pages in a row that added nothing
    doubtful: list[FailedPage] = field(default_factory=list)  # numbers beyond the last page, unless a later one is a page

    def may_pass_over(self) -> bool:
        """Whether to try the number after one that failed: a single broken page must not end a listing, a broken server should."""
        self.failures += 1
        return self.failures < _FAILURES

    def adds(self, marks: Iterable[str]) -> bool:
        """Takes in what a page holds, and tells whether any of it is new."""
        new = {hash(mark) for mark in marks} - self.seen
        self.seen |= new
        self.failures = 0
        self.repeats = 0 if new else self.repeats + 1
        return bool(new)

    @property
    def may_go_on(self) -> bool:
        """Whether a page's own word that there is a next one still counts: a page of sold-out offers is not the end, three are."""
        return self.repeats < _REPEATS


def marks_of(content: Content, policy: UrlPolicy) -> Iterator[str]:
    """What counts as added by a page: its cards, its items, or else the links that are followed from it, and its text where it is an item."""
    source = policy.source
    if source.listing is not None:
        yield from (url for _, url in policy.cards(content))
    elif source.each is not None:
        yield from map(_written, spread(find(content, source.each)))
    elif content.form == "json":
        yield from map(_written, _entries(json_of(content)))
    else:
        # Where items or links are declared, they are what counts: a clock on the page would be something new for ever.
        if policy.may_be_item(content.url):
            yield from _texts(content)
        here = urlsplit(content.url).path
        # Links to the same path are most often the numbers of pages.
        yield from (link.url for link in policy.links(content) if link.role == "link" and urlsplit(link.url).path != here)


def _written(match: Any) -> str:
    return str(match.get()) if isinstance(match, parsel.Selector) else json.dumps(match, sort_keys=True)


def _entries(body: Any) -> list[Any]:
    """What a JSON body holds: the entries of its lists; without any list, its texts. Numbers and times of the frame around them are new for ever."""
    lists, texts = [], []
    waiting = [body]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            lists.append(value)
        elif isinstance(value, str) and value:
            texts.append(value)
    return [entry for entries in lists for entry in entries] if lists else texts


def _texts(content: Content) -> Iterator[str]:
    """Texts of a page. Those of links are left out, for the numbers of pages are among them, and so is the page's own number."""
    texts = content.selector.xpath(_TEXTS).getall() if content.form in ("html", "xml") else content.text.splitlines()
    numbers = {value for _, value in parse_qsl(urlsplit(content.url).query) if value.isdigit()}
    for text in texts:
        if words := [word for word in text.split() if word not in numbers]:
            yield " ".join(words)
