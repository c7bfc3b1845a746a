"""The SQLite database of Prefect's API: whether it is migrated, and a copy of a migrated one for a new data directory.

Prefect makes a database by its hundred migrations, one after the other, which takes some four seconds. What comes out
is the same each time. So the first one that is made on a machine is kept, empty, in the user's cache, and each new data
directory has a copy.
"""

import os
import re
import shutil
import sqlite3
from contextlib import closing, suppress
from functools import cache
from pathlib import Path

from almanac.core.durable import sweep, temporary_beside, write_file
from almanac.core.settings import prefect_databases

_LOGS = ("-wal", "-shm", "-journal")  # beside a database that was not closed


def prepare_database() -> None:
    """Makes the database that Prefect's settings name, where it is an SQLite file that is missing.

    What cannot be done here, Prefect does at its start, or tells why it cannot be done.
    """
    from prefect import __version__

    place, newest = _database(), _newest_migration()
    if place is not None and place.is_file():
        _take_log_in(place)
    # SQLite would apply the log of a database that was removed to one that is put in its place; where it finds none, it
    # removes the log.
    if place is None or newest is None or any(place.with_name(f"{place.name}{end}").exists() for end in ("", *_LOGS)):
        return
    with suppress(Exception):
        empty = prefect_databases() / f"{__version__}-{newest}.db"
        sweep(path for folder in (empty.parent, place.parent) for path in folder.glob(".*.tmp"))
        if _is_whole(empty, newest):
            _copy(empty, place)
        else:
            _migrate()
            if (content := _content_if_empty(place)) is not None:
                write_file(empty, content)


def _take_log_in(place: Path) -> None:
    """Moves what SQLite has written ahead into the database, and empties that log: an API that is killed leaves up to 4
    MB of it.
    """
    with suppress(sqlite3.Error), closing(sqlite3.connect(place)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def is_migrated() -> bool:
    """Whether the database has Prefect's newest migration. To find that out, Prefect imports all of them, which takes
    .4 s.
    """
    place, newest = _database(), _newest_migration()
    return place is not None and newest is not None and _is_at(place, newest)


def _database() -> Path | None:
    """The file of the database; None where it is none."""
    from prefect.settings import PREFECT_API_DATABASE_CONNECTION_URL
    from sqlalchemy.engine import make_url

    url = make_url(PREFECT_API_DATABASE_CONNECTION_URL.value())
    if url.get_backend_name() != "sqlite" or not url.database or url.database == ":memory:":
        return None
    if url.database.startswith("file:") or "uri" in url.query:  # SQLite's own URIs, which may name a database in memory
        return None
    return Path(url.database).absolute()


@cache
def _newest_migration() -> str | None:
    import prefect.server.database._migrations as migrations

    names = (path.name for folder in migrations.__path__ for path in Path(folder, "versions", "sqlite").glob("*.py"))
    newest = re.fullmatch(r"[\d_]+_([0-9a-f]{12})_.*", max(names, default=""))
    return None if newest is None else newest[1]


def _is_at(place: Path, migration: str) -> bool:
    return _says(place, "SELECT version_num FROM alembic_version", "mode=ro") == [(migration,)]


def _is_whole(empty: Path, migration: str) -> bool:
    """Whether the kept database has this migration, and is not damaged, which would be copied for good. Takes some ten
    milliseconds.
    """
    flag = "immutable=1"  # in a folder that may be read-only
    return _says(empty, "SELECT version_num FROM alembic_version", flag) == [(migration,)] and _says(
        empty, "PRAGMA integrity_check", flag
    ) == [("ok",)]


def _says(place: Path, statement: str, flag: str) -> list[tuple[str]]:
    """What a database answers; nothing where it cannot be read."""
    if not place.is_file():
        return []
    try:
        with closing(sqlite3.connect(f"{place.as_uri()}?{flag}", uri=True)) as database:
            return database.execute(statement).fetchall()
    except sqlite3.Error:
        return []


def _migrate() -> None:
    """Has Prefect make the database."""
    import anyio
    from prefect.server.database import provide_database_interface

    anyio.run(provide_database_interface().create_db)


def _content_if_empty(place: Path) -> bytes | None:
    """The database, as the content of a file; None where another command, which found it migrated, has already noted
    something in it.
    """
    with closing(sqlite3.connect(":memory:")) as copy:
        with closing(sqlite3.connect(place)) as database:
            database.backup(copy)
        tables = copy.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT IN ('alembic_version', 'sqlite_sequence')"
        ).fetchall()
        return (
            None
            if any(copy.execute(f'SELECT EXISTS (SELECT 1 FROM "{name}")').fetchone()[0] for (name,) in tables)
            else copy.serialize()
        )


def _copy(empty: Path, place: Path) -> None:
    """Copies the database to its place, unless another command has just made one there."""
    copied = temporary_beside(place)
    try:
        shutil.copyfile(empty, copied)
        with copied.open("rb") as file:
            os.fsync(file.fileno())  # before it has its name: a database of zeros would stay
        os.link(copied, place)
    finally:
        copied.unlink(missing_ok=True)
