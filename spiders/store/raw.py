"""Pages as they were fetched, on disk: bodies by their content, and one journal for each crawl (`journal.py`).

    bodies/<ab>/<sha256>.gz      a body, once for all crawls that met it
    crawls/<run_id>.jsonl        the source's pages as of that crawl
    crawls/<run_id>.stats.json   how the crawl ended; without it, it did not end

A line follows its body and is handed to the system at once, so killing a crawl loses nothing that had arrived. A power cut
may lose the tail of what was not synced: a torn line, or a line whose body is missing or has another hash, was not fetched.
"""

import os
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any

import structlog

from almanac.core.durable import append, sync_folder, write_file
from almanac.schemas.hashing import sha256
from almanac.schemas.items import Page
from almanac.spiders.store.journal import CrawlIndex, Entry, Head, head_of, line_of, storage_errors, values_of
from almanac.spiders.store.retention import Pruned, forget_urls, prune_crawls

log = structlog.get_logger("almanac.raw")
# Level 1 packs pages a fifth less tightly than 6, in a quarter of the time.
_LEVEL = 1
_GZIP = 31  # zlib's name for the format; such a header holds no time, so one body is always the same bytes


@dataclass(slots=True)
class Journal:
    """Where a running crawl puts its pages."""

    store: "RawStore"
    file: IO[bytes]

    def add(self, page: Page, *, redirects: list[str] | None = None, card: list[str] | None = None) -> None:
        """Stores a page. `redirects` are the URLs that led to it; `card` is as in Entry."""
        entry = Entry.of(page, redirects or [], card or [])
        with storage_errors(self.store.root):
            self.store.keep_body(entry.sha256, page.body)
        self.repeat(entry)

    def repeat(self, entry: Entry) -> None:
        """Notes a page whose body is stored already."""
        self._write(asdict(entry))

    def alias(self, url: str, of: str) -> None:
        """Notes that a URL redirects to a page that another way leads to."""
        self._write({"alias": url, "of": of})

    def keep(self, entry: Entry, aliases: Collection[str]) -> None:
        """Notes a page that was not had, with the further URLs that led to it when it was."""
        self.repeat(entry)
        for alias in aliases:
            self._write({"alias": alias, "of": entry.url, "kept": entry.kept})

    def _write(self, values: dict[str, Any]) -> None:
        with storage_errors(self.store.root):
            append(self.file, line_of(values))


class RawStore:
    """The raw pages of one source. What is not in `root` is read from the store `below`, which nothing is written to."""

    def __init__(self, root: Path, below: Path | None = None) -> None:
        self.root = root
        self.below = below

    def journal_path(self, run_id: str) -> Path:
        return self.root / "crawls" / f"{run_id}.jsonl"

    def stats_path(self, run_id: str) -> Path:
        return self.root / "crawls" / f"{run_id}.stats.json"

    def crawls(self) -> list[str]:
        """Run ids of all crawls, the oldest first."""
        return sorted({path.stem for root in self._roots for path in (root / "crawls").glob("*.jsonl") if _is_readable(path)})

    def index(self, run_id: str) -> CrawlIndex:
        """The entries of a crawl as they stand now; of a crawl that never was, none."""
        return CrawlIndex(self._found(self.journal_path(run_id)))

    def stats(self, run_id: str) -> str | None:
        """What the crawl said at its end, as JSON; None of a crawl that did not come to its end."""
        path = self._found(self.stats_path(run_id))
        with storage_errors(self.root):
            return path.read_text(encoding="utf-8") if path.is_file() else None

    @contextmanager
    def journal(self, run_id: str, head: Head = Head()) -> Iterator[Journal]:  # noqa: B008  # frozen
        """The journal of a crawl, opened for adding; what an earlier attempt wrote is kept. A new one begins with `head`."""
        path = self.journal_path(run_id)
        with storage_errors(self.root):
            if head_of(path) is None:
                write_file(path, head.line())
            is_torn = _last_byte(path) != b"\n"  # by a kill
            file = path.open("ab", buffering=0)
        with file:
            if is_torn:
                append(file, b"\n")
            yield Journal(self, file)
            with storage_errors(self.root):
                os.fsync(file.fileno())
                sync_folder(path.parent)

    def drop_kept(self, run_id: str) -> None:
        """Takes back which pages keep their place: an earlier attempt at this crawl had come so far as to say it."""
        path = self.journal_path(run_id)
        if head_of(path) is not None:
            with storage_errors(self.root):
                lines = path.read_bytes().splitlines(keepends=True)
                left = [line for line in lines if not values_of(line).get("kept")]
                if len(left) < len(lines):
                    write_file(path, b"".join(left))

    def pages(self, run_id: str) -> Iterator[Page]:
        """The pages of a crawl, one at a time, in the order of `CrawlIndex.in_order`."""
        index = self.index(run_id)
        for entry in index.in_order():
            body = self.body(entry.sha256)
            if body is not None:
                yield replace(entry.page(body), aliases=tuple(index.aliases(entry)))

    def keep_body(self, digest: str, body: bytes) -> None:
        """Stores a body under its hash, unless it is there and whole."""
        if self.body(digest) is None:
            packer = zlib.compressobj(_LEVEL, wbits=_GZIP)
            # Not synced one by one: a thousand syncs cost more than fetching again what a power cut damaged.
            write_file(self._body_path(digest), packer.compress(body) + packer.flush(), synced=False)

    def has_body(self, digest: str) -> bool:
        """Whether there is a body of that hash; only reading it tells whether it is whole."""
        return self._found(self._body_path(digest)).is_file()

    def body(self, digest: str) -> bytes | None:
        """The body of that hash, or None where it is missing or damaged."""
        for root in self._roots:
            try:
                with storage_errors(self.root):
                    body = _unpacked(root / self._body_path(digest).relative_to(self.root))
            except zlib.error:
                continue
            if body is not None and sha256(body) == digest:
                return body
        return None

    def forget(self, urls: Collection[str]) -> int:
        """Takes every trace of pages away, whatever crawl had them: lines, what was said of them, bodies. Returns how many bodies went."""
        with storage_errors(self.root):
            return forget_urls(self.root, frozenset(urls))

    def prune(self, crawls: set[str], bodies: set[str]) -> Pruned:
        """Takes away all crawls but `crawls`, and the bodies that none of these names, but `bodies`."""
        with storage_errors(self.root):
            return prune_crawls(self.root, crawls, bodies)

    @property
    def _roots(self) -> list[Path]:
        return [self.root] if self.below is None else [self.root, self.below]

    def _found(self, path: Path) -> Path:
        """Where a file of this store lies: here, or below."""
        if self.below is None or path.is_file():
            return path
        return self.below / path.relative_to(self.root)

    def _body_path(self, digest: str) -> Path:
        return self.root / "bodies" / digest[:2] / f"{digest}.gz"


def _unpacked(path: Path) -> bytes | None:
    try:
        return zlib.decompress(path.read_bytes(), wbits=_GZIP)
    except FileNotFoundError:
        return None


def _is_readable(path: Path) -> bool:
    is_ours = head_of(path) is not None
    if not is_ours:
        log.warning("a crawl's journal is not of this format and counts as none", journal=str(path))
    return is_ours


def _last_byte(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - 1))
        return file.read(1)
