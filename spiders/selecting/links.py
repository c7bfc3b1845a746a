"""The URL policy of a source and the links that a crawl follows. Pure functions of a page, so a stored page gives the
same links again.
"""

import posixpath
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache, partial
from typing import Any, Literal
from urllib.parse import parse_qsl, urljoin, urlsplit

import parsel
from w3lib.url import safe_url_string

from almanac.schemas.declaration.field_rules import Selector
from almanac.schemas.declaration.source import SiteSource, Source
from almanac.spiders.reading.content import Content
from almanac.spiders.reading.link_lists import kind_of_list, links_of_list
from almanac.spiders.reading.linked_types import may_name_document, type_of_name
from almanac.spiders.reading.meta_refresh import refresh_of
from almanac.spiders.selecting.embedded import find
from almanac.spiders.selecting.pagination import numbered_next, stated_next
from almanac.spiders.selecting.selectors import text_of
from almanac.spiders.selecting.urls import (
    MAX_URL_LENGTH,
    as_browsers_read,
    canonical_url,
    is_on_domains,
    parameter_of,
    url_matcher,
    with_parameter,
)
from almanac.spiders.selecting.withheld import rules_for

Role = Literal["detail", "next", "canonical", "sitemap", "link"]
_LINKED = re.compile(r"""<([^<>]*)>((?:[^<,"]|"[^"]*")*)""")  # <target>; name=value; name="value", …
_IS_CANONICAL = re.compile(
    r"""(?:^|;)\s*rel\s*=\s*(?:canonical\s*(?:;|$)|"(?:[^"]*\s)?canonical(?:\s[^"]*)?")""", re.IGNORECASE
)
_HAS_ANCHOR = re.compile(r"(?:^|;)\s*anchor\s*=", re.IGNORECASE)  # such a link is about another page (RFC 8288, 3.2)


@dataclass(frozen=True, slots=True)
class Link:
    """A link to follow and its role.

    Roles: `detail` (a card's detail page), `next` (the next page of a pagination), `canonical` (the page's own
    canonical URL), `sitemap` (an entry of a sitemap), `link` (any other).
    """

    url: str
    role: Role


