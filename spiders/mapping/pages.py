"""Maps stored pages to drafts: bytes, URL and declaration in, items out. No network and no clock, so the same pages
give the same items.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

from almanac.schemas.declaration.source import SiteSource, Source
from almanac.schemas.errors import StorageError
from almanac.schemas.hashing import canonical_json, sha256
from almanac.schemas.items import Extraction, Page, Reject
from almanac.schemas.left_out import LeftOut
from almanac.spiders.mapping.fields import FieldReading, FieldScope, read_fields
from almanac.spiders.mapping.item_mapping import Card, MappedItem, map_parts
from almanac.spiders.reading.content import Content
from almanac.spiders.reading.language import language_of
from almanac.spiders.selecting.links import UrlPolicy
from almanac.spiders.selecting.urls import url_matcher
from almanac.spiders.selecting.withheld import leave_out_page, withheld
from almanac.spiders.store.journal import CrawlIndex, Entry
from almanac.spiders.store.raw import RawStore

_BATCH = 1000  # items


@dataclass(frozen=True, slots=True)
class StoredPage:
    """A page whose body is loaded on demand. `page` has no body; `load` returns it, or None if it is damaged.

    `listing` is the listing page with the card of a carried-over page, as of the crawl that fetched it.
    """

    page: Page
    sha256: str
    load: Callable[[], bytes | None]
    listing: "StoredPage | None" = None

    def content(self, source: Source, language: str) -> Content | None:
        """The page with its body, ready to parse as the source and its knowledge base declare; None if the body is
        damaged.
        """
        body = self.load()
        return None if body is None else Content.from_page(replace(self.page, body=body), source, language)


@dataclass(frozen=True, slots=True)
class PageToMap:
    """A page that may yield items, with the `card` that leads to it.

    `key` hashes all that determines them besides the declaration; `read` maps them, batch by batch.
    """

    key: str
    stored: StoredPage
    card: Card | None
    read: Callable[[], Iterator[Extraction]]

    @property
    def page(self) -> Page:
        return self.stored.page


def stored_pages(raw: RawStore, index: CrawlIndex) -> Iterator[StoredPage]:
    """Yields the pages of a crawl in the order of `CrawlIndex.in_order`, without reading bodies."""
    for entry in index.in_order():
        yield StoredPage(
            replace(entry.page(b""), aliases=tuple(index.aliases(entry))),
            entry.sha256,
            partial(raw.body, entry.sha256),
            _listing_of(entry, raw),
        )


def _listing_of(entry: Entry, raw: RawStore) -> StoredPage | None:
    if not (entry.kept and entry.card):
        return None
    url, digest, kind = entry.card
    return StoredPage(Page(url, b"", content_type=kind, requested_url=url), digest, partial(raw.body, digest))


def map_pages(pages: Iterable[Page], source: Source, language: str) -> Iterator[Extraction]:
    """Yields extractions of the pages that yield items, in the order of `pages`: one per page, several for a file of
    many rows.
    """
    held = (StoredPage(replace(page, body=b""), page.sha256, partial(_same, page.body)) for page in pages)
    for work in pages_to_map(held, source, language):
        yield from work.read()


def _same(body: bytes) -> bytes:
    return body


def pages_to_map(pages: Iterable[StoredPage], source: Source, language: str) -> Iterator[PageToMap]:
    """Yields the pages that may have items, in the order of `pages`. With a declared listing, all listing pages are
    read first.
    """
    if isinstance(source, SiteSource) and source.listing is not None:
        yield from _pages_behind_listing(list(pages), source, language)
        return
    yields_items = url_matcher(source.match) if isinstance(source, SiteSource) and source.match else lambda _: True
    for stored in pages:
        if yields_items(stored.page.url) and not _is_noindex(stored.page, source):
            yield page_to_map(stored, source, language, None)


def _is_noindex(page: Page, source: Source) -> bool:
    return bool(page.noindex) and isinstance(source, SiteSource) and source.politeness.noindex


def page_to_map(stored: StoredPage, source: Source, language: str, card: Card | None) -> PageToMap:
    """A page as work: nothing is read yet."""
    carried = {
        name: [reading.value, reading.matched, reading.problem, str(reading.offending)]
        for name, reading in (card or {}).items()
    }
    named = [stored.page.file_name, stored.page.link_text] if stored.page.file_name or stored.page.link_text else []
    key = sha256(canonical_json([stored.page.url, stored.sha256, stored.page.content_type, carried, *named]))
    return PageToMap(key, stored, card, partial(_extractions, stored, source, language, card))


def _extractions(stored: StoredPage, source: Source, language: str, card: Card | None) -> Iterator[Extraction]:
    """Yields a page's items in batches, since a file may have a million rows; at least one batch, so that a page
    without items is counted.
    """
    content = stored.content(source, language)
    if content is None:
        reason = "its stored bytes are damaged; almanac run KB --full fetches it again"
        yield Extraction(rejects=[Reject(source.name, stored.page.url, None, "map", reason)], whole=False)
        return
    items = iter(()) if (why := withheld(content, source)) else map_parts(content, source, language, card)
    if why is not None:
        leave_out_page(content, why[0])
    while True:
        batch = list(islice(items, _BATCH))
        extraction = _extraction(batch, source)
        extraction.whole = not (extraction.rejects and content.was_interrupted)
        extraction.left_out, content.left_out = content.left_out, LeftOut()  # with the batch that reading it belongs to
        yield extraction
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


def _pages_behind_listing(held: list[StoredPage], source: SiteSource, language: str) -> Iterator[PageToMap]:
    policy = UrlPolicy(source)
    matches = url_matcher(source.match)
    listings, cards = _read_listings(held, policy, source, language)
    _share_cards(held, cards, policy)
    for url, former in _former_cards(held, cards, policy, source, language):
        cards.setdefault(url, former)
    for stored in held:
        card = _card_of(stored.page, cards, policy)
        is_item = matches(stored.page.url) if source.match else card is not None and stored.page.url not in listings
        if is_item and not _is_noindex(stored.page, source):
            yield page_to_map(stored, source, language, card)


def _card_of(page: Page, cards: dict[str, Card], policy: UrlPolicy) -> Card | None:
    return next((cards[url] for url in (page.url, _requested(page, policy), *page.aliases) if url in cards), None)


def _former_cards(
    held: list[StoredPage], cards: dict[str, Card], policy: UrlPolicy, source: SiteSource, language: str
) -> Iterator[tuple[str, Card]]:
    """Cards for carried-over pages that no listing leads to any more, read from the listing page that once did."""
    without = [stored for stored in held if stored.listing is not None and _card_of(stored.page, cards, policy) is None]
    wanted = {
        url for stored in without for url in (stored.page.url, _requested(stored.page, policy), *stored.page.aliases)
    }
    for listing in {stored.listing.sha256: stored.listing for stored in without if stored.listing is not None}.values():
        content = listing.content(source, language)
        if content is not None:
            yield from ((url, card) for url, card in read_cards(content, policy, source, language) if url in wanted)


def _share_cards(held: list[StoredPage], cards: dict[str, Card], policy: UrlPolicy) -> None:
    """Adds cards under the canonical URLs of the pages that they lead to."""
    for stored in held:
        if stored.page.canonical is not None and (card := _card_of(stored.page, cards, policy)) is not None:
            cards.setdefault(stored.page.canonical, card)


def _requested(page: Page, policy: UrlPolicy) -> str:
    return policy.canonical(page.requested_url or page.url)


def _read_listings(
    held: list[StoredPage], policy: UrlPolicy, source: SiteSource, language: str
) -> tuple[set[str], dict[str, Card]]:
    """URLs of the listing pages, and their cards by the canonical URL that each leads to. Raises StorageError if a
    listing's body is damaged.

    A page that pagination reaches from a listing is a listing page too, whatever its URL (`/tours` → `/tours?page=2`).
    """
    by_url = {url: stored for stored in held for url in (_requested(stored.page, policy), stored.page.url)}
    waiting = deque(stored for stored in held if policy.is_listing(stored.page.url))
    listings = {stored.page.url for stored in waiting}
    cards: dict[str, Card] = {}
    while waiting:
        stored = waiting.popleft()
        content = stored.content(source, language)
        if content is None:
            finding = "the stored bytes of a listing are damaged, and its cards cannot be read"
            raise StorageError(finding, where=stored.page.url, hint="almanac run KB --full fetches everything anew")
        for url, card in read_cards(content, policy, source, language):
            known = cards.setdefault(url, card)
            for name, reading in card.items():  # linked twice: the second card only fills gaps of the first
                if not known[name].matched:
                    known[name] = reading
        for url in policy.next_pages(content):
            following = by_url.get(url)
            if following is not None and following.page.url not in listings:
                listings.add(following.page.url)
                waiting.append(following)
    return listings, cards


def read_cards(content: Content, policy: UrlPolicy, source: SiteSource, language: str) -> Iterator[tuple[str, Card]]:
    """Yields (canonical URL that a card leads to, fields read from the card) for the cards of a listing page."""
    rules = source.listing.fields if source.listing else {}
    spoken = language_of(content, language)
    for node, url in policy.cards(content):
        readings: dict[str, FieldReading] = read_fields(rules, FieldScope(node, content, spoken, source.workspace))
        yield url, readings
