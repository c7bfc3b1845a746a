"""Arrays that are mapped from files, and what is read of them from the disk."""

import ctypes
import mmap
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

# bytes: of more, Linux reads the first ones ahead, as many as the disk is said to read around a page
_AT_ONCE = 128 << 10
# NumPy has Python parse an array's header. Python 3.11 counts how deep its parser is for all threads together, so that
# two that parse at once may end with SystemError.
_HEADERS = threading.Lock()


def map_file(path: Path) -> npt.NDArray[np.uint8]:
    """Returns the bytes of a file, mapped; nothing is read yet, as it is where Arrow maps a file. Raises OSError, or
    ValueError for an empty file.
    """
    with path.open("rb") as file:
        return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), dtype=np.uint8)


def load_array(path: Path, *, mapped: bool = False) -> npt.NDArray[Any]:
    """Returns the array of an .npy file, mapped or read. Raises OSError, or ValueError for what is no such file."""
    try:
        with _HEADERS:
            if mapped:
                return np.lib.format.open_memmap(path, mode="r")
            with path.open("rb") as file:
                return np.lib.format.read_array(file, allow_pickle=False)
    # NumPy reads a damaged header with Python's tokenizer, which is strict from Python 3.12 on
    except (EOFError, TokenError, SyntaxError) as error:
        raise ValueError(f"{path.name} is damaged: {error}") from error


def read_singly(*arrays: npt.NDArray[Any]) -> None:
    """Has the system read the pages of mapped arrays one by one, as they are asked for, until `read_around`.

    Otherwise it reads what lies around each: 128 KB, and of some disks 8 MB, so that a first search, which asks for
    rows from all over, waits for gigabytes. What reads most of an array then calls `read_ahead` before.
    """
    _advise(mmap.MADV_RANDOM, arrays)


def read_around(*arrays: npt.NDArray[Any]) -> None:
    """Has the system read what lies around each page that is asked for, as it does by itself: files of which more and
    more is asked for are soon in memory.
    """
    _advise(mmap.MADV_NORMAL, arrays)


def read_ahead(*arrays: npt.NDArray[Any]) -> None:
    """Has the system begin to read all of mapped arrays that is not in memory. Takes some 50 ms for each GB that is."""
    whole = [array.reshape(-1).view(np.uint8) for array in arrays]
    _advise(
        mmap.MADV_WILLNEED,
        [array[begin : begin + _AT_ONCE] for array in whole for begin in range(0, array.nbytes, _AT_ONCE)],
    )


def bytes_of(batch: pa.RecordBatch) -> list[npt.NDArray[np.uint8]]:
    """What a batch of a mapped Arrow file has in memory, as arrays to be read ahead."""
    return [
        np.frombuffer(part, dtype=np.uint8) for column in batch.columns for part in column.buffers() if part is not None
    ]


def _advise(advice: int, arrays: Sequence[npt.NDArray[Any]]) -> None:
    """Tells the system how mapped arrays will be read; where it takes no advice, all is read as ever."""
    advise = _of_system("madvise")
    for array in (array for array in arrays if array.nbytes and advise is not None):
        before = array.ctypes.data % mmap.PAGESIZE
        advise(ctypes.c_void_p(array.ctypes.data - before), ctypes.c_size_t(array.nbytes + before), advice)


@cache
def _of_system(name: str) -> Any:
    """A function of the C library; None where it has none of the name."""
    return getattr(ctypes.CDLL(None), name, None)