class UrlPolicy:
    """The URL policy of a site source: which URLs a crawl may fetch, and what role each has."""

    def __init__(self, source: SiteSource) -> None:
        self.source = source
        # Navigation links repeat on every page of a site.
        self._canonical = lru_cache(maxsize=4096)(
            partial(canonical_url, ignore_parameters=tuple(source.ignore_parameters))
        )
        self._login = self.canonical(source.login.url) if source.login else None
        self._starts = {self.canonical(url) for url in source.start_urls}
        self._posted = {self._address(url) for url in source.start_urls} if source.request else set()
        self._is_listing = url_matcher(source.listing.match if source.listing else None)
        self._is_item = url_matcher(source.match)
        self._allowed = [url_matcher(pattern) for pattern in source.follow.allow]
        self._denied = [url_matcher(pattern, when_slow=True) for pattern in source.follow.deny]

    def canonical(self, url: str) -> str:
        """The canonical URL (see `canonical_url`), without secret parameters. Raises ValueError if there is no http(s)
        host.
        """
        return self._canonical(self.source.secret_parameters.without(url))

    def key_of(self, url: str) -> str:
        """The `key` of a URL in any spelling. Raises ValueError if there is no http(s) host."""
        return self.key(self.canonical(url))

    def key(self, url: str) -> str:
        """The key that identifies a page: its canonical URL, without the page number where that is the first, since
        both URLs are the same page.
        """
        numbering = self.source.pagination
        if (
            numbering.parameter is None
            or numbering.json_ is not None
            or parameter_of(url, numbering.parameter) != str(numbering.first)
        ):
            return url
        return with_parameter(url, numbering.parameter, None)

    def is_listing(self, url: str) -> bool:
        """Whether the URL is a declared listing; its page number is ignored."""
        numbering = self.source.pagination.parameter
        return self._is_listing(url) or (
            numbering is not None and self._is_listing(with_parameter(url, numbering, None))
        )

    def may_be_item(self, url: str) -> bool:
        """Whether a page may yield items: those that `match` matches; without `match`, every page unless `follow.allow`
        is declared.
        """
        return self._is_item(url) if self.source.match else not self.source.follow.allow

    def is_posted(self, url: str) -> bool:
        """Whether a page is asked for with the declared body: that of a start URL, whatever its query."""
        return bool(self._posted) and self._address(url) in self._posted

    def _address(self, url: str) -> str:
        return self.canonical(url).partition("?")[0]

    def is_denied(self, url: str) -> bool:
        """Whether the URL matches `follow.deny`, or is the page to log in at."""
        return any(denied(url) for denied in self._denied) or self.is_login(url)

    def is_login(self, url: str) -> bool:
        """Whether the URL is that of the declared login, whatever else its query has; one that is a start URL, too, is
        a page as others.
        """
        if self._login is None:
            return False
        own, other = urlsplit(self._login), urlsplit(url)
        if (own.netloc, own.path) != (other.netloc, other.path):
            return False
        return set(parse_qsl(own.query)) <= set(parse_qsl(other.query)) and not self.is_start(self._login)

    def is_on_site(self, url: str) -> bool:
        """Whether the URL's host is one that a crawl may fetch from."""
        return is_on_domains(url, self._domains)

    @cached_property
    def _domains(self) -> frozenset[str]:
        return frozenset(self.source.domains)

    @cached_property
    def _is_free(self) -> bool:
        """Whether plain links are followed. A declared listing, pagination or sitemap is the whole policy, unless
        `follow.allow` widens it.
        """
        source = self.source
        return bool(source.follow.allow) or (bool(source.start_urls) and not restriction(source))

    def may_follow(self, url: str, role: Role) -> bool:
        """Whether the policy allows a canonical URL in that role. `follow.allow` restricts links and sitemap entries
        only.
        """
        if self.is_denied(url) or len(url) > MAX_URL_LENGTH or not self.is_on_site(url):
            return False
        if role not in ("link", "sitemap"):
            return True
        return (self._is_free or role == "sitemap") and self._is_wanted(url)

    def _is_wanted(self, url: str) -> bool:
        """Whether a URL that was merely found looks like a page or a document that may be an item, and `follow.allow`
        matches it or is not declared.
        """
        document = type_of_name(url)
        if document is not None:
            return self._is_fetched(url, document) and self._is_allowed(url)
        return posixpath.splitext(urlsplit(url).path.lower())[1] not in _binary_suffixes() and self._is_allowed(url)

    def _is_allowed(self, url: str) -> bool:
        return not self._allowed or any(allowed(url) for allowed in self._allowed)

    def _is_fetched(self, url: str, document: str) -> bool:
        """Whether documents of a type are fetched, and one at that URL may be an item: it leads nowhere, so it is of no
        other use.
        """
        may_be_item = self._is_item(url) if self.source.match else self.source.listing is None
        return document in self.source.documents and may_be_item

    def left_out(self, urls: Iterable[str], role: Role = "link") -> dict[str, str]:
        """Key → type of the documents among canonical URLs that are left out although the policy lets through pages of
        such URLs.
        """
        documents = ((url, document) for url in urls if (document := type_of_name(url)) is not None)
        return {
            self.key(url): document
            for url, document in documents
            if self.may_follow(url, "next") and self._is_allowed(url) and not self.may_follow(url, role)
        }

    def documents_left_out(self, content: Content) -> dict[str, str]:
        """As `left_out`, of the links of a page."""
        return (
            {}
            if content.is_document
            else self.left_out(self._absolute(filter(may_name_document, _hrefs(content)), content))
        )

    def link_texts(self, content: Content) -> Iterator[tuple[str, str]]:
        """Yields key and text of the links of an HTML page."""
        for link in content.selector.xpath("//a[@href]") if content.form == "html" else ():
            text = text_of(link)
            for url in self._absolute([link.attrib["href"]], content) if text else ():
                yield self.key(url), text

    def _is_paged(self, content: Content, in_chain: bool) -> bool:
        """Whether pagination continues from a page.

        Without a listing, numbered pagination is tried on the start URLs only, since no link shows which other pages
        have one.
        """
        if in_chain or self.source.listing is not None:
            return in_chain or self.is_listing(content.url)
        return not self.source.pagination.is_guessed or not self._starts.isdisjoint(
            {content.url, content.page.requested_url}
        )

    def links(self, content: Content, *, in_chain: bool = False) -> list[Link]:
        """Links to follow from a page, each URL once, cards first. A document has none but its canonical URL.

        `in_chain`: pagination led here, so the page counts as a listing page although its URL may not match.
        """
        targets: list[tuple[str, Role]] = []
        if content.is_document:
            stated = self.stated_address(content)
            return [Link(stated, "canonical")] if stated is not None and self.may_follow(stated, "canonical") else []
        if in_chain or self.is_listing(content.url):
            targets += [(url, "detail") for _, url in self.cards(content)]
        if self._is_paged(content, in_chain):
            targets += [(url, "next") for url in self.next_pages(content)]
        if (stated := self.stated_address(content)) is not None:
            targets.append((stated, "canonical"))
        if self._is_free and not self.asks_nofollow(content):
            targets += [(url, "link") for url in self._absolute(_hrefs(content), content)]
        links: dict[str, Link] = {}
        for url, role in targets:
            if url not in links and self.may_follow(url, role):
                links[url] = Link(url, role)
        return list(links.values())

    def asks_nofollow(self, content: Content) -> bool:
        """Whether the page asks that its links are not followed, and the declaration obeys. What is declared, such as
        cards, is followed all the same.
        """
        return self.source.politeness.noindex and rules_for(content, self.source).nofollow

    def yields_items(self, url: str, *, in_chain: bool = False) -> bool:
        """Whether items are taken from a page of that URL: by `match` or, with a declared listing, where it is no page
        of that.
        """
        return (
            self._is_item(url)
            if self.source.match
            else self.source.listing is None or not (in_chain or self.is_listing(url))
        )

    def is_start(self, url: str) -> bool:
        """Whether a canonical URL is one of the declared start URLs."""
        return url in self._starts

    def unfollowed(self, content: Content) -> set[str]:
        """Keys of the pages that plain links of a page lead to, and that the policy would let a crawl fetch if nothing
        restricted it (`restriction`).
        """
        if not restriction(self.source) or content.is_document:
            return set()
        urls = self._absolute(_hrefs(content), content)
        return {self.key(url) for url in urls if self.may_follow(url, "next") and self._is_wanted(url)}

    def cards(self, content: Content) -> Iterator[tuple[Any, str]]:
        """Yields (card, canonical URL) for the cards of a listing page, in page order; cards without a link are
        skipped.
        """
        listing = self.source.listing
        if listing is None:
            return
        for card in spread(find(content, listing.each, hidden=True)):  # a hidden link leads to a page that may be seen
            for url in self._absolute(_targets(content, listing.link, card)[:1], content):
                yield card, url

    def next_pages(self, content: Content) -> list[str]:
        """Canonical URLs of the pages that pagination leads to from a page of a listing."""
        pagination = self.source.pagination
        if pagination.next is not None:
            references: list[str | None] = [*_targets(content, pagination.next)]
        elif pagination.json_ is not None:
            matches = find(content, Selector(json_=pagination.json_))
            references = [stated_next(matches[0], content.url, pagination)] if matches else []
        else:
            references = [numbered_next(content.url, pagination)] if pagination.parameter else []
        return list(self._absolute(filter(None, references), content))

    def linked_address(self, header: str, url: str) -> str | None:
        """The canonical URL from a `Link` header (RFC 8288, `rel=canonical`); None unless the header names exactly
        one.
        """
        stated = set()
        for target, parameters in _LINKED.findall(header):
            if _IS_CANONICAL.search(parameters) and not _HAS_ANCHOR.search(parameters):
                with suppress(ValueError):
                    stated.add(self.canonical(safe_url_string(urljoin(url, as_browsers_read(target)))))
        return stated.pop() if len(stated) == 1 else None

    def stated_address(self, content: Content) -> str | None:
        """The URL that a page declares as canonical, in its `Link` header or else in <link>; None unless it names
        exactly one.
        """
        if content.page.canonical is not None:
            return self.canonical(content.page.canonical)
        if content.form != "html" or "canonical" not in content.text.lower():
            return None
        hrefs = content.selector.xpath(
            "//link[contains(concat(' ', normalize-space(translate(@rel, 'CANOIL', 'canoil')), ' '), ' canonical "
            "')]/@href"
        ).getall()
        stated = set(self._absolute(hrefs, content))
        return stated.pop() if len(stated) == 1 else None

    def sitemap_pages(self, urls: Iterable[str]) -> Iterator[str]:
        """Yields the canonical URLs of those sitemap entries that the policy allows."""
        yield from (url for url in self._canonical_of(urls) if self.may_follow(url, "sitemap"))

    def sitemap_left_out(self, urls: Iterable[str]) -> dict[str, str]:
        """As `left_out`, of the entries of a sitemap."""
        return self.left_out(self._canonical_of(urls), "sitemap")

    def _canonical_of(self, urls: Iterable[str]) -> Iterator[str]:
        for url in urls:
            with suppress(ValueError):
                yield self.canonical(safe_url_string(as_browsers_read(url)))

    def _absolute(self, references: Iterable[str], content: Content) -> Iterator[str]:
        for reference in references:
            try:
                # Browsers encode the query of a link in the page's encoding.
                absolute = urljoin(content.base_url, as_browsers_read(reference))
                yield self.canonical(safe_url_string(absolute, content.encoding if content.form == "html" else "utf-8"))
            except (ValueError, LookupError):  # javascript:, mailto:, or not a URL
                continue


