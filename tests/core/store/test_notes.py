"""What a working copy remembers: it may be lost or damaged, and a disk that fails is told with its place."""

import sqlite3
from pathlib import Path, PurePosixPath
from unittest.mock import patch

import pytest

from almanac.core.store.notes import NOTES, Notes
from almanac.schemas.errors import StorageError


@pytest.mark.parametrize("damaged", [b"", b"no database " * 500, None])
def test_notes_that_are_damaged_are_made_anew(tmp_path: Path, damaged: bytes | None) -> None:
    path = tmp_path / NOTES
    notes = Notes(path)
    notes.note_checked_out("index", "tree")
    notes.close()
    path.write_bytes(path.read_bytes()[:9000] if damaged is None else damaged)  # half of a page is missing
    notes = Notes(path)
    assert notes.checked_out("index") == ""
    notes.note_sealed(PurePosixPath("index", "kb"), "hash")
    notes.close()
    notes = Notes(path)
    assert notes.sealed(PurePosixPath("index", "kb")) == "hash"
    notes.close()


def test_a_disk_that_fails_is_told_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / NOTES
    full = sqlite3.OperationalError("database or disk is full")
    with patch("almanac.core.store.notes._opened", side_effect=full), pytest.raises(StorageError, match="disk is full") as raised:
        Notes(path)
    assert raised.value.where == str(path)
    notes = Notes(path)
    notes._database.execute("PRAGMA max_page_count = 1")
    with pytest.raises(StorageError, match="disk is full") as raised:
        for number in range(100):
            notes.note_tree(f"{number}", bytes(4000))
    assert raised.value.where == str(path)
    notes.close()
