"""`core.mapped`, on files that the system holds in memory, in part, or not at all."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from almanac.core.mapped import map_pages_in_memory
from tests.processes import mapped_kib

_MIB = 1 << 20
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/smaps")


def _mapped_array(path: Path, mib: int = 8) -> np.memmap:
    path.write_bytes(os.urandom(mib * _MIB))
    with path.open("rb") as file:
        os.fsync(file.fileno())
    return np.memmap(path, dtype=np.float32, mode="r", offset=128)  # not at the beginning of a page, as behind the header of a .npy file


def _forget(path: Path, begin: int, size: int) -> None:
    """Has the system drop a part of a file from its memory. Skips the test on a file system that keeps its files there."""
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), begin, size, os.POSIX_FADV_DONTNEED)
        try:
            is_kept = os.preadv(file.fileno(), [bytearray(1)], begin + size // 2, os.RWF_NOWAIT) == 1
        except BlockingIOError:
            is_kept = False
    if is_kept:
        pytest.skip("this file system keeps its files in memory")


def test_all_that_is_in_memory_is_mapped_at_once(tmp_path: Path) -> None:
    path = tmp_path / "file"
    array = _mapped_array(path)
    path.read_bytes()
    assert mapped_kib(path) == 0
    map_pages_in_memory(path, array)
    assert mapped_kib(path) == 8 * 1024


def test_what_is_not_in_memory_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    array = _mapped_array(path)
    path.read_bytes()
    _forget(path, 2 * _MIB, 4 * _MIB)
    map_pages_in_memory(path, array)
    assert 3 * 1024 <= mapped_kib(path) <= 5 * 1024
    assert array.tobytes() == path.read_bytes()[128:]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
def test_another_user_who_may_only_read_maps_nothing_ahead(tmp_path: Path) -> None:
    """Linux tells such a user that all of a file is in memory: to map it would read all of it."""
    path = tmp_path / "file"
    array = _mapped_array(path)
    path.read_bytes()
    tmp_path.chmod(0o755)
    if not (child := os.fork()):
        found = 2
        try:
            os.chdir(tmp_path)  # the folders above are root's alone
            os.setresuid(65534, 65534, 65534)
            map_pages_in_memory(Path(path.name), array)
            found = int(mapped_kib(path) >= 1024)
        finally:
            os._exit(found)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_file_that_was_removed_meanwhile_is_left(tmp_path: Path) -> None:
    path = tmp_path / "file"
    array = _mapped_array(path)
    path.unlink()
    map_pages_in_memory(path, array)
    assert array[:100].tobytes()


@pytest.mark.parametrize("array", [np.zeros((0, 384), np.float32), np.ones((3, 5), np.float32), np.zeros(1, np.uint8)])
def test_arrays_of_no_file_and_without_rows_are_left_as_they_are(tmp_path: Path, array: np.ndarray) -> None:
    before = array.copy()
    map_pages_in_memory(tmp_path, array, array)
    assert (array == before).all()
