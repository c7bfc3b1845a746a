"""What may not be read is told with its permission, and nothing is taken for damaged or gone."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from almanac.index.chroma.noted import note_database
from almanac.index.vectors.retention import vectors_in_use
from almanac.index.versions.publish import publish
from almanac.index.versions.version_store import version_dir

_CODE = """
import sys
from pathlib import Path
from almanac.index.versions.version_store import current_version, version_names
from almanac.index.vectors.retention import vectors_in_use
from almanac.core.tables import rows_in
from almanac.index.chroma.noted import is_as_sealed
from almanac.schemas.errors import AlmanacError
place = Path(sys.argv[2])
try:
    match sys.argv[1]:
        case "versions": print(current_version(place), version_names(place))
        case "rows": print(rows_in(place))
        case "database": print(is_as_sealed(place))
        case "vectors":
            with vectors_in_use(place): print("in use")
except AlmanacError as error:
    print(type(error).__name__, error.message, error.where, error.hint)
"""


@pytest.fixture
def closed() -> Iterator[list[Path]]:
    """Paths that are opened again at the end."""
    paths: list[Path] = []
    yield paths
    for path in paths:
        path.chmod(0o700)


def _try(what: str, path: Path) -> str:
    """What a process says that permissions hold for: root's do not, unless it gives its capabilities away."""
    without = ["setpriv", "--bounding-set", "-all", "--inh-caps", "-all"] if os.geteuid() == 0 else []
    if without and shutil.which(without[0]) is None:
        pytest.skip("needs setpriv")
    done = subprocess.run(
        [*without, sys.executable, "-c", _CODE, what, str(path)], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_a_version_whose_folder_may_not_be_entered_is_named_with_its_permission(base: Any, closed: list[Path]) -> None:
    base.pretend("v0001")
    publish(base.index_dir, "v0001")
    folder = version_dir(base.index_dir, "v0001")
    closed.append(folder)
    folder.chmod(0)
    printed = _try("versions", base.index_dir)
    assert printed.startswith(
        f"StorageError v0001 may not be read: Permission denied {folder} this process runs as user {os.geteuid()}"
    )


def test_rows_that_may_not_be_read_are_not_called_damaged(tmp_path: Path, closed: list[Path]) -> None:
    table = tmp_path / "records.parquet"
    table.write_bytes(b"PAR1")
    closed.append(table)
    table.chmod(0)
    assert _try("rows", table).startswith("StorageError records.parquet may not be read: Permission denied")


def test_a_database_that_may_not_be_read_is_not_called_damaged(tmp_path: Path, closed: list[Path]) -> None:
    database = tmp_path / "chroma" / "chroma.sqlite3"
    database.parent.mkdir()
    database.write_bytes(b"SQLite format 3")
    note_database(tmp_path)
    closed.append(database)
    database.chmod(0)
    assert _try("database", tmp_path).startswith("StorageError chroma.sqlite3 may not be read: Permission denied")


@pytest.mark.parametrize("is_locked_before", [True, False])
def test_vectors_of_a_snapshot_are_in_use_without_a_write(
    tmp_path: Path, closed: list[Path], is_locked_before: bool
) -> None:
    if is_locked_before:
        with vectors_in_use(tmp_path):
            pass
        (tmp_path / ".use").chmod(0o444)
    closed.append(tmp_path)
    tmp_path.chmod(0o555)
    assert _try("vectors", tmp_path) == "in use"
