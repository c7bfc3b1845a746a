"""The links that a crawl follows from a page: pure, so that a stored page gives the same ones again."""

import posixpath
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal
from urllib.parse import urljoin, urlsplit

import parsel
from scrapy.linkextractors import IGNORED_EXTENSIONS
from w3lib.html import get_meta_refresh
from w3lib.url import safe_url_string

from schemas.fields import Selector
from schemas.sources import SiteSource
from spiders.content import Content
from spiders.select import select, text_of
from spiders.urls import MAX_URL_LENGTH, canonical_url, is_on_domains, url_matcher

Role = Literal["detail", "next", "link"]
_BINARY = frozenset(f".{extension}" for extension in IGNORED_EXTENSIONS)


@dataclass(frozen=True, slots=True)
class Link:
    """A link to follow, and what it is to the page: a card's detail page, the next page, or just a link."""

    url: str
    role: Role


class Road:
    """Where a source's crawl may go."""

    def __init__(self, source: SiteSource) -> None:
        self.source = source
        self._is_listing = url_matcher(source.listing.match if source.listing else None)
        self._allowed = [url_matcher(pattern) for pattern in source.follow.allow]
        self._denied = [url_matcher(pattern) for pattern in source.follow.deny]

    def canonical(self, url: str) -> str:
        return canonical_url(url, self.source.ignore_parameters)

    def is_listing(self, url: str) -> bool:
        return self._is_listing(url)

    def is_denied(self, url: str) -> bool:
        return any(denied(url) for denied in self._denied)

    @cached_property
    def _is_free(self) -> bool:
        """Whether any link is followed. A declared listing or pagination is the whole road, unless `follow` widens it."""
        return bool(self.source.follow.allow) or (self.source.listing is None and self.source.pagination.next is None)

    def may_follow(self, url: str, role: Role) -> bool:
        """Whether a canonical URL is on the road; detail and next links are, wherever `follow.allow` points."""
        if self.is_denied(url) or len(url) > MAX_URL_LENGTH or not is_on_domains(url, self.source.domains):
            return False
        if role != "link":
            return True
        if posixpath.splitext(urlsplit(url).path.lower())[1] in _BINARY:
            return False
        return self._is_free and (not self._allowed or any(allowed(url) for allowed in self._allowed))

    def links(self, content: Content, *, listing: bool | None = None) -> list[Link]:
        """Links to follow from a page, each URL once, cards first.

        `listing` says that the page is known to be a listing although its URL does not show it (the second page of one).
        """
        is_listing = self.is_listing(content.url) if listing is None else listing
        found: list[tuple[str, Role]] = []
        if is_listing:
            found += [(url, "detail") for _, url in self.cards(content)]
        if is_listing or self.source.listing is None:
            found += [(url, "next") for url in self.next_pages(content)]
        if self._is_free:
            found += [(url, "link") for url in self._absolute(_hrefs(content), content)]
        links: dict[str, Link] = {}
        for url, role in found:
            if url not in links and self.may_follow(url, role):
                links[url] = Link(url, role)
        return list(links.values())

    def cards(self, content: Content) -> Iterator[tuple[Any, str]]:
        """Cards of a listing page and the canonical URLs that they lead to; a card without a link is passed over."""
        listing = self.source.listing
        if listing is None:
            return
        for card in spread(select(_root(content, listing.each), listing.each)):
            for url in self._absolute(_targets(card, listing.link)[:1], content):
                yield card, url

    def next_pages(self, content: Content) -> list[str]:
        """Canonical URLs of the pages that pagination leads to from here."""
        where = self.source.pagination.next
        return [] if where is None else list(self._absolute(_targets(_root(content, where), where), content))

    def _absolute(self, references: Iterable[str], content: Content) -> Iterator[str]:
        for reference in references:
            try:
                # Browsers encode the query of a link in the page's own encoding.
                yield self.canonical(safe_url_string(urljoin(content.base_url, reference.strip()), content.encoding if content.form == "html" else "utf-8"))
            except (ValueError, LookupError):  # javascript:, mailto: or no URL at all
                continue


def spread(found: list[Any]) -> list[Any]:
    """Matches one by one: a list that was found in JSON stands for its entries."""
    return found[0] if len(found) == 1 and isinstance(found[0], list) else found


def _root(content: Content, where: Selector) -> Any:
    """What a selector reads in: the JSON body or the markup. A page that is neither has nothing to read."""
    if where.json_ is None:
        return content.selector if content.form in ("html", "xml") else None
    try:
        return content.json
    except ValueError:
        return None


def _targets(scope: Any, where: Selector) -> list[str]:
    """Link targets that a selector finds: attributes (`href` unless declared), texts, or JSON strings."""
    targets = []
    for match in spread(select(scope, where)):
        if isinstance(match, parsel.Selector) and hasattr(match.root, "attrib"):
            attr = where.attr or "href"
            # `li.next` is as good a name for the link as `li.next a`.
            target = match.attrib.get(attr) or match.xpath(f".//@{attr}").get()
        else:
            target = text_of(match)
        if isinstance(target, str) and target:
            targets.append(target)
    return targets


def _hrefs(content: Content) -> list[str]:
    if content.form != "html":
        return []
    hrefs: list[str] = content.selector.xpath(
        "//a/@href | //area/@href | //link[contains(concat(' ', translate(@rel, 'NEXT', 'next'), ' '), ' next ')]/@href"
    ).getall()
    try:
        refresh = get_meta_refresh(content.text[:4096], content.url, content.encoding)[1]
    except ValueError:  # its target is no URL
        refresh = None
    return [*hrefs, refresh] if refresh else hrefs
