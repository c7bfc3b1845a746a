"""Copies of a version's Chroma directory and lexical index that share nothing with the original, and are proven as far as the manifest speaks of it."""

import errno
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from almanac.index.chroma.rows import CHROMA, DATABASE
from almanac.index.lexical.facts import LEXICAL
from almanac.schemas.errors import DamagedVersion, StorageError
from almanac.schemas.hashing import file_sha256
from almanac.schemas.manifest import Manifest, StoredFile

_BLOCK = 4 << 20
_OWN_FILES = ".managed.json"
_NOT_HERE = (errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.EBADF)
_THE_DISK = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM)


def copy_chroma(source: Path, manifest: Manifest, target: Path) -> None:
    """Copies the Chroma directory of the version in folder `source` into the folder `target`; readers may have it open meanwhile.

    Raises DamagedVersion where an index file is not, byte by byte, what the manifest says, or the database cannot be read.
    """
    (target / CHROMA).mkdir()
    # Readers write to the database, if only two pages of it: SQLite has to keep them off meanwhile.
    _copy_database(source / CHROMA / DATABASE, target / CHROMA / DATABASE)
    for stored in manifest.files:
        if stored.path.startswith(f"{CHROMA}/"):
            (target / stored.path).parent.mkdir(parents=True, exist_ok=True)
            _copy_proven(source / stored.path, target / stored.path, stored)


def copy_lexical(source: Path, manifest: Manifest, target: Path) -> None:
    """Copies the lexical index of the version in folder `source` into the folder `target`. Raises DamagedVersion where a file is not what the manifest says."""
    (target / LEXICAL).mkdir()
    for stored in manifest.files:
        if stored.path.startswith(f"{LEXICAL}/"):
            _copy_proven(source / stored.path, target / stored.path, stored)
    # tantivy removes those files that this one names, once they are of no use; it is hidden, and so the manifest knows nothing of it.
    names = source / LEXICAL / _OWN_FILES
    if names.is_file():
        copy_file(names, target / LEXICAL / _OWN_FILES)


def copy_file(source: Path, target: Path) -> None:
    """Copies a file's content within the kernel where that can be done: 1 GB took .3 s, 2.1 by `shutil.copyfile`, 2.1 to 3.9 by SQLite's backup."""
    with source.open("rb") as reader, target.open("wb") as writer:
        left = os.fstat(reader.fileno()).st_size
        try:
            while left and (copied := os.copy_file_range(reader.fileno(), writer.fileno(), left)):
                left -= copied
        except (AttributeError, OSError) as error:
            if isinstance(error, OSError) and error.errno not in _NOT_HERE:
                raise
        if left:  # it cannot be done here, or ended early, as some file systems let it
            reader.seek(0)
            writer.seek(0)
            shutil.copyfileobj(reader, writer, _BLOCK)


def _copy_proven(source: Path, target: Path, stored: StoredFile) -> None:
    """Copies a file and hashes the copy. Chroma maps index files into memory and trusts them: a wrong one may end the process."""
    try:
        copy_file(source, target)
    except FileNotFoundError as error:
        raise DamagedVersion("an index file is missing", where=str(source)) from error
    if file_sha256(target) != stored.sha256:
        raise DamagedVersion("an index file was altered", where=str(source))


def _copy_database(source: Path, target: Path) -> None:
    """The file while a transaction that reads it keeps writers off; by SQLite's backup where it has a write-ahead log, which is a second file."""
    if not source.is_file():
        raise DamagedVersion("Chroma's database is missing", where=str(source))
    # Not `mode=ro`: what a reader that was killed left half done has to be taken back first, as any opening would.
    original = f"{source.absolute().as_uri()}?mode=rw"
    try:
        with closing(sqlite3.connect(original, uri=True, isolation_level=None)) as reader:
            [[journal]] = reader.execute("PRAGMA journal_mode")
            if journal == "wal":
                _back_up(reader, target)
                return
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM sqlite_schema").fetchone()  # takes the lock, which our own closing of the file would give back
            copy_file(source, target)
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _THE_DISK:
            raise StorageError(f"Chroma's database cannot be copied: {error}", where=str(target), hint="free space or mend permissions there") from error
        raise DamagedVersion(f"Chroma's database cannot be copied: {error}", where=str(source)) from error


def _back_up(reader: sqlite3.Connection, target: Path) -> None:
    """Alone with the target, and without a journal: nobody goes on with half a copy."""
    with closing(sqlite3.connect(target, isolation_level=None)) as writer:
        for setting in ("synchronous = OFF", "journal_mode = OFF", "locking_mode = EXCLUSIVE"):
            writer.execute(f"PRAGMA {setting}")
        reader.backup(writer)
