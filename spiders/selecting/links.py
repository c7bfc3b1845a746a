"""The links that a crawl follows from a page: pure, so that a stored page gives the same ones again."""

import posixpath
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache, partial
from typing import Any, Literal
from urllib.parse import urljoin, urlsplit

import parsel
from w3lib.html import get_meta_refresh
from w3lib.url import safe_url_string

from almanac.schemas.declaration.fields import Selector
from almanac.schemas.declaration.source import SiteSource
from almanac.spiders.reading.content import Content
from almanac.spiders.selecting.embedded import find
from almanac.spiders.selecting.pagination import numbered_next, told_next
from almanac.spiders.selecting.selectors import text_of
from almanac.spiders.selecting.urls import MAX_URL_LENGTH, canonical_url, is_on_domains, parameter_of, url_matcher, with_parameter

Role = Literal["detail", "next", "canonical", "sitemap", "link"]
_LINKED = re.compile(r"""<([^<>]*)>((?:[^<,"]|"[^"]*")*)""")  # <target>; name=value; name="value", …
_IS_CANONICAL = re.compile(r"""(?:^|;)\s*rel\s*=\s*(?:canonical\s*(?:;|$)|"(?:[^"]*\s)?canonical(?:\s[^"]*)?")""", re.IGNORECASE)
_HAS_ANCHOR = re.compile(r"(?:^|;)\s*anchor\s*=", re.IGNORECASE)  # then it speaks of another page


@dataclass(frozen=True, slots=True)
class Link:
    """A link to follow, and what it is to the page: a card's detail page, the next page, the page's own right address, an entry
    of a sitemap, or just a link."""

    url: str
    role: Role


