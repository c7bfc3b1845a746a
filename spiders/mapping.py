"""Stored pages to drafts: bytes, URL and declaration in, items out. No network, no clock: the same pages give the same items."""

import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from schemas.errors import NoRecords
from schemas.items import Extraction, Page
from schemas.sources import SiteSource, Source
from spiders.content import Content
from spiders.fields import Reading, Scope, read_fields
from spiders.items import Card, PageItems, map_page
from spiders.links import Road
from spiders.urls import url_matcher


def map_pages(pages: Iterable[Page], source: Source, language: str) -> Iterator[Extraction]:
    """One extraction for each page that yields items, in the order of `pages`."""
    if isinstance(source, SiteSource) and source.listing is not None:
        yield from _map_behind_listing(pages, source, language)
        return
    yields_items = url_matcher(source.match) if isinstance(source, SiteSource) and source.match else lambda _: True
    for page in pages:
        if yields_items(page.url):
            yield _extraction(map_page(Content(page), source, language), source)


def require_matches(source: Source, matched_total: dict[str, int], items_seen: int, pages: int) -> None:
    """Raises NoRecords where pages gave no item at all, or a required field was found on none of them.

    `items_seen` counts drafts and rejects: a selector that finds nothing anywhere is a site that has changed, not a thousand
    bad items.
    """
    if not pages:
        return
    place = f"sources.{source.name}"
    hint = "has the site changed? almanac test-url KB URL shows what each rule finds on a page"
    if not items_seen:
        match = getattr(source, "match", None)
        declared = ", ".join(f"{key}: {value}" for key, value in (("match", match), ("each", _written(source))) if value)
        raise NoRecords(f"{pages} pages yield no item ({declared or 'no page is left to be one'})", where=place, hint=hint)
    for name, rule in source.declared_fields().items():
        if rule.required and not matched_total.get(name):
            finding = f"required field '{name}': {rule.rule} matched nothing on {items_seen} of {items_seen} items ({pages} pages)"
            raise NoRecords(finding, where=f"{place}.fields.{name}", hint=hint)


def _written(source: Source) -> str | None:
    return None if source.each is None else source.each.css or source.each.xpath or source.each.json_


def _extraction(found: PageItems, source: Source) -> Extraction:
    extraction = Extraction(rejects=list(found.rejects), matched=dict.fromkeys(source.declared_fields(), 0))
    for item in found.items:
        if item.draft is not None:
            extraction.drafts.append(item.draft)
        if item.reject is not None:
            extraction.rejects.append(item.reject)
        for name, reading in item.readings.items():
            extraction.matched[name] += reading.matched
    return extraction


@dataclass(frozen=True, slots=True)
class _Held:
    """A page that waits until every listing was read. Compressed: a site's pages need not fit into memory as they are."""

    page: Page

    @classmethod
    def of(cls, page: Page) -> "_Held":
        return cls(replace(page, body=zlib.compress(page.body, 1)))

    @property
    def content(self) -> Content:
        return Content(replace(self.page, body=zlib.decompress(self.page.body)))


def _map_behind_listing(pages: Iterable[Page], source: SiteSource, language: str) -> Iterator[Extraction]:
    road = Road(source)
    held = [_Held.of(page) for page in pages]
    by_url = {url: one for one in held for url in (road.canonical(one.page.requested_url or one.page.url), one.page.url)}
    listings, cards = _read_listings([one for one in held if road.is_listing(one.page.url)], by_url, road, source, language)
    matches = url_matcher(source.match)
    for one in held:
        urls = (one.page.url, road.canonical(one.page.requested_url or one.page.url))
        card = next((cards[url] for url in urls if url in cards), None)
        is_item = matches(one.page.url) if source.match else card is not None and one.page.url not in listings
        if is_item:
            yield _extraction(map_page(one.content, source, language, card), source)


def _read_listings(first: list[_Held], by_url: dict[str, _Held], road: Road, source: SiteSource, language: str) -> tuple[set[str], dict[str, Card]]:
    """URLs of the listing pages, and their cards by the URL that each leads to.

    A page that pagination leads to from a listing is one too, whatever its URL looks like (`/tours` → `/tours?page=2`).
    """
    listings = {one.page.url for one in first}
    cards: dict[str, Card] = {}
    waiting = deque(first)
    while waiting:
        content = waiting.popleft().content
        for url, card in read_cards(content, road, source, language):
            known = cards.setdefault(url, card)
            for name, reading in card.items():  # linked twice: the first card counts, the second fills its gaps
                if not known[name].matched:
                    known[name] = reading
        for url in road.next_pages(content):
            following = by_url.get(url)
            if following is not None and following.page.url not in listings:
                listings.add(following.page.url)
                waiting.append(following)
    return listings, cards


def read_cards(content: Content, road: Road, source: SiteSource, language: str) -> Iterator[tuple[str, Card]]:
    """The cards of a listing page: the canonical URL that each leads to, and the fields read from it."""
    rules = source.listing.fields if source.listing else {}
    for node, url in road.cards(content):
        readings: dict[str, Reading] = read_fields(rules, Scope(node, content, language))
        yield url, readings
