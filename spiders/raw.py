"""Pages as they were fetched, on disk: bodies by their content, and one journal for each crawl.

    bodies/<ab>/<sha256>.gz      a body, once for all crawls that met it
    crawls/<run_id>.jsonl        a line for each page, in order of arrival, and for each further URL that redirects to one; of a
                                 site, the seal of who asked stands before them
    crawls/<run_id>.stats.json   how the crawl ended; without it, it did not end

A line follows its body and is handed to the system at once, so killing a crawl loses nothing that had arrived. A power cut
may lose the tail of what was not synced: a torn line, or a line whose body is missing or has another hash, was not fetched.
"""

import json
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import IO, Any

from schemas.durable import sync_folder
from schemas.errors import StorageError
from schemas.items import Page, sha256

# Level 1 packs pages a fifth less tightly than 6, in a quarter of the time.
_LEVEL = 1
_GZIP = 31  # zlib's name for the format; such a header holds no time, so one body is always the same bytes


@dataclass(frozen=True, slots=True)
class Entry:
    """What a journal says about a page; its body lies under `sha256`.

    `fetched_at` is when the body came, `checked_at` when the server last spoke of it; `unchanged` says that it then answered 304.
    `canonical` is as in Page, `redirects` are the URLs that led to it.
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

    @classmethod
    def of(cls, page: Page, redirects: list[str]) -> "Entry":
        kept = {name: getattr(page, name) for name in _OF_PAGE}
        return cls(**kept, sha256=page.sha256, size=len(page.body), redirects=redirects, checked_at=page.fetched_at)

    def page(self, body: bytes) -> Page:
        return Page(body=body, **{name: getattr(self, name) for name in _OF_PAGE})


_OF_PAGE = ("url", "requested_url", "status", "content_type", "etag", "last_modified", "fetched_at", "canonical")
_KNOWN = frozenset(one.name for one in fields(Entry))
_NEEDED = _KNOWN - {one.name for one in fields(Entry) if one.default is not MISSING or one.default_factory is not MISSING}


class CrawlIndex:
    """The entries of a crawl by URL: their places in memory, the entries themselves on disk.

    Where a URL was stored twice, the later one counts. `seal` is empty where the journal has none.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._places: dict[str, int] = {}
        self._requested: dict[str, int] = {}
        self._aliases: dict[str, list[str]] = {}
        self._stated: dict[str, str] = {}
        self.checked_at = ""
        self.seal = ""
        for place, entry in self._scan():
            self._places[entry.url] = place
            if entry.requested_url != entry.url:
                self._requested[entry.requested_url] = place
            if entry.canonical not in (None, entry.url):
                self._stated[entry.url] = str(entry.canonical)
            self.checked_at = max(self.checked_at, entry.checked_at or entry.fetched_at)

    @property
    def urls(self) -> set[str]:
        return set(self._places)

    @property
    def requested(self) -> set[str]:
        """URLs that redirects led on from."""
        return set(self._requested)

    @property
    def right_addresses(self) -> dict[str, str]:
        """Pages that call another stored page the right one, and which: URL to URL."""
        return {url: right for url, right in self._stated.items() if right in self._places}

    def find(self, url: str) -> Entry | None:
        """The page that was stored under a URL, or that a redirect from it led to."""
        place = self._places.get(url, self._requested.get(url))
        return None if place is None else self._at(place)

    def aliases(self, entry: Entry) -> list[str]:
        """Further URLs that redirect to a page, sorted."""
        return sorted({alias for url in (entry.url, entry.requested_url) for alias in self._aliases.get(url, ())})

    def in_order(self) -> Iterator[Entry]:
        """Entries by URL, those last that call another stored page the right one.

        Pages arrive in an order that the network decides. Sorted, the same content gives the same items, ids and digest, whatever
        the order in which it arrived; and of two equal pages, the one under the canonical address comes first and is kept.
        """
        for url in sorted(self._places, key=lambda url: (self._stated.get(url) in self._places, url)):
            entry = self._at(self._places[url])
            if entry is not None:
                yield entry

    def _scan(self) -> Iterator[tuple[int, Entry]]:
        with _as_storage_error(self._path):
            if not self._path.is_file():
                return
            place = 0
            with self._path.open("rb") as file:
                for line in file:
                    values = _values(line)
                    if (entry := _entry(values)) is not None:
                        yield place, entry
                    elif "alias" in values:
                        self._aliases.setdefault(str(values.get("of")), []).append(str(values["alias"]))
                    elif place == 0:
                        self.seal = str(values.get("seal", ""))
                    place += len(line)

    def _at(self, place: int) -> Entry | None:
        with _as_storage_error(self._path), self._path.open("rb") as file:
            file.seek(place)
            return _entry(_values(file.readline()))


