"""Prefect's API of one command migrates its database when, and only when, there is something to migrate."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from prefect.settings import PREFECT_API_DATABASE_CONNECTION_URL, temporary_settings

from almanac.flows.server.api_app import is_migrated


def _head() -> str:
    """What Prefect's migrations lead to, by their own order."""
    import prefect.server.database._migrations as migrations

    [folder] = migrations.__path__
    config = Config()
    config.set_main_option("script_location", folder)
    config.set_main_option("version_locations", f"{folder}/versions/sqlite")
    [head] = ScriptDirectory.from_config(config).get_heads()
    return head


@pytest.mark.parametrize("statements", [[], ["CREATE TABLE alembic_version (version_num TEXT)"], ["CREATE TABLE flow (id TEXT)"]])
def test_a_database_without_a_version_is_migrated(tmp_path: Path, statements: list[str]) -> None:
    assert not _is_migrated(tmp_path / "prefect.db", statements)


def test_a_database_is_left_alone_at_the_last_migration_and_at_no_other(tmp_path: Path) -> None:
    made, head = "CREATE TABLE alembic_version AS SELECT '{}' AS version_num", _head()
    assert _is_migrated(tmp_path / "here.db", [made.format(head)])
    assert not _is_migrated(tmp_path / "behind.db", [made.format("14806cb26270")])
    assert not _is_migrated(tmp_path / "both.db", [made.format(head), "INSERT INTO alembic_version VALUES ('14806cb26270')"])


@pytest.mark.parametrize("url", ["sqlite+aiosqlite:///:memory:", "postgresql+asyncpg://u:p@127.0.0.1/db", "sqlite+aiosqlite:////nowhere/prefect.db"])
def test_a_database_that_is_no_file_here_is_prefects_business(url: str) -> None:
    with temporary_settings({PREFECT_API_DATABASE_CONNECTION_URL: url}):
        assert not is_migrated()


def test_a_file_that_is_no_database_is_prefects_business(tmp_path: Path) -> None:
    place = tmp_path / "prefect.db"
    place.write_bytes(b"no database" * 100)
    with temporary_settings({PREFECT_API_DATABASE_CONNECTION_URL: f"sqlite+aiosqlite:///{place}"}):
        assert not is_migrated()


def _is_migrated(place: Path, statements: list[str]) -> bool:
    with closing(sqlite3.connect(place)) as database, database:
        for statement in statements:
            database.execute(statement)
    with temporary_settings({PREFECT_API_DATABASE_CONNECTION_URL: f"sqlite+aiosqlite:///{place}"}):
        return is_migrated()