def restriction(source: SiteSource) -> list[str]:
    """The declared keys because of which plain links are not followed; empty where they are, or where there is no start
    URL whose links they could be.
    """
    if source.follow.allow or not source.start_urls:
        return []
    return [
        key
        for key, is_declared in (("listing", source.listing is not None), ("pagination", source.pagination.is_declared))
        if is_declared
    ]


def describe_unfollowed(source: Source, count: int, where: str = "on start pages") -> str | None:
    """The sentence for reports on links that were not followed, by default those of start pages; None where there are
    none.
    """
    keys = restriction(source) if isinstance(source, SiteSource) else []
    if not count or not keys:
        return None
    links = f"1 link {where} was" if count == 1 else f"{count} links {where} were"
    declared = " and ".join(f"`{key}`" for key in keys)
    sentence = f"{links} not followed: {declared} {'is' if len(keys) == 1 else 'are'} declared; add `follow.allow`"
    needs_match = isinstance(source, SiteSource) and source.listing is not None and source.match is None
    return sentence + (", and `match` for pages that no card leads to" if needs_match else "")


@cache
def _binary_suffixes() -> frozenset[str]:
    from scrapy.linkextractors import IGNORED_EXTENSIONS  # imported lazily: mapping does not need Scrapy

    return frozenset(f".{extension}" for extension in IGNORED_EXTENSIONS)


