"""The journal of one crawl: a JSON Lines file with a head, a line per page, and lines for further URLs that redirect to
a page and for what links call it.

Pages that the crawl fetched come first, in order of arrival. Pages carried over from the previous crawl follow.
Together they are the source's pages as of that crawl. Torn lines are skipped. A journal of another format counts as
missing.
"""

import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from almanac.schemas.errors import StorageError
from almanac.schemas.hashing import canonical_json
from almanac.schemas.items import Page

FORMAT = 1
_CHECK_KEY = b', "crc32": "'
_CHECK = _CHECK_KEY + b'%08x"}\n'  # the end of each line: a flipped bit must not give a page another address
_REQUESTER = "seal"  # its name in journals of format 1; under another name, every site would be fetched anew once


@dataclass(frozen=True, slots=True)
class Head:
    """The first line of a journal.

    Attributes:
        requester: the requester fingerprint; empty for files.
        fetching: the fingerprint of the fetching rules; empty where not applicable.
        number: the crawl's place among the crawls of its source, from 1; 0 in journals that were written without one,
            which are older than all others.
    """

    requester: str = ""
    fetching: str = ""
    number: int = 0

    def line(self) -> bytes:
        """The head as a line of the journal."""
        return line_of({"format": FORMAT, _REQUESTER: self.requester, "fetching": self.fetching, "number": self.number})


@dataclass(frozen=True, slots=True)
class Entry:
    """One page in a journal; its body is stored under `sha256`.

    Attributes:
        fetched_at: when the body arrived (ISO 8601).
        checked_at: when the server last confirmed the page; later than `fetched_at` after a 304.
        unchanged: whether this crawl's request was answered with 304.
        canonical, robots, noindex, rendered, file_name, link_text: as in `Page`. A later line of the journal may say
            another `link_text`.
        redirects: the URLs that redirected to the page.
        kept: why the page is carried over without being fetched: the reason of its failure, `missed` (no link led to
            it) or `not_asked`. Empty if fetched.
        misses: how many complete crawls in a row found no link to the page.
        links_only: the site refuses the page now, so it counts as a page no more; only the links of its stored body are
            still used.
        card: URL, hash and content type of the listing page (as of then) whose card led here.
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
    robots: str = ""
    noindex: str = ""
    file_name: str = ""
    link_text: str = ""
    rendered: str = ""

    @classmethod
    def from_page(cls, page: Page, redirects: list[str], card: list[str]) -> "Entry":
        """The entry of a page that has just been fetched."""
        same = {name: getattr(page, name) for name in _OF_PAGE}
        return cls(
            **same, sha256=page.sha256, size=len(page.body), redirects=redirects, checked_at=page.fetched_at, card=card
        )

    def page(self, body: bytes) -> Page:
        """The entry as a `Page` with the given body, without aliases."""
        return Page(body=body, **{name: getattr(self, name) for name in _OF_PAGE})


_OF_PAGE = (
    *(
        "url",
        "requested_url",
        "status",
        "content_type",
        "etag",
        "last_modified",
        "fetched_at",
        "canonical",
        "robots",
        "noindex",
    ),
    *("file_name", "link_text", "rendered"),
)
FIELDS = tuple(entry_field.name for entry_field in fields(Entry))
_KNOWN = frozenset(FIELDS)
_NEEDED = _KNOWN - {
    entry_field.name
    for entry_field in fields(Entry)
    if entry_field.default is not MISSING or entry_field.default_factory is not MISSING
}


class CrawlIndex:
    """The entries of one crawl by URL. Only file offsets are kept in memory; entries are read from disk on demand.

    Where a URL was stored twice, the later entry counts. `damaged` counts unreadable lines. `exists` is False if the
    crawl has no journal, or one of another format.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._places: dict[str, int] = {}
        self._links_only: dict[str, int] = {}
        self._requested: dict[str, int] = {}
        self._redirected: set[str] = set()
        self._aliases: dict[str, list[str]] = {}
        self._alias_of: dict[str, str] = {}
        self._stated: dict[str, str] = {}
        self._link_texts: dict[str, str] = {}
        self.checked_at = ""
        self.kept = 0
        self.damaged = 0
        head = head_of(path)
        self.exists = head is not None
        self.head = head or Head()
        if self.exists:
            self._read()

    def _read(self) -> None:
        kept_urls: set[str] = set()
        for place, values in self._lines():
            entry = _entry(values)
            if entry is not None:
                self._take_in(entry, place)
                (kept_urls.add if entry.kept and not entry.links_only else kept_urls.discard)(entry.url)
            elif "alias" in values:
                self._aliases.setdefault(str(values.get("of")), []).append(str(values["alias"]))
                self._alias_of[str(values["alias"])] = str(values.get("of"))
            elif "link_text" in values:
                self._link_texts[str(values.get("of"))] = str(values["link_text"])
            elif not values:
                self.damaged += 1
        self.kept = len(kept_urls)

    def _take_in(self, entry: Entry, place: int) -> None:
        if entry.links_only:
            self._links_only[entry.url] = place
            return
        self._places[entry.url] = place
        self._link_texts.pop(entry.url, None)
        if entry.requested_url != entry.url:
            self._requested[entry.requested_url] = place
        (self._redirected.add if entry.redirects or entry.requested_url != entry.url else self._redirected.discard)(
            entry.url
        )
        if entry.canonical not in (None, entry.url):
            self._stated[entry.url] = str(entry.canonical)
        if not entry.kept:
            self.checked_at = max(self.checked_at, entry.checked_at or entry.fetched_at)

    @property
    def requester(self) -> str:
        """Requester fingerprint of the crawl; empty for files."""
        return self.head.requester

    @property
    def urls(self) -> set[str]:
        """URLs of the pages."""
        return set(self._places)

    @property
    def all_urls(self) -> set[str]:
        """URLs of the pages and of `links_only` entries."""
        return {*self._places, *self._links_only}

    @property
    def right_addresses(self) -> dict[str, str]:
        """URL → canonical URL, for pages that declare another stored page as their canonical one."""
        return {url: right for url, right in self._stated.items() if right in self._places}

    @property
    def further_urls(self) -> dict[str, str]:
        """Alias → target: URLs that redirect to a page which was also reached another way."""
        return self._alias_of

    @property
    def fingerprint(self) -> str:
        """Hash of everything that mapping reads: the same for the same pages, whatever the times and whichever URL led
        to a page first.
        """
        whole = hashlib.sha256()
        for entry in self.in_order():
            ways = sorted({entry.requested_url, *self.aliases(entry)} - {entry.url})
            card = entry.card if entry.kept else []  # its card may be on none of the stored pages any more
            named = [entry.file_name, entry.link_text] if entry.file_name or entry.link_text else []
            values = [
                entry.url,
                entry.sha256,
                entry.status,
                entry.content_type,
                entry.canonical,
                ways,
                card,
                bool(entry.noindex),
                *named,
            ]
            whole.update(canonical_json(values).encode() + b"\n")
        return whole.hexdigest()

    def find(self, url: str) -> Entry | None:
        """The page stored under a URL, or reached by a redirect from it."""
        place = self._places.get(url, self._requested.get(url))
        return None if place is None else self._at(place)

    def leading_on(self, url: str) -> Entry | None:
        """As `find`, and also `links_only` entries and targets of aliases: used for their links."""
        place = self._links_only.get(url)
        return self._at(place) if place is not None else self.find(url) or self.find(self._alias_of.get(url, url))

    def aliases(self, entry: Entry) -> list[str]:
        """Further URLs that redirect to the page, sorted."""
        return sorted({alias for url in (entry.url, entry.requested_url) for alias in self._aliases.get(url, ())})

    def in_order(self) -> Iterator[Entry]:
        """Yields the pages sorted by URL, pages that declare another stored page as canonical last.

        Pages arrive in an order that the network decides. Sorting makes items, ids and digest independent of it, and of
        two equal pages the one under the canonical URL comes first, so de-duplication keeps it.
        """
        yield from self._entries(self._places[url] for url in self._ordered(self._places))

    def ways_to_pages(self) -> Iterator[tuple[str, str]]:
        """Yields URLs that led to a page with another URL, each with that one, in the order of the pages."""
        for entry in self._entries(
            self._places[url] for url in self._ordered((self._redirected | self._aliases.keys()) & self._places.keys())
        ):
            for url in {entry.requested_url, *entry.redirects, *self.aliases(entry)} - {entry.url}:
                yield url, entry.url

    def _ordered(self, urls: Iterable[str]) -> list[str]:
        return sorted(urls, key=lambda url: (self._stated.get(url) in self._places, url))

    def select(self, urls: set[str]) -> Iterator[Entry]:
        """Yields the entries of the given URLs, `links_only` ones included, sorted by URL."""
        places = {**self._links_only, **self._places}
        yield from self._entries(places[url] for url in sorted(urls & places.keys()))

    def _entries(self, places: Iterator[int]) -> Iterator[Entry]:
        if not self.exists:
            return
        with storage_errors(self._path), self._path.open("rb") as file:
            for place in places:
                file.seek(place)
                if (entry := _entry(values_of(file.readline()))) is not None:
                    text = self._link_texts.get(entry.url)
                    yield entry if text is None else replace(entry, link_text=text)

    def _lines(self) -> Iterator[tuple[int, dict[str, Any]]]:
        with storage_errors(self._path), self._path.open("rb") as file:
            place = 0
            for line in file:
                yield place, values_of(line)
                place += len(line)

    def _at(self, place: int) -> Entry | None:
        return next(self._entries(iter([place])), None)


