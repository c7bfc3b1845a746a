"""Pages as they were fetched, on disk: bodies by their content, and one journal for each crawl.

    bodies/<ab>/<sha256>.gz      a body, once for all crawls that met it
    crawls/<run_id>.jsonl        a line for each page, in order of arrival
    crawls/<run_id>.stats.json   how the crawl ended; without it, it did not end

A line follows its body and is handed to the system at once, so killing a crawl loses nothing that had arrived. A power cut
may lose the tail of what was not synced: a torn line, or a line whose body is missing or has another hash, was not fetched.
"""

import gzip
import json
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from schemas.durable import sync_folder
from schemas.errors import StorageError
from schemas.items import Page, sha256

_KEPT = ("url", "requested_url", "status", "content_type", "etag", "last_modified", "fetched_at")


@dataclass(slots=True)
class Journal:
    """Where a running crawl puts its pages."""

    store: "RawStore"
    file: IO[str]

    def add(self, page: Page, *, redirects: list[str] | None = None) -> None:
        """Stores a page. `redirects` are the URLs that led to it."""
        digest = page.sha256
        line = {name: getattr(page, name) for name in _KEPT} | {"sha256": digest, "bytes": len(page.body), "redirects": redirects or []}
        with _as_storage_error(self.store.root):
            self.store.keep_body(digest, page.body)
            self.file.write(json.dumps(line) + "\n")
            self.file.flush()


class RawStore:
    """The raw pages of one source."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def journal_path(self, run_id: str) -> Path:
        return self.root / "crawls" / f"{run_id}.jsonl"

    def stats_path(self, run_id: str) -> Path:
        return self.root / "crawls" / f"{run_id}.stats.json"

    @contextmanager
    def journal(self, run_id: str) -> Iterator[Journal]:
        """The journal of a crawl, opened for adding; what an earlier attempt wrote is kept."""
        path = self.journal_path(run_id)
        with _as_storage_error(self.root):
            path.parent.mkdir(parents=True, exist_ok=True)
            is_torn = path.is_file() and path.read_bytes()[-1:] not in (b"\n", b"")
            file = path.open("a", encoding="utf-8")
        with file:
            if is_torn:
                file.write("\n")
            yield Journal(self, file)
            with _as_storage_error(self.root):
                file.flush()
                os.fsync(file.fileno())
                sync_folder(path.parent)

    def pages(self, run_id: str) -> Iterator[Page]:
        """The pages of a crawl, sorted by URL.

        Pages arrive in an order that the network decides. Sorted, the same content gives the same items, ids and digest,
        whatever the order in which it arrived. Where a URL was stored twice, the later one counts.
        """
        lines: dict[str, dict[str, Any]] = {}
        for line in self._lines(run_id):
            lines[line["url"]] = line
        for url in sorted(lines):
            line = lines[url]
            body = self._body(line["sha256"])
            if body is not None:
                yield Page(body=body, **{name: line[name] for name in _KEPT})

    def _lines(self, run_id: str) -> Iterator[dict[str, Any]]:
        path = self.journal_path(run_id)
        with _as_storage_error(self.root):
            content = path.read_bytes() if path.is_file() else b""
        for raw in content.split(b"\n"):
            try:
                line = json.loads(raw)
            except ValueError:  # torn by a kill
                continue
            if isinstance(line, dict) and line.keys() >= {*_KEPT, "sha256"}:
                yield line

    def keep_body(self, digest: str, body: bytes) -> None:
        """Stores a body under its hash, unless it is there and whole."""
        if self._body(digest) is not None:
            return
        path = self._body_path(digest)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            # Not synced one by one: a thousand syncs cost more than fetching again what a power cut damaged.
            temporary.write_bytes(gzip.compress(body, compresslevel=6, mtime=0))
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)

    def _body_path(self, digest: str) -> Path:
        return self.root / "bodies" / digest[:2] / f"{digest}.gz"

    def _body(self, digest: str) -> bytes | None:
        """The body of that hash, or None where it is missing or damaged."""
        try:
            body = gzip.decompress(self._body_path(digest).read_bytes())
        except FileNotFoundError:
            return None
        except (EOFError, zlib.error, gzip.BadGzipFile):
            return None
        except OSError as error:
            raise _storage_error(self.root, error) from error
        return body if sha256(body) == digest else None


@contextmanager
def _as_storage_error(root: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _storage_error(root, error) from error


def _storage_error(root: Path, error: OSError) -> StorageError:
    hint = "free some space, mend the permissions, or choose another place with --data DIR"
    return StorageError(f"raw pages cannot be stored or read: {error.strerror or error}", where=str(error.filename or root), hint=hint)