def _entry(values: dict[str, Any]) -> Entry | None:
    return Entry(**{name: value for name, value in values.items() if name in _KNOWN}) if values.keys() >= _NEEDED else None


def _values(line: bytes) -> dict[str, Any]:
    """What a line says; nothing where it was torn by a kill."""
    try:
        values = json.loads(line)
    except ValueError:
        return {}
    return values if isinstance(values, dict) else {}


@dataclass(slots=True)
class Journal:
    """Where a running crawl puts its pages."""

    store: "RawStore"
    file: IO[str]

    def add(self, page: Page, *, redirects: list[str] | None = None) -> None:
        """Stores a page. `redirects` are the URLs that led to it."""
        entry = Entry.of(page, redirects or [])
        with _as_storage_error(self.store.root):
            self.store.keep_body(entry.sha256, page.body)
        self.repeat(entry)

    def repeat(self, entry: Entry) -> None:
        """Notes a page whose body is stored already."""
        self._write(asdict(entry))

    def alias(self, url: str, of: str) -> None:
        """Notes that a URL redirects to a page that another way leads to."""
        self._write({"alias": url, "of": of})

    def _write(self, values: dict[str, Any]) -> None:
        with _as_storage_error(self.store.root):
            self.file.write(json.dumps(values) + "\n")
            self.file.flush()


class RawStore:
    """The raw pages of one source."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def journal_path(self, run_id: str) -> Path:
        return self.root / "crawls" / f"{run_id}.jsonl"

    def stats_path(self, run_id: str) -> Path:
        return self.root / "crawls" / f"{run_id}.stats.json"

    def crawls(self) -> list[str]:
        """Run ids of all crawls, the oldest first."""
        return sorted(path.stem for path in (self.root / "crawls").glob("*.jsonl"))

    def index(self, run_id: str) -> CrawlIndex:
        """The entries of a crawl as they stand now; of a crawl that never was, none."""
        return CrawlIndex(self.journal_path(run_id))

    @contextmanager
    def journal(self, run_id: str, *, seal: str = "") -> Iterator[Journal]:
        """The journal of a crawl, opened for adding; what an earlier attempt wrote is kept. A new one begins with `seal`, if there is one."""
        path = self.journal_path(run_id)
        with _as_storage_error(self.root):
            path.parent.mkdir(parents=True, exist_ok=True)
            last = _last_byte(path) if path.is_file() else b""
            file = path.open("a", encoding="utf-8")
        with file:
            if last not in (b"\n", b""):  # torn by a kill
                file.write("\n")
            if seal and not last:
                file.write(json.dumps({"seal": seal}) + "\n")
            yield Journal(self, file)
            with _as_storage_error(self.root):
                file.flush()
                os.fsync(file.fileno())
                sync_folder(path.parent)

    def pages(self, run_id: str) -> Iterator[Page]:
        """The pages of a crawl, one at a time, in the order of `CrawlIndex.in_order`."""
        index = self.index(run_id)
        for entry in index.in_order():
            body = self.body(entry.sha256)
            if body is not None:
                yield replace(entry.page(body), aliases=tuple(index.aliases(entry)))

    def keep_body(self, digest: str, body: bytes) -> None:
        """Stores a body under its hash, unless it is there and whole."""
        if self.body(digest) is not None:
            return
        path = self._body_path(digest)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        packer = zlib.compressobj(_LEVEL, wbits=_GZIP)
        try:
            if not path.parent.is_dir():
                path.parent.mkdir(parents=True, exist_ok=True)
            # Not synced one by one: a thousand syncs cost more than fetching again what a power cut damaged.
            temporary.write_bytes(packer.compress(body) + packer.flush())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise

    def has_body(self, digest: str) -> bool:
        """Whether there is a body of that hash; only reading it tells whether it is whole."""
        return self._body_path(digest).is_file()

    def body(self, digest: str) -> bytes | None:
        """The body of that hash, or None where it is missing or damaged."""
        try:
            body = zlib.decompress(self._body_path(digest).read_bytes(), wbits=_GZIP)
        except FileNotFoundError:
            return None
        except zlib.error:
            return None
        except OSError as error:
            raise _storage_error(self.root, error) from error
        return body if sha256(body) == digest else None

    def _body_path(self, digest: str) -> Path:
        return self.root / "bodies" / digest[:2] / f"{digest}.gz"


def _last_byte(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - 1))
        return file.read(1)


@contextmanager
def _as_storage_error(root: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _storage_error(root, error) from error


def _storage_error(root: Path, error: OSError) -> StorageError:
    hint = "free some space, mend the permissions, or choose another place with --data DIR"
    return StorageError(f"raw pages cannot be stored or read: {error.strerror or error}", where=str(error.filename or root), hint=hint)
