"""Checksums of the pages of Chroma's database, by which bit rot in it is found.

Opening a version changes its database: Chroma counts the opening in one table, and SQLite counts the change in its
header. So the file has no hash of its own in the manifest, but a file of CRC-32s beside it does: one for each page, in
which only those two places may differ.
"""

import sqlite3
import struct
import zlib
from collections.abc import Iterator
from contextlib import closing
from itertools import zip_longest
from pathlib import Path

from almanac.core.durable import write_file
from almanac.index.chroma.rows import CHROMA, DATABASE

# little-endian uint32: number of the first free page, number of free pages, then the CRC-32 of each page
PAGE_SUMS = "chroma.crc32"
_COUNTED = "acquire_write"  # the table in which Chroma counts openings
_BLOCK = 1024  # pages read at a time
# In SQLite's file header: change counter, size, first free page and number of free pages; then version of the change
# and of the library.
_HEADER_CHANGES = ((24, 40), (92, 100))
_INTERIOR = 5  # type of a b-tree page that has children


def write_page_sums(version_dir: Path) -> None:
    """Writes the checksums of a built version's database, which no process may have open; without a database,
    nothing.
    """
    database = version_dir / CHROMA / DATABASE
    if database.is_file():
        sums = _sums(database)
        # the whole directory is synced afterwards
        write_file(version_dir / PAGE_SUMS, struct.pack(f"<{len(sums)}I", *sums), synced=False)


def altered_pages(database: Path, page_sums: Path) -> list[int]:
    """Returns the numbers, from 1, of the pages that differ from their checksums for another reason than that the
    version was opened.

    Readers may have the database open meanwhile. Raises OSError, ValueError or sqlite3.DatabaseError where it cannot be
    read at all.
    """
    content = page_sums.read_bytes()
    if len(content) % 4 or len(content) < 8:
        raise ValueError(f"{PAGE_SUMS} was cut off")
    first_free, free, *wanted = struct.unpack(f"<{len(content) // 4}I", content)
    # Rolls back what a killed reader left, and keeps writers out until the end. A POSIX lock: it ends as soon as this
    # process closes the file.
    with closing(open_database(database)) as reader:
        reader.execute("BEGIN")
        [[root]] = reader.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", [_COUNTED]).fetchall() or [[0]]
        first_free_now, free_now, *found = _sums(database)
    differing = {number for number, (one, other) in enumerate(zip_longest(found, wanted), start=1) if one != other}
    if (first_free_now, free_now) == (first_free, free) and not differing:
        return []
    counted = set(_pages_of_table(database, root)) if root else set[int]()
    # the table has grown into free pages, which the list of free pages has lost
    if 0 <= free - free_now < max(1, len(counted)):
        allowed = counted | ({first_free_now} if free_now < free else set())
        return sorted(differing - allowed) or ([] if free_now < free or first_free_now == first_free else [1])
    return sorted({1, *differing} - counted)


def open_database(database: Path, *, patience_s: float = 5) -> sqlite3.Connection:
    """Opens Chroma's database to be read: so that nothing can be written, which works in a read-only directory, unless
    a killed process left a journal.

    Where another process has it locked for longer than `patience_s`, reading raises sqlite3.OperationalError.
    """
    mode = "rw" if database.with_name(f"{database.name}-journal").exists() else "ro"
    return sqlite3.connect(
        f"{database.absolute().as_uri()}?mode={mode}", uri=True, isolation_level=None, timeout=patience_s
    )


def _sums(database: Path) -> list[int]:
    """Number of the first free page, number of free pages, then CRC-32 of each page, without what the header counts."""
    with database.open("rb") as file:
        header = file.read(100)
        size = _page_size(header)
        file.seek(0)
        first = bytearray(file.read(size))
        for begin, end in _HEADER_CHANGES:
            first[begin:end] = bytes(end - begin)
        sums = [int.from_bytes(header[32:36], "big"), int.from_bytes(header[36:40], "big"), zlib.crc32(first)]
        while block := memoryview(file.read(size * _BLOCK)):
            sums += [zlib.crc32(block[begin : begin + size]) for begin in range(0, len(block), size)]
    return sums


def _page_size(header: bytes) -> int:
    size = int.from_bytes(header[16:18], "big")
    if len(header) < 100 or size == 0:
        raise ValueError("no database of SQLite")
    return 65_536 if size == 1 else size


def _pages_of_table(database: Path, root: int) -> Iterator[int]:
    """Yields the numbers of the pages of a table's b-tree."""
    with database.open("rb") as file:
        size = _page_size(file.read(100))
        waiting, seen = [root], set[int]()
        while waiting:
            number = waiting.pop()
            if number in seen:
                continue
            seen.add(number)
            yield number
            file.seek((number - 1) * size)
            page = file.read(size)
            if page[:1] == bytes([_INTERIOR]):
                cells = int.from_bytes(page[3:5], "big")
                places = [int.from_bytes(page[at : at + 2], "big") for at in range(12, 12 + 2 * cells, 2)]
                waiting += [
                    int.from_bytes(page[8:12], "big"),
                    *(int.from_bytes(page[place : place + 4], "big") for place in places),
                ]
