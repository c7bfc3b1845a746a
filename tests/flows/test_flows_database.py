"""Prefect's API of one command migrates its database when, and only when, there is something to migrate; a new one is a
copy of the first on a machine.
"""

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from prefect.settings import PREFECT_API_DATABASE_CONNECTION_URL, temporary_settings

from almanac.core.settings import CACHE
from almanac.flows.server.database import is_migrated, prepare_database
from tests.proof.base import LONG

_ON_THE_FIRST = pytest.mark.xdist_group("flows-database")  # on one worker: the first database is made once


def _head() -> str:
    """What Prefect's migrations lead to, by their own order."""
    import prefect.server.database._migrations as migrations

    [folder] = migrations.__path__
    config = Config()
    config.set_main_option("script_location", folder)
    config.set_main_option("version_locations", f"{folder}/versions/sqlite")
    [head] = ScriptDirectory.from_config(config).get_heads()
    return head


@pytest.mark.parametrize(
    "statements", [[], ["CREATE TABLE alembic_version (version_num TEXT)"], ["CREATE TABLE flow (id TEXT)"]]
)
def test_a_database_without_a_version_is_migrated(tmp_path: Path, statements: list[str]) -> None:
    assert not _is_migrated(tmp_path / "prefect.db", statements)


def test_a_database_is_left_alone_at_the_last_migration_and_at_no_other(tmp_path: Path) -> None:
    made, head = "CREATE TABLE alembic_version AS SELECT '{}' AS version_num", _head()
    assert _is_migrated(tmp_path / "here.db", [made.format(head)])
    assert not _is_migrated(tmp_path / "behind.db", [made.format("14806cb26270")])
    assert not _is_migrated(
        tmp_path / "both.db", [made.format(head), "INSERT INTO alembic_version VALUES ('14806cb26270')"]
    )


@pytest.mark.parametrize(
    "url",
    [
        "sqlite+aiosqlite:///:memory:",
        "sqlite+aiosqlite:///file::memory:?cache=shared&uri=true&check_same_thread=false",
        "sqlite+aiosqlite:///file:prefect.db?uri=true",
        "postgresql+asyncpg://u:p@127.0.0.1/db",
    ],
)
def test_a_database_that_is_no_file_here_is_prefects_business(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(CACHE, str(tmp_path / "cache"))
    with temporary_settings({PREFECT_API_DATABASE_CONNECTION_URL: url}):
        prepare_database()
        assert not is_migrated()
    assert not any(tmp_path.iterdir())


def test_a_database_in_a_folder_that_is_missing_is_prefects_business() -> None:
    with temporary_settings({PREFECT_API_DATABASE_CONNECTION_URL: "sqlite+aiosqlite:////nowhere/prefect.db"}):
        assert not is_migrated()


def test_a_file_that_is_no_database_is_prefects_business(tmp_path: Path) -> None:
    place = tmp_path / "prefect.db"
    place.write_bytes(b"no database" * 100)
    with temporary_settings({PREFECT_API_DATABASE_CONNECTION_URL: f"sqlite+aiosqlite:///{place}"}):
        assert not is_migrated()


def _cut_off(database: Path) -> bytes:
    return database.read_bytes()[:5000]


def _with_a_bad_page(path: Path) -> bytes:
    """The database with a page of a table, not the first, of nonsense."""
    content = path.read_bytes()
    with closing(sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True)) as database:
        page: int
        size: int
        [(page,)] = database.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'flow_run'")
        [(size,)] = database.execute("PRAGMA page_size")
    return content[: (page - 1) * size] + b"\xff" * size + content[page * size :]


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first database of a machine, beside the cache in which it is kept."""
    place = tmp_path_factory.mktemp("first") / "data" / "prefect.db"
    assert _prepared(place, place.parents[1] / "cache") == "migrated"
    return place


@pytest.mark.slow
@_ON_THE_FIRST
def test_the_next_database_is_a_copy_and_what_is_there_stays(first: Path, tmp_path: Path) -> None:
    cache, second = first.parents[1] / "cache", tmp_path / "second" / "prefect.db"
    assert _prepared(second, cache) == "copied"
    with closing(sqlite3.connect(first)) as one, closing(sqlite3.connect(second)) as other:
        assert [*other.iterdump()] == [*one.iterdump()] != []
        other.execute("CREATE TABLE mine (id TEXT)")
    content = second.read_bytes()
    assert _prepared(second, cache) == "copied"
    assert second.read_bytes() == content
    assert [path.name for path in second.parent.iterdir() if "prefect.db" not in path.name] == []
    assert len([*cache.rglob("*.db")]) == 1


@pytest.mark.slow
@_ON_THE_FIRST
@pytest.mark.parametrize(
    "damaged",
    [pytest.param(_cut_off, id="cut off", marks=LONG), pytest.param(_with_a_bad_page, id="a page of a table")],
)
def test_a_kept_database_that_is_damaged_is_made_anew(
    first: Path, tmp_path: Path, damaged: Callable[[Path], bytes]
) -> None:
    shutil.copytree(first.parents[1] / "cache", tmp_path / "cache")
    [kept] = (tmp_path / "cache").rglob("*.db")
    kept.write_bytes(damaged(kept))
    assert _prepared(tmp_path / "second" / "prefect.db", tmp_path / "cache") == "migrated"
    assert kept.stat().st_size > 5000


@pytest.mark.slow
@_ON_THE_FIRST
def test_a_log_that_a_removed_database_has_left_is_not_applied_to_a_new_one(first: Path, tmp_path: Path) -> None:
    place = tmp_path / "data" / "prefect.db"
    assert _prepared(place, first.parents[1] / "cache") == "copied"
    killed = (
        "import os, sqlite3, sys; d = sqlite3.connect(sys.argv[1]); d.execute('CREATE TABLE mine (id TEXT)'); "
        "d.commit(); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", killed, str(place)], check=True)
    assert place.with_name("prefect.db-wal").stat().st_size
    place.unlink()
    code = "from almanac.flows.server.database import prepare_database; prepare_database()"
    subprocess.run([sys.executable, "-c", code], env=_environment(place, first.parents[1] / "cache"), check=True)
    assert not place.exists(), "Prefect makes it, and SQLite removes the log"


@pytest.mark.slow
def test_without_a_place_to_keep_it_a_database_is_made_as_well(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert _prepared(tmp_path / "data" / "prefect.db", tmp_path / "file") == "migrated"


def _prepared(place: Path, cache: Path) -> str:
    """Prepares a database in a process of its own, as commands do, and tells how."""
    place.parent.mkdir(exist_ok=True)
    code = (
        "import sys; from almanac.flows.server.database import is_migrated, prepare_database; prepare_database(); "
        "assert is_migrated();"
        " print('migrated' if 'alembic.command' in sys.modules else 'copied')"
    )
    return subprocess.run(
        [sys.executable, "-c", code], env=_environment(place, cache), capture_output=True, text=True, check=True
    ).stdout.strip()


def _environment(place: Path, cache: Path) -> dict[str, str]:
    return {**os.environ, CACHE: str(cache), "PREFECT_API_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{place}"}


def _is_migrated(place: Path, statements: list[str]) -> bool:
    with closing(sqlite3.connect(place)) as database, database:
        for statement in statements:
            database.execute(statement)
    with temporary_settings({PREFECT_API_DATABASE_CONNECTION_URL: f"sqlite+aiosqlite:///{place}"}):
        return is_migrated()