def head_of(path: Path) -> Head | None:
    """The head of a journal; None if there is no journal or it has another format."""
    with storage_errors(path):
        if not path.is_file():
            return None
        with path.open("rb") as file:
            values = values_of(file.readline())
    if values.get("format") != FORMAT:
        return None
    number = values.get("number")
    return Head(
        str(values.get(_REQUESTER, "")), str(values.get("fetching", "")), number if isinstance(number, int) else 0
    )


def _entry(values: dict[str, Any]) -> Entry | None:
    return (
        Entry(**{name: value for name, value in values.items() if name in _KNOWN}) if values.keys() >= _NEEDED else None
    )


def line_of(values: dict[str, Any]) -> bytes:
    """Values as one line of a journal (ASCII JSON with a line feed), with a checksum of themselves."""
    content = json.dumps(values).encode("ascii")
    return content[:-1] + _CHECK % zlib.crc32(content)


def values_of(line: bytes) -> dict[str, Any]:
    """The values of a journal line; empty if the line is torn, altered or no JSON object. A line without a checksum, as
    of before, is taken as it is.
    """
    content, check, number = line.rpartition(_CHECK_KEY)
    if check and _CHECK % zlib.crc32(content + b"}") != check + number:
        return {}
    try:
        values = json.loads(content + b"}" if check else line)
    except ValueError:
        return {}
    return values if isinstance(values, dict) else {}


@contextmanager
def storage_errors(root: Path) -> Iterator[None]:
    """Turns every OSError inside the block into a StorageError with path and hint."""
    try:
        yield
    except OSError as error:
        hint = "free some space, mend the permissions, or choose another place with --data DIR"
        where = str(error.filename or root)
        raise StorageError(
            f"raw pages cannot be stored or read: {error.strerror or error}", where=where, hint=hint
        ) from error