class UrlPolicy:
    """Where a source's crawl may go."""

    def __init__(self, source: SiteSource) -> None:
        self.source = source
        # Every page of a site has the same few links around its own.
        self._canonical = lru_cache(maxsize=4096)(partial(canonical_url, ignore_parameters=tuple(source.ignore_parameters)))
        self._starts = {self.canonical(url) for url in source.start_urls}
        self._is_listing = url_matcher(source.listing.match if source.listing else None)
        self._is_item = url_matcher(source.match)
        self._allowed = [url_matcher(pattern) for pattern in source.follow.allow]
        self._denied = [url_matcher(pattern, when_slow=True) for pattern in source.follow.deny]

    def canonical(self, url: str) -> str:
        return self._canonical(url)

    def key(self, url: str) -> str:
        """What a page is known by: its canonical URL, without the number of a first page, which is the page without a number."""
        numbering = self.source.pagination
        if numbering.parameter is None or numbering.json_ is not None or parameter_of(url, numbering.parameter) != str(numbering.first):
            return url
        return with_parameter(url, numbering.parameter, None)

    def is_listing(self, url: str) -> bool:
        """Whether a URL is that of a listing, as declared; the number of a page makes no difference."""
        numbering = self.source.pagination.parameter
        return self._is_listing(url) or (numbering is not None and self._is_listing(with_parameter(url, numbering, None)))

    def may_be_item(self, url: str) -> bool:
        """Whether a page may be an item itself. Beside declared links it is one only where `match` says so."""
        return self._is_item(url) if self.source.match else not self.source.follow.allow

    def is_denied(self, url: str) -> bool:
        return any(denied(url) for denied in self._denied)

    @cached_property
    def _is_free(self) -> bool:
        """Whether any link is followed. A declared listing, pagination or sitemap is the whole policy, unless `follow` widens it."""
        source = self.source
        return bool(source.follow.allow) or (source.listing is None and not source.pagination.is_declared and bool(source.start_urls))

    def may_follow(self, url: str, role: Role) -> bool:
        """Whether a canonical URL is on the policy; `follow.allow` speaks of links and sitemaps only."""
        if self.is_denied(url) or len(url) > MAX_URL_LENGTH or not is_on_domains(url, self.source.domains):
            return False
        if role not in ("link", "sitemap"):
            return True
        if posixpath.splitext(urlsplit(url).path.lower())[1] in _binary_suffixes():
            return False
        return (self._is_free or role == "sitemap") and (not self._allowed or any(allowed(url) for allowed in self._allowed))

    def _is_paged(self, content: Content, in_chain: bool) -> bool:
        """Whether pagination leads on from a page. Without a listing, a number is only added to the start URLs, for no link says
        that it may be."""
        if in_chain or self.source.listing is not None:
            return in_chain or self.is_listing(content.url)
        return not self.source.pagination.is_guessed or not self._starts.isdisjoint({content.url, content.page.requested_url})

    def links(self, content: Content, *, in_chain: bool = False) -> list[Link]:
        """Links to follow from a page, each URL once, cards first.

        `in_chain` says that pagination led here: the second page of a listing is one too, although its URL may not show it.
        """
        found: list[tuple[str, Role]] = []
        if in_chain or self.is_listing(content.url):
            found += [(url, "detail") for _, url in self.cards(content)]
        if self._is_paged(content, in_chain):
            found += [(url, "next") for url in self.next_pages(content)]
        if (stated := self.stated_address(content)) is not None:
            found.append((stated, "canonical"))
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
        for card in spread(find(content, listing.each)):
            for url in self._absolute(_targets(content, listing.link, card)[:1], content):
                yield card, url

    def next_pages(self, content: Content) -> list[str]:
        """Canonical URLs of the pages that pagination leads to from here, if this is a page of it."""
        pagination = self.source.pagination
        if pagination.next is not None:
            references: list[str | None] = [*_targets(content, pagination.next)]
        elif pagination.json_ is not None:
            found = find(content, Selector(json_=pagination.json_))
            references = [told_next(found[0], content.url, pagination)] if found else []
        else:
            references = [numbered_next(content.url, pagination)] if pagination.parameter else []
        return list(self._absolute(filter(None, references), content))

    def linked_address(self, header: str, url: str) -> str | None:
        """The canonical URL in a `Link` header (RFC 8288), where it names one, and only one, as the right address of what was sent."""
        stated = set()
        for target, parameters in _LINKED.findall(header):
            if _IS_CANONICAL.search(parameters) and not _HAS_ANCHOR.search(parameters):
                with suppress(ValueError):
                    stated.add(self.canonical(safe_url_string(urljoin(url, target.strip()))))
        return stated.pop() if len(stated) == 1 else None

    def stated_address(self, content: Content) -> str | None:
        """The canonical URL that a page gives as its own right address, where it gives one, and only one; what its headers said comes first."""
        if content.page.canonical is not None:
            return self.canonical(content.page.canonical)
        if content.form != "html" or "canonical" not in content.text.lower():
            return None
        hrefs = content.selector.xpath("//link[contains(concat(' ', normalize-space(translate(@rel, 'CANOIL', 'canoil')), ' '), ' canonical ')]/@href").getall()
        stated = set(self._absolute(hrefs, content))
        return stated.pop() if len(stated) == 1 else None

    def sitemap_pages(self, urls: Iterable[str]) -> Iterator[str]:
        """Canonical URLs of those pages of a sitemap that are on the policy."""
        for url in urls:
            try:
                canonical = self.canonical(safe_url_string(url))
            except ValueError:
                continue
            if self.may_follow(canonical, "sitemap"):
                yield canonical

    def _absolute(self, references: Iterable[str], content: Content) -> Iterator[str]:
        for reference in references:
            try:
                # Browsers encode the query of a link in the page's own encoding.
                yield self.canonical(safe_url_string(urljoin(content.base_url, reference.strip()), content.encoding if content.form == "html" else "utf-8"))
            except (ValueError, LookupError):  # javascript:, mailto: or no URL at all
                continue


@cache
def _binary_suffixes() -> frozenset[str]:
    from scrapy.linkextractors import IGNORED_EXTENSIONS  # only a crawl asks; mapping need not load Scrapy

    return frozenset(f".{extension}" for extension in IGNORED_EXTENSIONS)


def spread(found: list[Any]) -> list[Any]:
    """Matches one by one: a list that was found in JSON stands for its entries."""
    return found[0] if len(found) == 1 and isinstance(found[0], list) else found


def json_of(content: Content) -> Any:
    try:
        return content.json
    except ValueError:
        return None


def _targets(content: Content, where: Selector, scope: Any = None) -> list[str]:
    """Link targets that a selector finds: attributes (`href` unless declared), texts, or JSON strings."""
    targets = []
    for match in spread(find(content, where, scope)):
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
