"""A copy of a version's Chroma directory that shares nothing with the original, and is proven as far as the manifest speaks of it."""

import hashlib
import sqlite3
from contextlib import closing
from pathlib import Path

from index.rows import CHROMA, DATABASE
from schemas.errors import DamagedVersion, StorageError
from schemas.manifest import Manifest, StoredFile

_BLOCK = 4 << 20
_THE_DISK = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM)


def copy_chroma(source: Path, manifest: Manifest, target: Path) -> None:
    """Copies the Chroma directory of the version in folder `source` into the folder `target`; readers may have it open meanwhile.

    Raises DamagedVersion where an index file is not, byte by byte, what the manifest says, or the database cannot be read.
    """
    (target / CHROMA).mkdir()
    # Readers write to the database, if only two pages of it: SQLite alone knows when a copy is whole.
    _copy_database(source / CHROMA / DATABASE, target / CHROMA / DATABASE)
    for stored in manifest.files:
        if stored.path.startswith(f"{CHROMA}/"):
            (target / stored.path).parent.mkdir(parents=True, exist_ok=True)
            _copy_proven(source / stored.path, target / stored.path, stored)


def _copy_proven(source: Path, target: Path, stored: StoredFile) -> None:
    """Copies a file and hashes it on the way. Chroma maps index files into memory and trusts them: a wrong one may end the process."""
    digest = hashlib.sha256()
    try:
        with source.open("rb") as reader, target.open("wb") as writer:
            while block := reader.read(_BLOCK):
                digest.update(block)
                writer.write(block)
    except FileNotFoundError as error:
        raise DamagedVersion("an index file is missing", where=str(source)) from error
    if digest.hexdigest() != stored.sha256:
        raise DamagedVersion("an index file was altered", where=str(source))


def _copy_database(source: Path, target: Path) -> None:
    """By SQLite's backup, which holds off writers for as long as it takes, 0.7 s a GB.

    Alone with the target and without a journal it is as fast as `cp` (0.4 s for 212 MB against 0.7 s): nobody goes on with half a copy.
    """
    if not source.is_file():
        raise DamagedVersion("Chroma's database is missing", where=str(source))
    # Not `mode=ro`: what a reader that was killed left half done has to be taken back first, as any opening would.
    original = f"{source.absolute().as_uri()}?mode=rw"
    try:
        with closing(sqlite3.connect(original, uri=True)) as reader, closing(sqlite3.connect(target, isolation_level=None)) as writer:
            for setting in ("synchronous = OFF", "journal_mode = OFF", "locking_mode = EXCLUSIVE"):
                writer.execute(f"PRAGMA {setting}")
            reader.backup(writer)
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _THE_DISK:
            raise StorageError(f"Chroma's database cannot be copied: {error}", where=str(target), hint="free space or mend permissions there") from error
        raise DamagedVersion(f"Chroma's database cannot be copied: {error}", where=str(source)) from error
