"""The journal of a crawl: a head, a line for each page, and a line for each further URL that redirects to one.

Pages that a crawl got come first, in order of arrival; those that keep their place although it did not get them follow. Together they are
the source's pages as of that crawl. Torn lines are passed over, and a journal of another format is none.
"""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any

from almanac.schemas.errors import StorageError
from almanac.schemas.hashing import canonical_json
from almanac.schemas.items import Page

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Head:
    """The first line: `requester` tells as whom a crawl asked, `fetching` what was declared for it. Both are empty where they play no part."""

    requester: str = ""
    fetching: str = ""

    def line(self) -> bytes:
        return line_of({"format": FORMAT, "requester": self.requester, "fetching": self.fetching})


@dataclass(frozen=True, slots=True)
class Entry:
    """What a journal says about a page; its body lies under `sha256`.

    `fetched_at` is when the body came, `checked_at` when the server last spoke of it; `unchanged` says that it then answered 304.
    `canonical` is as in Page, `redirects` are the URLs that led to it. `kept` says why a page that the crawl did not get keeps its place:
    the reason of its failure, missed, or not_asked; `misses` counts the complete crawls in a row that met no way to it. An entry with
    `links_only` is no page any more, for the site refuses it; but what it led to is not forgotten. `card` is the listing page, as it then
    was, whose card led here: its URL, hash and content type.
    """

    url: str
    requested_url: str
    status: int
    content_type: str
    etag: str | None
    last_modified: str | None
    fetched_at: str
    sha256: str
    size: int = 0  # bytes
    redirects: list[str] = field(default_factory=list)
    canonical: str | None = None
    checked_at: str = ""
    unchanged: bool = False
    kept: str = ""
    misses: int = 0
    links_only: bool = False
    card: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, page: Page, redirects: list[str], card: list[str]) -> "Entry":
        same = {name: getattr(page, name) for name in _OF_PAGE}
        return cls(**same, sha256=page.sha256, size=len(page.body), redirects=redirects, checked_at=page.fetched_at, card=card)

    def page(self, body: bytes) -> Page:
        return Page(body=body, **{name: getattr(self, name) for name in _OF_PAGE})


_OF_PAGE = ("url", "requested_url", "status", "content_type", "etag", "last_modified", "fetched_at", "canonical")
_KNOWN = frozenset(one.name for one in fields(Entry))
_NEEDED = _KNOWN - {one.name for one in fields(Entry) if one.default is not MISSING or one.default_factory is not MISSING}


