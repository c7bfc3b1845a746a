"""Decides when a pagination ends: at a page that adds nothing new or, where each page names the next one, after three
such pages in a row.

Servers answer a request beyond the last page with 404, an empty list, or the last page again, endlessly.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import parsel

from almanac.schemas.crawl_outcome import FailedPage
from almanac.spiders.reading.content import Content
from almanac.spiders.selecting.embedded import find
from almanac.spiders.selecting.links import UrlPolicy, json_of, spread

_FAILURES = 3
_REPEATS = 3
_TEXTS = "//text()[normalize-space() and not(ancestor::a or ancestor::script or ancestor::style or ancestor::option)]"


@dataclass(slots=True)
class Chain:
    """The state of one pagination: hashes of what its pages contained so far, and counts of failures and repeats."""

    seen: set[int] = field(default_factory=set)
    failures: int = 0  # in a row
    repeats: int = 0  # pages in a row that added nothing
    # failures taken for numbers beyond the last page, unless a later number is a page
    doubtful: list[FailedPage] = field(default_factory=list)

    def may_pass_over(self) -> bool:
        """Counts a failed page and returns whether to try the next number: one broken page must not end a listing,
        three in a row do.
        """
        self.failures += 1
        return self.failures < _FAILURES

    def adds(self, marks: Iterable[str]) -> bool:
        """Records the content of a page and returns whether any of it is new."""
        new = {hash(mark) for mark in marks} - self.seen
        self.seen |= new
        self.failures = 0
        self.repeats = 0 if new else self.repeats + 1
        return bool(new)

    @property
    def has_arrived(self) -> bool:
        """Whether any page of it has; behind one that failed, nothing shows where the end is."""
        return bool(self.seen)

    @property
    def may_go_on(self) -> bool:
        """Whether a page's own link to a next page is still followed: one page of sold-out offers is not the end, three
        are.
        """
        return self.repeats < _REPEATS


def marks_of(content: Content, policy: UrlPolicy) -> Iterator[str]:
    """What counts as new on a page: its cards; else its items; else the entries of a JSON body; else its links, and its
    text if it may be an item.
    """
    source = policy.source
    if source.listing is not None:
        yield from (url for _, url in policy.cards(content))
    elif source.each is not None:
        yield from map(_written, spread(find(content, source.each)))
    elif content.form == "json":
        yield from map(_written, _entries(json_of(content)))
    else:
        # Text counts only on pages that may be items: a clock elsewhere would be new on every page.
        if policy.may_be_item(content.url):
            yield from _texts(content)
        here = urlsplit(content.url).path
        # Links to the same path are mostly page numbers.
        yield from (
            link.url for link in policy.links(content) if link.role == "link" and urlsplit(link.url).path != here
        )


def _written(match: Any) -> str:
    return str(match.get()) if isinstance(match, parsel.Selector) else json.dumps(match, sort_keys=True)


def _entries(body: Any) -> list[Any]:
    """The entries of all lists in a JSON body, or its texts if it has no list. Numbers and times around the lists would
    be new on every page.
    """
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
    """The page's texts without those of links, which include page numbers, and without the page's own number."""
    texts = content.selector.xpath(_TEXTS).getall() if content.form in ("html", "xml") else content.text.splitlines()
    numbers = {value for _, value in parse_qsl(urlsplit(content.url).query) if value.isdigit()}
    for text in texts:
        if words := [word for word in text.split() if word not in numbers]:
            yield " ".join(words)
