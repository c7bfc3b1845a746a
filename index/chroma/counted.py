"""Tells in a millisecond whether another program has changed Chroma's database since it was built: by counts, without
reading rows.

`index.verify` compares every row: 100 MB for 20,000 rows.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

from almanac.core.durable import write_file
from almanac.index.chroma.rows import CHROMA, DATABASE
from almanac.schemas.errors import storage_error
from almanac.schemas.hashing import file_sha256

NOTED = "chroma.sha256"  # hash of Chroma's database as it was sealed
_COUNT = "SELECT count(*) FROM embeddings"
# Each change gets a number, which the text index notes at once, the vector index once it is flushed, as it is at the
# end of a build.
_CHANGES = "SELECT seq_id FROM max_seq_id UNION SELECT max(seq_id) FROM embeddings_queue"
_PATIENCE_S = 0.2
_UNFLUSHED = 1  # rows, up to which Chroma writes no vector index


def note_database(folder: Path) -> None:
    """Notes the hash of Chroma's database in `folder`, if it has one. The manifest does not list that file: whoever
    opens Chroma where it lies changes it.
    """
    if (database := folder / CHROMA / DATABASE).is_file():
        write_file(folder / NOTED, f"{file_sha256(database)}  {CHROMA}/{DATABASE}\n", synced=False)


def misfit(version_dir: Path, rows: int) -> str | None:
    """Says what does not fit in the database of a folder that was built with `rows` rows; None where all fits, or
    another program has locked it.

    Raises StorageError where it may not be read.
    """
    path = version_dir / CHROMA / DATABASE
    try:
        with closing(_open(path)) as database:
            [[count]] = database.execute(_COUNT).fetchall()
            changes = {change for [change] in database.execute(_CHANGES) if change is not None}
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY:
            return None
        _require_permission(path)
        return f"Chroma's database cannot be read: {error}"
    if count != rows:
        return f"Chroma has {count} rows instead of {rows}"
    if rows > _UNFLUSHED and len(changes) > 1:
        return "another program has changed rows in Chroma's database"
    return None


def _open(database: Path) -> sqlite3.Connection:
    """Opens the database so that nothing can be written, which works in a read-only directory, unless a killed process
    left a journal.
    """
    mode = "rw" if database.with_name(f"{database.name}-journal").exists() else "ro"
    uri = f"{database.absolute().as_uri()}?mode={mode}"
    return sqlite3.connect(uri, uri=True, isolation_level=None, timeout=_PATIENCE_S)


def _require_permission(path: Path) -> None:
    """SQLite says of a file that may not be read, as of one that is gone, that it cannot open it."""
    try:
        path.open("rb").close()
    except PermissionError as error:
        raise storage_error(error, path) from error
    except FileNotFoundError:
        return
