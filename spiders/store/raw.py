"""Raw pages on disk: content-addressed bodies, and one journal per crawl (`journal.py`).

    bodies/<ab>/<sha256>.gz      a body, stored once for all crawls
    crawls/<run_id>.jsonl        the source's pages as of that crawl
    crawls/<run_id>.stats.json   outcome of the crawl; missing if it was cut off

The order of crawls is the number in the journal's head, which counts up: neither run ids nor times decide it, because a
clock may be wrong.

A journal line is written after its body and flushed to the operating system at once, so killing a crawl loses nothing
that has arrived. A power cut may lose unsynced data: a torn line, or a line whose body is missing or has another hash,
counts as not fetched.
"""

import os
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from almanac.core.durable import append, sync_folder, write_file
from almanac.core.logs import get_logger
from almanac.schemas.hashing import sha256
from almanac.schemas.items import Page
from almanac.spiders.store.journal import FIELDS, CrawlIndex, Entry, Head, head_of, line_of, storage_errors, values_of
from almanac.spiders.store.raw_retention import Pruned, forget_urls, prune_crawls

log = get_logger("almanac.raw")
# Level 1 compresses pages a fifth less than level 6, in a quarter of the time.
_LEVEL = 1
_GZIP = 31  # zlib's wbits for gzip; its header holds no time, so equal bodies give equal files


@dataclass(slots=True)
class Journal:
    """The open journal of a running crawl."""

    store: "RawStore"
    file: IO[bytes]

    def add(self, page: Page, *, redirects: list[str] | None = None, card: list[str] | None = None) -> None:
        """Stores the body of a fetched page and appends its entry. `redirects` are the URLs that led to it; `card` is
        as in `Entry`.
        """
        entry = Entry.from_page(page, redirects or [], card or [])
        with storage_errors(self.store.root):
            self.store.keep_body(entry.sha256, page.body)
        self.repeat(entry)

    def repeat(self, entry: Entry) -> None:
        """Appends an entry whose body is stored already."""
        self._write({name: getattr(entry, name) for name in FIELDS})  # asdict copies lists and takes ten times as long

    def alias(self, url: str, page_url: str) -> None:
        """Appends an alias: `url` redirects to the page `of`, which was also reached another way."""
        self._write({"alias": url, "of": page_url})

    def name(self, url: str, link_text: str) -> None:
        """Appends what links call the document that is stored under a URL; empty if they do not say."""
        self._write({"of": url, "link_text": link_text})

    def keep(self, entry: Entry, aliases: Collection[str]) -> None:
        """Appends an entry that is carried over from the previous crawl, with the aliases it had there."""
        self.repeat(entry)
        for alias in aliases:
            self._write({"alias": alias, "of": entry.url, "kept": entry.kept})

    def _write(self, values: dict[str, Any]) -> None:
        with storage_errors(self.store.root):
            append(self.file, line_of(values))


class RawStore:
    """The raw pages of one source under `root`. Files missing there are read from the store `below`, which is never
    written to.
    """

    def __init__(self, root: Path, below: Path | None = None) -> None:
        self.root = root
        self.below = below

    def journal_path(self, run_id: str) -> Path:
        return self.root / "crawls" / f"{run_id}.jsonl"

    def stats_path(self, run_id: str) -> Path:
        return self.root / "crawls" / f"{run_id}.stats.json"

    def crawls(self) -> list[str]:
        """Run ids of all crawls with a readable journal, oldest first."""
        numbers = self._numbers()
        return sorted(numbers, key=lambda run_id: (numbers[run_id], run_id))

    def index(self, run_id: str) -> CrawlIndex:
        """The index of a crawl's entries at this moment; empty if the crawl has no journal."""
        return CrawlIndex(self._locate_file(self.journal_path(run_id)))

    def stats(self, run_id: str) -> str | None:
        """The outcome that the crawl wrote at its end, as JSON; None if it was cut off."""
        path = self._locate_file(self.stats_path(run_id))
        with storage_errors(self.root):
            return path.read_text(encoding="utf-8") if path.is_file() else None

    @contextmanager
    def journal(self, run_id: str, head: Head = Head()) -> Iterator[Journal]:  # noqa: B008  # frozen
        """Opens the journal of a crawl for appending and syncs it at the end.

        Lines of an earlier attempt at the same crawl are kept. A new journal starts with `head`, and with a number
        above those of all other crawls.
        """
        path = self.journal_path(run_id)
        with storage_errors(self.root):
            if head_of(path) is None:
                write_file(path, replace(head, number=max(self._numbers().values(), default=0) + 1).line())
            is_torn = _last_byte(path) != b"\n"  # by a killed process
            file = path.open("ab", buffering=0)
        with file:
            if is_torn:
                append(file, b"\n")
            yield Journal(self, file)
            with storage_errors(self.root):
                os.fsync(file.fileno())
                sync_folder(path.parent)

    def drop_kept(self, run_id: str) -> None:
        """Removes the carried-over entries that an earlier attempt at this crawl has written, so that they can be
        decided again.
        """
        path = self.journal_path(run_id)
        if head_of(path) is not None:
            with storage_errors(self.root):
                lines = path.read_bytes().splitlines(keepends=True)
                left = [line for line in lines if not values_of(line).get("kept")]
                if len(left) < len(lines):
                    write_file(path, b"".join(left))

    def pages(self, run_id: str) -> Iterator[Page]:
        """Yields the pages of a crawl one at a time, in the order of `CrawlIndex.in_order`. Pages with a missing or
        damaged body are skipped.
        """
        index = self.index(run_id)
        for entry in index.in_order():
            body = self.body(entry.sha256)
            if body is not None:
                yield replace(entry.page(body), aliases=tuple(index.aliases(entry)))

    def keep_body(self, digest: str, body: bytes) -> None:
        """Stores a body under its hash, unless an intact one is there."""
        if self.body(digest) is None:
            packer = zlib.compressobj(_LEVEL, wbits=_GZIP)
            # Not synced: a thousand syncs cost more than fetching again what a power cut damages.
            write_file(self._body_path(digest), packer.compress(body) + packer.flush(), synced=False)

    def has_body(self, digest: str) -> bool:
        """Whether a body of that hash is stored; whether it is intact shows only on reading."""
        return self._locate_file(self._body_path(digest)).is_file()

    def body(self, digest: str) -> bytes | None:
        """The body of that hash; None if it is missing or damaged."""
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
        """Erases pages from every crawl: journal lines, mentions in stats, and bodies. Returns the number of bodies
        removed.
        """
        with storage_errors(self.root):
            return forget_urls(self.root, frozenset(urls))

    def prune(self, crawls: set[str], bodies: set[str]) -> Pruned:
        """Removes all crawls except `crawls`, and the bodies that neither a remaining crawl nor `bodies` names."""
        with storage_errors(self.root):
            return prune_crawls(self.root, crawls, bodies)

    def _numbers(self) -> dict[str, int]:
        """Run id → number, for each crawl with a readable journal."""
        heads = {path: head_of(path) for root in self._roots for path in (root / "crawls").glob("*.jsonl")}
        for path in (path for path, head in heads.items() if head is None):
            log.warning("a crawl's journal is not of this format and counts as none", journal=str(path))
        return {path.stem: head.number for path, head in heads.items() if head is not None}

    @property
    def _roots(self) -> list[Path]:
        return [self.root] if self.below is None else [self.root, self.below]

    def _locate_file(self, path: Path) -> Path:
        """The path of a file of this store, in `root` or in the store below."""
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


def _last_byte(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - 1))
        return file.read(1)
