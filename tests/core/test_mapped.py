"""`core.mapped`, on files that the system holds in memory, in part, or not at all."""

import ctypes
import mmap
import os
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from almanac.core.mapped import (
    bytes_of,
    load_array,
    map_file,
    read_ahead,
    read_around,
    read_singly,
)

_MIB = 1 << 20
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/smaps")


def _mapped_array(path: Path, mib: int = 8) -> np.memmap:
    path.write_bytes(os.urandom(mib * _MIB))
    with path.open("rb") as file:
        os.fsync(file.fileno())
    # not at the beginning of a page, as behind the header of a .npy file
    return np.memmap(path, dtype=np.float32, mode="r", offset=128)


def _in_memory(path: Path) -> int:
    """Bytes of a file that the system holds in memory, as far as whole pages are. To read some of them would have it
    read others.
    """
    whole = np.memmap(path, dtype=np.uint8, mode="r")
    pages = np.zeros(-(-len(whole) // mmap.PAGESIZE), dtype=np.uint8)
    status = ctypes.CDLL(None).mincore(
        ctypes.c_void_p(whole.ctypes.data), ctypes.c_size_t(len(whole)), ctypes.c_void_p(pages.ctypes.data)
    )
    assert status == 0
    return mmap.PAGESIZE * int(np.count_nonzero(pages & 1))


def _forget(path: Path, begin: int, size: int) -> None:
    """Has the system drop a part of a file from its memory. Skips the test on a file system that keeps its files
    there.
    """
    before = _in_memory(path)
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), begin, size, os.POSIX_FADV_DONTNEED)
    if _in_memory(path) > before - size // 2:
        pytest.skip("this file system keeps its files in memory")


def test_pages_that_are_read_singly_bring_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    array = _mapped_array(path)
    _forget(path, 0, 8 * _MIB)
    read_singly(array)
    numbers = [float(array[place]) for place in range(0, len(array), len(array) // 8)]
    assert _in_memory(path) <= 4 * len(numbers) * mmap.PAGESIZE  # a file system may read a few pages at once
    read_around(array)
    _ = float(array[len(array) // 16])
    assert _in_memory(path) >= (len(numbers) + 1) * mmap.PAGESIZE


def test_what_is_read_ahead_is_soon_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "file"
    array = _mapped_array(path)
    _forget(path, 0, 8 * _MIB)
    read_singly(array)
    read_ahead(array[: len(array) // 2], array[:0])
    deadline = time.monotonic() + 30
    while _in_memory(path) < 4 * _MIB and time.monotonic() < deadline:
        time.sleep(0.01)
    assert 4 * _MIB <= _in_memory(path) < 7 * _MIB


def test_arrow_reads_of_a_mapped_file_only_what_is_asked_for(tmp_path: Path) -> None:
    """Arrow's own maps have the system read each batch as a whole once its place is asked for."""
    path = tmp_path / "file"
    texts = pa.array([os.urandom(500).hex() for _ in range(2_000)], pa.large_string())
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, pa.schema([("text", pa.large_string())])) as writer:
        for _ in range(4):
            writer.write_batch(pa.record_batch([texts], names=["text"]))
    with path.open("rb") as file:
        os.fsync(file.fileno())
    _forget(path, 0, path.stat().st_size)
    whole = map_file(path)
    read_singly(whole)
    reader = pa.ipc.open_file(pa.py_buffer(whole))
    batches = [reader.get_batch(number) for number in range(4)]
    assert batches[3].column(0)[1_000].as_py() == texts[1_000].as_py()
    assert _in_memory(path) < path.stat().st_size / 10
    assert sum(map(len, bytes_of(batches[0]))) >= 2_000 * 1_000


@pytest.mark.parametrize("mapped", [False, True])
def test_a_damaged_array_is_a_value_error_wherever_the_damage_is(tmp_path: Path, mapped: bool) -> None:
    """From Python 3.12 on, NumPy fails with errors of Python's tokenizer where its header has an open quote."""
    path = tmp_path / "array.npy"
    np.save(path, np.arange(6))
    whole, refused = path.read_bytes(), 0
    assert load_array(path, mapped=mapped).tolist() == [0, 1, 2, 3, 4, 5]
    for place in range(128):
        for wrong in (whole[place] ^ 1, ord("'"), ord("("), 0, 255):
            path.write_bytes(whole[:place] + bytes([wrong]) + whole[place + 1 :])
            try:
                load_array(path, mapped=mapped)
            except (OSError, ValueError):
                refused += 1
    for content in (b"", whole[:5], whole[:64], whole[:-1], b"PK\x03\x04" + whole):
        path.write_bytes(content)
        with pytest.raises((OSError, ValueError)):
            load_array(path, mapped=mapped)
    assert refused > 100
