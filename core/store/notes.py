"""What a working copy remembers in `.copy.sqlite`: hashes of files by size and time, objects of trees, sealed folders,
and the tree of each area.

It may be lost: then files are hashed again, trees fetched, and areas made what is in the store, since nothing tells
local work on top of it from what another machine removed. So notes that are damaged are never made anew here: whoever
removes them knows what that costs. Processes that share a working copy share it.
"""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from almanac.core.store.layout import AREAS
from almanac.schemas.errors import StorageError
from almanac.schemas.hashing import file_sha256

NOTES = ".copy.sqlite"
_SCHEMA = """
PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;
CREATE TABLE IF NOT EXISTS files(path TEXT PRIMARY KEY, size INTEGER, changed INTEGER, sha256 TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS trees(sha256 TEXT PRIMARY KEY, content BLOB) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sealed(path TEXT PRIMARY KEY, sha256 TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS areas(name TEXT PRIMARY KEY, tree TEXT) WITHOUT ROWID;
"""
_HINT = (
    "free or mend the disk; if the file is damaged, it may be removed while no command runs: what this machine "
    "has not pushed yet, such as pages and vectors "
    "of a run that ended without its store, is lost then, and what readers fetched is fetched again"
)


class Notes:
    """The database in `path`, made where it is missing. Safe to share among threads.

    Raises StorageError, from every method, where the database is damaged, or the disk is full or fails.
    """

    def __init__(self, path: Path) -> None:
        self._lock, self._path = threading.Lock(), path
        with self._told():
            self._database = _opened(path)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Converts the errors of SQLite, one thread at a time."""
        with self._lock:
            try:
                yield
            except sqlite3.ProgrammingError:
                raise  # a defect
            except sqlite3.Error as error:
                raise StorageError(
                    f"the notes of a working copy cannot be read or written: {error}", where=str(self._path), hint=_HINT
                ) from error

    def close(self) -> None:
        self._database.close()

    def sha256(self, root: Path, path: PurePosixPath) -> str:
        """The hash of a file, read again if size or time of change are others. Raises FileNotFoundError."""
        found = (root / path).stat()
        row = self._get(
            "SELECT sha256 FROM files WHERE path = ? AND size = ? AND changed = ?",
            str(path),
            found.st_size,
            found.st_mtime_ns,
        )
        if row is not None:
            return str(row)
        sha256 = file_sha256(root / path)
        self._put("files", str(path), found.st_size, found.st_mtime_ns, sha256)
        return sha256

    def note_file(self, root: Path, path: PurePosixPath, sha256: str) -> None:
        found = (root / path).stat()
        self._put("files", str(path), found.st_size, found.st_mtime_ns, sha256)

    def tree(self, sha256: str) -> bytes | None:
        content: bytes | None = self._get("SELECT content FROM trees WHERE sha256 = ?", sha256)
        return content

    def note_tree(self, sha256: str, content: bytes) -> None:
        self._put("trees", sha256, content)

    def keep_trees(self, needed: set[str]) -> None:
        """Forgets the objects of all other trees."""
        with self._told():
            known = [sha256 for (sha256,) in self._database.execute("SELECT sha256 FROM trees")]
            self._database.executemany(
                "DELETE FROM trees WHERE sha256 = ?", [(sha256,) for sha256 in known if sha256 not in needed]
            )

    def sealed(self, path: PurePosixPath) -> str | None:
        sha256: str | None = self._get("SELECT sha256 FROM sealed WHERE path = ?", str(path))
        return sha256

    def note_sealed(self, path: PurePosixPath, sha256: str) -> None:
        self._put("sealed", str(path), sha256)

    def checked_out(self, area: str) -> str:
        """The tree that an area was made from last, empty before the first time."""
        return str(self._get("SELECT tree FROM areas WHERE name = ?", area) or "")

    def note_checked_out(self, area: str, tree: str) -> None:
        self._put("areas", area, tree)

    def _get(self, query: str, *values: object) -> Any:
        with self._told():
            row = self._database.execute(query, values).fetchone()
        return row[0] if row else None

    def _put(self, table: str, *values: object) -> None:
        with self._told():
            self._database.execute(f"INSERT OR REPLACE INTO {table} VALUES ({', '.join('?' * len(values))})", values)


def _opened(path: Path) -> sqlite3.Connection:
    if path.is_file() and not path.stat().st_size and any((path.parent / area).exists() for area in AREAS):
        raise sqlite3.DatabaseError("the file is empty")  # SQLite takes it for a new database
    database = sqlite3.connect(path, timeout=60, check_same_thread=False, isolation_level=None)
    try:
        database.executescript(_SCHEMA)
    except BaseException:
        database.close()
        raise
    return database