class CrawlIndex:
    """The entries of a crawl by URL: their places in memory, the entries themselves on disk.

    Where a URL was stored twice, the later one counts. `damaged` counts lines that cannot be read; `exists` is false of a crawl that
    never was, or left a journal of another format.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._places: dict[str, int] = {}
        self._links_only: dict[str, int] = {}
        self._requested: dict[str, int] = {}
        self._aliases: dict[str, list[str]] = {}
        self._alias_of: dict[str, str] = {}
        self._stated: dict[str, str] = {}
        self.checked_at = ""
        self.kept = 0
        self.damaged = 0
        head = head_of(path)
        self.exists = head is not None
        self.head = head or Head()
        if self.exists:
            self._read()

    def _read(self) -> None:
        kept: set[str] = set()
        for place, values in self._lines():
            entry = _entry(values)
            if entry is not None:
                self._take_in(entry, place)
                (kept.add if entry.kept and not entry.links_only else kept.discard)(entry.url)
            elif "alias" in values:
                self._aliases.setdefault(str(values.get("of")), []).append(str(values["alias"]))
                self._alias_of[str(values["alias"])] = str(values.get("of"))
            elif not values:
                self.damaged += 1
        self.kept = len(kept)

    def _take_in(self, entry: Entry, place: int) -> None:
        if entry.links_only:
            self._links_only[entry.url] = place
            return
        self._places[entry.url] = place
        if entry.requested_url != entry.url:
            self._requested[entry.requested_url] = place
        if entry.canonical not in (None, entry.url):
            self._stated[entry.url] = str(entry.canonical)
        if not entry.kept:
            self.checked_at = max(self.checked_at, entry.checked_at or entry.fetched_at)

    @property
    def requester(self) -> str:
        """As whom the crawl asked; empty of files."""
        return self.head.requester

    @property
    def urls(self) -> set[str]:
        return set(self._places)

    @property
    def all_urls(self) -> set[str]:
        """Those of the pages, and of what is no page any more but leads to some."""
        return {*self._places, *self._links_only}

    @property
    def right_addresses(self) -> dict[str, str]:
        """Pages that call another stored page the right one, and which: URL to URL."""
        return {url: right for url, right in self._stated.items() if right in self._places}

    @property
    def further_urls(self) -> dict[str, str]:
        """URLs that redirect to a page which another way led to, and the URL that each leads to."""
        return self._alias_of

    @property
    def fingerprint(self) -> str:
        """The same for the same pages, as far as items are made from them; times play no part, nor which way led first to a page."""
        whole = hashlib.sha256()
        for entry in self.in_order():
            ways = sorted({entry.requested_url, *self.aliases(entry)} - {entry.url})
            card = entry.card if entry.kept else []  # whose card may be on no page any more
            whole.update(canonical_json([entry.url, entry.sha256, entry.status, entry.content_type, entry.canonical, ways, card]).encode() + b"\n")
        return whole.hexdigest()

    def find(self, url: str) -> Entry | None:
        """The page that was stored under a URL, or that a redirect from it led to."""
        place = self._places.get(url, self._requested.get(url))
        return None if place is None else self._at(place)

    def leading_on(self, url: str) -> Entry | None:
        """As `find`, and also what is no page any more, or what a further URL redirected to: for their links."""
        place = self._links_only.get(url)
        return self._at(place) if place is not None else self.find(url) or self.find(self._alias_of.get(url, url))

    def aliases(self, entry: Entry) -> list[str]:
        """Further URLs that redirect to a page, sorted."""
        return sorted({alias for url in (entry.url, entry.requested_url) for alias in self._aliases.get(url, ())})

    def in_order(self) -> Iterator[Entry]:
        """The pages by URL, those last that call another stored page the right one.

        Pages arrive in an order that the network decides. Sorted, the same content gives the same items, ids and digest, whatever
        the order in which it arrived; and of two equal pages, the one under the canonical address comes first and is kept.
        """
        yield from self._entries(self._places[url] for url in sorted(self._places, key=lambda url: (self._stated.get(url) in self._places, url)))

    def select(self, urls: set[str]) -> Iterator[Entry]:
        """Entries of some URLs, pages or not, sorted by URL."""
        places = {**self._links_only, **self._places}
        yield from self._entries(places[url] for url in sorted(urls & places.keys()))

    def _entries(self, places: Iterator[int]) -> Iterator[Entry]:
        if not self.exists:
            return
        with storage_errors(self._path), self._path.open("rb") as file:
            for place in places:
                file.seek(place)
                if (entry := _entry(values_of(file.readline()))) is not None:
                    yield entry

    def _lines(self) -> Iterator[tuple[int, dict[str, Any]]]:
        with storage_errors(self._path), self._path.open("rb") as file:
            place = 0
            for line in file:
                yield place, values_of(line)
                place += len(line)

    def _at(self, place: int) -> Entry | None:
        return next(self._entries(iter([place])), None)


def head_of(path: Path) -> Head | None:
    """The head of a journal; None where there is no journal, or none of this format."""
    with storage_errors(path):
        if not path.is_file():
            return None
        with path.open("rb") as file:
            values = values_of(file.readline())
    return Head(str(values.get("requester", "")), str(values.get("fetching", ""))) if values.get("format") == FORMAT else None


def _entry(values: dict[str, Any]) -> Entry | None:
    return Entry(**{name: value for name, value in values.items() if name in _KNOWN}) if values.keys() >= _NEEDED else None


def line_of(values: dict[str, Any]) -> bytes:
    return json.dumps(values).encode("ascii") + b"\n"


def values_of(line: bytes) -> dict[str, Any]:
    """What a line says; nothing where it was torn by a kill."""
    try:
        values = json.loads(line)
    except ValueError:
        return {}
    return values if isinstance(values, dict) else {}


@contextmanager
def storage_errors(root: Path) -> Iterator[None]:
    """Whatever the operating system refuses becomes a StorageError that says so."""
    try:
        yield
    except OSError as error:
        hint = "free some space, mend the permissions, or choose another place with --data DIR"
        where = str(error.filename or root)
        raise StorageError(f"raw pages cannot be stored or read: {error.strerror or error}", where=where, hint=hint) from error
