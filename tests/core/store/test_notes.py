"""What a working copy remembers: it may be lost, and where it is damaged or the disk fails, that is told with its
place.
"""

import sqlite3
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

import pytest

from almanac.core.store.bounds import _is_free
from almanac.core.store.notes import NOTES, Notes
from almanac.schemas.errors import StorageError


@pytest.mark.parametrize("damaged", [b"", b"no database " * 500, None])
def test_notes_that_are_damaged_are_told_and_stay(tmp_path: Path, damaged: bytes | None) -> None:
    path = tmp_path / NOTES
    notes = Notes(path)
    notes.note_checked_out("index", "tree")
    notes.close()
    (tmp_path / "raw").mkdir()
    path.write_bytes(path.read_bytes()[:9000] if damaged is None else damaged)  # half of a page is missing
    left = path.read_bytes()
    with pytest.raises(StorageError) as raised:
        Notes(path)
    assert raised.value.where == str(path) and "not pushed" in str(raised.value.hint)
    assert path.read_bytes() == left
    path.unlink()
    notes = Notes(path)
    assert notes.checked_out("index") == ""
    notes.close()


def test_damaged_notes_of_another_copy_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / NOTES
    path.write_bytes(b"no database " * 500)
    with ExitStack() as held:
        assert not _is_free(tmp_path, held)
    assert path.read_bytes() == b"no database " * 500


def test_a_disk_that_fails_is_told_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / NOTES
    full = sqlite3.OperationalError("database or disk is full")
    with (
        patch("almanac.core.store.notes._opened", side_effect=full),
        pytest.raises(StorageError, match="disk is full") as raised,
    ):
        Notes(path)
    assert raised.value.where == str(path)
    notes = Notes(path)
    notes._database.execute("PRAGMA max_page_count = 1")
    with pytest.raises(StorageError, match="disk is full") as raised:
        for number in range(100):
            notes.note_tree(f"{number}", bytes(4000))
    assert raised.value.where == str(path)
    notes.close()
