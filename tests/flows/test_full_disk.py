"""A disk that fills up in the middle of a run: the run says so, gives back what it took, and the next one ends as if
there had always been room.
"""

import errno
import json
import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from itertools import count
from pathlib import Path
from unittest.mock import patch

import pytest

from almanac.core.durable import is_removed, reserve, watched
from almanac.core.load import load_declaration
from almanac.core.settings import DataDir
from almanac.flows.pipeline.run import Run, new_run_id
from almanac.index.versions.version_store import current_version, read_manifest
from almanac.schemas.errors import StorageError
from tests.flows.commands import carry_out
from tests.flows.notes import write
from tests.proof.base import TORTURE

pytestmark = pytest.mark.slow  # whole runs
_NUMBERS = count()


def _run(declared: Path, data: DataDir) -> str:
    # two runs of a user never begin in the same second, and these do
    run_id = f"{new_run_id()[:-6]}{next(_NUMBERS):06x}"
    return str(carry_out(Run(load_declaration(str(declared), ""), data, run_id=run_id))["outcome"])


@contextmanager
def _full_from(pattern: str) -> Iterator[None]:
    """Nothing is written any more from the first file of this pattern on."""
    is_full = False

    def refuse(_moment: str, deed: str, path: Path) -> None:
        nonlocal is_full
        is_full |= fnmatch(str(path), pattern)
        if is_full and deed in ("write", "append"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    with watched(refuse):
        yield


def _left(data: DataDir) -> list[str]:
    """What a run has no right to leave: staged tables, unfinished versions, half-written files."""
    paths = [
        path
        for path in data.root.rglob("*")
        if path.suffix == ".tmp" or is_removed(path) or path.parent.name in (".staging", "versions")
    ]
    return sorted(str(path.relative_to(data.root)) for path in paths if not (path / "manifest.json").is_file())


def _files_but_raw(data: DataDir) -> list[str]:
    """All files but raw pages, of which some more crawls are kept."""
    return sorted(
        str(path) for path in data.root.rglob("*") if path.is_file() and not path.is_relative_to(data.root / "raw")
    )


_MOMENTS = [
    "*/raw/many/*.jsonl",
    "*/.staging/*",
    "*/many/chunks.parquet",
    "*/vectors/*.parquet",
    "*/manifest.sha256",
    "*/CURRENT",
]


@pytest.mark.parametrize("moment", _MOMENTS)
def test_a_run_without_room_gives_back_what_it_took_and_takes_no_more_the_next_time(
    declared: Path, moment: str
) -> None:
    data = DataDir(declared.parent / "data")
    write(declared.parent, 40)
    if moment == "*/vectors/*.parquet":  # the next refresh, not the first
        assert _run(declared, data) == "published_with_rejects"
        write(declared.parent, 40, " today")
    listings = []
    for _ in range(3 if TORTURE else 2):
        with _full_from(moment), pytest.raises(StorageError, match="No space left"):
            _run(declared, data)
        assert _left(data) == []
        listings.append(_files_but_raw(data))
    assert all(listing == listings[0] for listing in listings)
    assert _run(declared, data) == "published_with_rejects"
    other = DataDir(declared.parent / "other")
    _run(declared, other)
    digests = {
        read_manifest(data_dir.index("many"), str(current_version(data_dir.index("many")))).digest
        for data_dir in (data, other)
    }
    assert len(digests) == 1


def test_a_version_that_lacked_but_the_pointer_is_published_by_the_next_run_and_not_built_again(declared: Path) -> None:
    data = DataDir(declared.parent / "data")
    write(declared.parent, 40)
    for _ in range(2):
        with (
            patch(
                "almanac.index.versions.publish.point_to", side_effect=OSError(errno.ENOSPC, "No space left on device")
            ),
            pytest.raises(StorageError),
        ):
            _run(declared, data)
    assert _run(declared, data) == "published_with_rejects"
    assert [path.name for path in data.versions("many").iterdir()] == ["v0001"]


def test_runs_that_fail_again_and_again_keep_no_more_crawls_than_declared(declared: Path) -> None:
    data = DataDir(declared.parent / "data")
    write(declared.parent, 40)
    declared.write_text(f"{declared.read_text()}retention: {{crawls: 2}}\n")
    for edition in range(5):
        write(declared.parent, 40, f" in edition {edition}")
        with (
            patch("almanac.flows.refresh.build", side_effect=OSError(errno.ENOSPC, "No space left on device")),
            pytest.raises(StorageError),
        ):
            _run(declared, data)
    raw = data.raw("many", "notes")
    assert len(list(raw.glob("crawls/*.jsonl"))) == len(list(raw.glob("bodies/*/*.gz"))) == 2


def test_room_for_a_mapped_file_is_taken_before_it_is_written(tmp_path: Path) -> None:
    """On a full disk, a write into a mapping would kill the process."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with (tmp_path / "vectors").open("wb") as file:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
        try:
            with pytest.raises(OSError, match="too large"):
                reserve(file, 2000)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        reserve(file, 2000)
    assert (tmp_path / "vectors").stat().st_size == 2000


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a file system of 400 KB; only where this user may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = shutil.which("mount")
    if (
        mount is None
        or subprocess.run(
            [mount, "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(folder)], capture_output=True, check=False
        ).returncode
    ):
        pytest.skip("this user may mount no file system")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_disk_that_is_really_full_ends_a_run_while_it_builds(declared: Path, small_disk: Path) -> None:
    data = DataDir(small_disk / "data")
    write(declared.parent, 40)
    for _ in range(2):
        with pytest.raises(StorageError) as raised:
            _run(declared, data)
        assert raised.value.report is not None
        assert _left(data) == []
        assert len(list(data.root.glob("vectors/*/*.parquet"))) == 1
    reports = [json.loads(path.read_bytes()) for path in data.runs("many").glob("*-??????.json")]
    assert {report["exit_code"] for report in reports} == {7}
    subprocess.run(["mount", "-o", "remount,size=100m", str(small_disk)], check=True)
    assert _run(declared, data) == "published_with_rejects"
