"""Stored pages to drafts: bytes, URL and declaration in, items out. No network, no clock: the same pages give the same items."""

import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from os import SEEK_END
from tempfile import TemporaryFile
from typing import IO

from schemas.items import Extraction, Page, Reject
from schemas.sources import SiteSource, Source
from spiders.links import Road
from spiders.mapping.fields import Reading, Scope, read_fields
from spiders.mapping.items import Card, MappedItem, map_parts
from spiders.reading.content import Content
from spiders.reading.language import language_of
from spiders.urls import url_matcher

_BATCH = 1000  # items


def map_pages(pages: Iterable[Page], source: Source, language: str) -> Iterator[Extraction]:
    """Extractions of the pages that yield items, in the order of `pages`: one for each page, several for a file of many rows."""
    if isinstance(source, SiteSource) and source.listing is not None:
        yield from _map_behind_listing(pages, source, language)
        return
    yields_items = url_matcher(source.match) if isinstance(source, SiteSource) and source.match else lambda _: True
    for page in pages:
        if yields_items(page.url):
            yield from _extractions(Content(page), source, language)


def _extractions(content: Content, source: Source, language: str, card: Card | None = None) -> Iterator[Extraction]:
    """A page's items, some at a time: a file may hold a million rows. At least one, so that a page that yields nothing is counted."""
    items = map_parts(content, source, language, card)
    while True:
        batch = list(islice(items, _BATCH))
        yield _extraction(batch, source)
        if len(batch) < _BATCH:
            return


def _extraction(items: list[MappedItem | Reject], source: Source) -> Extraction:
    extraction = Extraction(matched=dict.fromkeys(source.declared_fields(), 0))
    for item in items:
        if isinstance(item, Reject):
            extraction.rejects.append(item)
            continue
        if item.draft is not None:
            extraction.drafts.append(item.draft)
        if item.reject is not None:
            extraction.rejects.append(item.reject)
        for name in extraction.matched:
            extraction.matched[name] += item.readings[name].matched
    return extraction


class _Shelf:
    """Pages that wait until every listing was read: their bodies in a temporary file, so that a site need not fit into memory."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._places: dict[int, tuple[int, int]] = {}

    def keep(self, page: Page) -> Page:
        """The page without its body, to ask for it again with."""
        body = zlib.compress(page.body, 1)
        light = replace(page, body=b"")
        self._places[id(light)] = (self._file.seek(0, SEEK_END), len(body))
        self._file.write(body)
        return light

    def content(self, light: Page) -> Content:
        place, size = self._places[id(light)]
        self._file.seek(place)
        return Content(replace(light, body=zlib.decompress(self._file.read(size))))


def _map_behind_listing(pages: Iterable[Page], source: SiteSource, language: str) -> Iterator[Extraction]:
    road = Road(source)
    matches = url_matcher(source.match)
    with TemporaryFile() as file:
        shelf = _Shelf(file)
        held = [shelf.keep(page) for page in pages]
        listings, cards = _read_listings(held, shelf, road, source, language)
        _share_cards(held, cards, road)
        for page in held:
            card = _card_of(page, cards, road)
            is_item = matches(page.url) if source.match else card is not None and page.url not in listings
            if is_item:
                yield from _extractions(shelf.content(page), source, language, card)


def _card_of(page: Page, cards: dict[str, Card], road: Road) -> Card | None:
    return next((cards[url] for url in (page.url, _requested(page, road), *page.aliases) if url in cards), None)


def _share_cards(held: list[Page], cards: dict[str, Card], road: Road) -> None:
    """A card that leads to a page under a second address leads to the right one, too."""
    for page in held:
        if page.canonical is not None and (card := _card_of(page, cards, road)) is not None:
            cards.setdefault(page.canonical, card)


def _requested(page: Page, road: Road) -> str:
    return road.canonical(page.requested_url or page.url)


def _read_listings(held: list[Page], shelf: _Shelf, road: Road, source: SiteSource, language: str) -> tuple[set[str], dict[str, Card]]:
    """URLs of the listing pages, and their cards by the URL that each leads to.

    A page that pagination leads to from a listing is one too, whatever its URL looks like (`/tours` → `/tours?page=2`).
    """
    by_url = {url: page for page in held for url in (_requested(page, road), page.url)}
    waiting = deque(page for page in held if road.is_listing(page.url))
    listings = {page.url for page in waiting}
    cards: dict[str, Card] = {}
    while waiting:
        content = shelf.content(waiting.popleft())
        for url, card in read_cards(content, road, source, language):
            known = cards.setdefault(url, card)
            for name, reading in card.items():  # linked twice: the first card counts, the second fills its gaps
                if not known[name].matched:
                    known[name] = reading
        for url in road.next_pages(content):
            following = by_url.get(url)
            if following is not None and following.url not in listings:
                listings.add(following.url)
                waiting.append(following)
    return listings, cards


def read_cards(content: Content, road: Road, source: SiteSource, language: str) -> Iterator[tuple[str, Card]]:
    """The cards of a listing page: the canonical URL that each leads to, and the fields read from it."""
    rules = source.listing.fields if source.listing else {}
    spoken = language_of(content, language)
    for node, url in road.cards(content):
        readings: dict[str, Reading] = read_fields(rules, Scope(node, content, spoken))
        yield url, readings
