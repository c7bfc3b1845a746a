"""Temporary files beside what is written: names that nobody else has, also of another container, and who may remove
them.
"""

import errno
import os
import subprocess
import time
from pathlib import Path
from unittest.mock import patch

import pytest

from almanac.core.durable import TEMPORARY, sweep, temporary_beside, write_file

_ELSEWHERE = "0123456789abcdef"  # of a container that shares the folder, whose process ids are its own


def _left(folder: Path, pid: int, machine: str | None = None) -> Path:
    with patch("os.getpid", lambda: pid):
        path = (
            temporary_beside(folder / "table") if machine is None else folder / f".table.{pid}-{machine}-00000000.tmp"
        )
    path.write_bytes(b"half")
    return path


def test_two_writers_with_the_same_process_id_do_not_meet(tmp_path: Path) -> None:
    names = {temporary_beside(tmp_path / "table").name for _ in range(100)}
    assert len(names) == 100

    def write_meanwhile(file: object) -> None:
        write_file(tmp_path / "table", "of the other container")  # with this very process id
        file.write(b"ours")  # type: ignore[attr-defined]

    write_file(tmp_path / "table", write_meanwhile)
    assert [path.name for path in tmp_path.iterdir()] == ["table"]
    assert (tmp_path / "table").read_bytes() == b"ours"


def test_what_a_dead_process_of_this_machine_left_goes_at_once_and_of_others_after_a_day(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    dead, alive = _left(tmp_path, ended.pid), _left(tmp_path, os.getpid())
    foreign, forsaken = _left(tmp_path, ended.pid, _ELSEWHERE), _left(tmp_path, os.getpid(), _ELSEWHERE[::-1])
    os.utime(forsaken, (time.time() - 90_000,) * 2)
    (tmp_path / ".another.tmp").write_bytes(b"somebody's")
    assert sweep(tmp_path.glob(TEMPORARY)) == 2 * len(b"half")
    assert {path.name for path in tmp_path.iterdir()} == {alive.name, foreign.name, ".another.tmp"}
    assert not dead.exists()


@pytest.mark.parametrize("name", ["segment-10.parquet", ".hidden", "a.tmp", "7"])
def test_names_of_any_kind_are_known_again(tmp_path: Path, name: str) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    with patch("os.getpid", lambda: ended.pid):
        path = temporary_beside(tmp_path / name)
    path.touch()
    sweep(tmp_path.glob(TEMPORARY))
    assert not path.exists()


def test_a_disk_that_is_full_is_told_with_the_file(tmp_path: Path) -> None:
    def fill(_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OSError, match=r"No space left on device: '.*table'"):
        write_file(tmp_path / "table", fill)
    assert list(tmp_path.iterdir()) == []


def test_an_error_of_a_library_keeps_its_text(tmp_path: Path) -> None:
    def fill(_: object) -> None:
        raise OSError("Corrupt snappy compressed data.")

    with pytest.raises(OSError, match="Corrupt snappy"):
        write_file(tmp_path / "table", fill)
