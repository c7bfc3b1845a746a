"""The rows of one source as of its last reading, in a SQLite file beside its raw pages.

A reading is one transaction: killed anywhere, the rows are those of the reading before. What a run reads are the pages
made of them (`pages`), so a row that did not change is neither asked for nor mapped again.
"""

import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Literal, Self

from almanac.schemas.errors import StorageError

ROWS = "rows.sqlite"
"""Name of the file beside the raw pages of a source."""
_FORMAT = "1"
UNREAD = "\0"
"""Begins the key of a line without an id, or with that of an earlier one: mapping rejects it, each reading drops it."""
_ENDS = 256  # a page ends behind a row whose id has a checksum divisible by this: on average so many rows are a page
_MOST_BYTES = 4 << 20  # of a page
_TABLES = """
create table if not exists rows (id text primary key, body blob not null, seen integer not null) without rowid;
create table if not exists facts (name text primary key, value text not null) without rowid;
"""

Change = Literal["new", "changed", "same"]


class RowTable:
    """Context manager over the rows of a source: id → one line of JSON. A new file begins as a copy of that `below`."""

    def __init__(self, path: Path, below: Path | None = None) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._below = below if below is not None and below.is_file() and not path.exists() else None
        self._rows = sqlite3.connect(path, isolation_level=None, timeout=60)

    def __enter__(self) -> Self:
        with self._as_storage_error():
            if self._below is not None:
                with closing(sqlite3.connect(self._below, timeout=60)) as below:
                    below.backup(self._rows)
            self._rows.execute("pragma secure_delete = on")  # a takedown leaves nothing in free pages
            self._rows.executescript(_TABLES)
            if self.fact("format", _FORMAT) != _FORMAT:
                raise StorageError(
                    "the rows are of another format",
                    where=str(self._path),
                    hint="remove the file; the next run fills it",
                )
        return self

    def __exit__(self, *_: object) -> None:
        self._rows.close()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """What is changed inside the block takes effect at its end, or, after an exception, not at all."""
        with self.changing():
            self._rows.execute("update rows set seen = 0 where seen = 1")
            yield

    @contextmanager
    def changing(self) -> Iterator[None]:
        """As `reading`, where single rows are put and dropped, and nothing is known of the others."""
        with self._as_storage_error():
            self._rows.execute("begin immediate")
            try:
                yield
                self.set_fact("format", _FORMAT)
                self._rows.execute("commit")
            except BaseException:
                self._rows.execute("rollback")
                raise

    def put(self, row_id: str, body: bytes) -> Change:
        """Adds or replaces a row, which is there from then on."""
        known = self._rows.execute("select body from rows where id = ?", (row_id,)).fetchone()
        if known is not None and known[0] == body:
            self._rows.execute("update rows set seen = 1 where id = ?", (row_id,))
            return "same"
        self._rows.execute("insert or replace into rows values (?, ?, 1)", (row_id, body))
        return "new" if known is None else "changed"

    def has_seen(self, row_id: str) -> bool:
        """Whether this reading has given a row of that id."""
        return bool(self._rows.execute("select seen from rows where id = ?", (row_id,)).fetchone() == (1,))

    def see(self, row_id: str) -> None:
        """Notes that a row is there, as it was."""
        self._rows.execute("update rows set seen = 1 where id = ?", (row_id,))

    def drop(self, row_id: str) -> bool:
        """Removes a row; returns whether it was there."""
        return self._rows.execute("delete from rows where id = ?", (row_id,)).rowcount > 0

    def unseen(self) -> Iterator[str]:
        """Yields the ids of rows that this reading has not given, in order."""
        yield from (row_id for (row_id,) in self._rows.execute("select id from rows where not seen order by id"))

    def drop_unread(self) -> None:
        """Removes lines without an id that an earlier reading has left."""
        self._rows.execute("delete from rows where not seen and id < ?", (chr(ord(UNREAD) + 1),))

    def rows(self) -> Iterator[tuple[str, bytes]]:
        """Yields id and line of each row, in the order of ids."""
        yield from self._rows.execute("select id, body from rows order by id")

    def drop_unseen(self) -> None:
        self._rows.execute("delete from rows where not seen")

    def fact(self, name: str, otherwise: str = "") -> str:
        """What was noted under a name."""
        row = self._rows.execute("select value from facts where name = ?", (name,)).fetchone()
        return otherwise if row is None else str(row[0])

    def set_fact(self, name: str, value: str) -> None:
        self._rows.execute("insert or replace into facts values (?, ?)", (name, value))

    def __len__(self) -> int:
        return int(self._rows.execute("select count(*) from rows").fetchone()[0])

    def pages(self) -> Iterator[tuple[str, bytes]]:
        """Yields the rows as pages of JSON lines in the order of their ids, each with the id of its first row.

        Where a page ends is told by ids alone, so a row that comes, changes or goes changes its own page, or two.
        """
        first, lines, size = "", list[bytes](), 0
        for row_id, body in self._rows.execute("select id, body from rows order by id"):
            if lines and first.startswith(UNREAD) and not row_id.startswith(UNREAD):
                yield first, b"\n".join(lines) + b"\n"
                lines, size = [], 0
            first = first if lines else row_id
            lines.append(body)
            size += len(body)
            if (zlib.crc32(row_id.encode()) % _ENDS == 0 and not row_id.startswith(UNREAD)) or size > _MOST_BYTES:
                yield first, b"\n".join(lines) + b"\n"
                lines, size = [], 0
        if lines:
            yield first, b"\n".join(lines) + b"\n"

    @contextmanager
    def _as_storage_error(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StorageError(
                f"the rows cannot be stored or read: {error}",
                where=str(self._path),
                hint="free some space; a damaged file may be removed, and the next run reads all rows again",
            ) from error
