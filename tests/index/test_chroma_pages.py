"""Checksums of the pages of Chroma's database: openings are no alterations, anything else is."""

import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from almanac.index.chroma.client import open_client
from almanac.index.chroma.pages import PAGE_SUMS, altered_pages
from almanac.index.versions.store import version_dir

_PAGE = 4096


@pytest.fixture
def folder(published: Any, tmp_path: Path) -> Path:
    copy = tmp_path / "v0001"
    shutil.copytree(version_dir(published.index_dir, "v0001"), copy)
    return copy


def _altered(folder: Path) -> list[int]:
    return altered_pages(folder / "chroma" / "chroma.sqlite3", folder / PAGE_SUMS)


def _execute(folder: Path, *statements: str) -> None:
    with closing(sqlite3.connect(folder / "chroma" / "chroma.sqlite3")) as database, database:
        for statement in statements:
            database.execute(statement)


def test_openings_are_no_alterations(folder: Path) -> None:
    for _ in range(3):
        with open_client(folder):
            pass
        assert _altered(folder) == []
    # As many openings as fill several pages, with one and with a few free pages to grow into.
    _execute(folder, *["INSERT INTO acquire_write (lock_status) VALUES (1)"] * 2000)
    assert _altered(folder) == []


def test_a_change_of_a_row_is_an_alteration(folder: Path) -> None:
    _execute(folder, "UPDATE embedding_metadata SET string_value = 'another' WHERE key = 'title' AND id = 7")
    assert _altered(folder) != []


def test_a_flipped_bit_is_found_in_each_page_that_is_read(folder: Path) -> None:
    database = folder / "chroma" / "chroma.sqlite3"
    whole, rng = database.read_bytes(), random.Random(5)
    with closing(sqlite3.connect(database)) as opened:
        [[counted]] = opened.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'acquire_write'")
    places = [*range(16, 24), *range(32, 92), *(rng.randrange(100, len(whole)) for _ in range(200))]
    for place in places:
        if place // _PAGE + 1 == counted:
            continue
        content = bytearray(whole)
        content[place] ^= 1 << rng.randrange(8)
        database.write_bytes(content)
        try:
            assert _altered(folder) != [], place
        except (sqlite3.DatabaseError, ValueError):
            continue