def spread(matches: list[Any]) -> list[Any]:
    """The matches one by one: a single JSON list is replaced by its entries."""
    return matches[0] if len(matches) == 1 and isinstance(matches[0], list) else matches


def json_of(content: Content) -> Any:
    """The page's JSON; None if it has none."""
    try:
        return content.json
    except ValueError:
        return None


def _targets(content: Content, where: Selector, scope: Any = None) -> list[str]:
    """Link targets that a selector finds: attributes (`href` unless declared), texts, or JSON strings."""
    targets = []
    for match in spread(find(content, where, scope, hidden=True)):
        if isinstance(match, parsel.Selector) and hasattr(match.root, "attrib"):
            attr = where.attr or "href"
            # A selector may match the link's parent: `li.next` for `li.next a`.
            target = match.attrib.get(attr) or match.xpath(f".//@{attr}").get()
        else:
            target = text_of(match)
        if isinstance(target, str) and target:
            targets.append(target)
    return targets


def _hrefs(content: Content) -> list[str]:
    if kind_of_list(content) is not None:
        return links_of_list(content)
    if content.form != "html":
        return []
    hrefs: list[str] = content.selector.xpath(
        "//a/@href | //area/@href | //frame/@src | //iframe/@src | //link[contains(concat(' ', translate(@rel, "
        "'NEXT', 'next'), ' '), ' next ')]/@href"
    ).getall()
    refresh = refresh_of(content)[1]
    return [*hrefs, refresh] if refresh else hrefs
