"""Arrays that are mapped from files: their pages, mapped ahead of use."""

import ctypes
import mmap
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

_AROUND = (64 << 10) // mmap.PAGESIZE  # pages that Linux maps around one that is read, as far as they are in memory


def map_pages_in_memory(path: Path, *arrays: npt.NDArray[Any]) -> None:
    """Maps the pages of contiguous arrays of a file that the system holds in memory; nothing is read from a disk. Takes some 50 ms a GB.

    A page of a file that is in memory has still to be mapped by each process, when it is read first. Searches read rows from all over their files: hundreds of
    such pages each, until thousands of searches have mapped them all. Linux tells only a file's owner, and who may write it, what is in memory; to others, all
    seems to be. For them nothing is mapped ahead.
    """
    try:
        is_told = path.stat().st_uid == os.geteuid() or os.access(path, os.W_OK)
    except FileNotFoundError:  # removed since it was mapped
        return
    if not is_told:
        return
    in_memory = getattr(ctypes.CDLL(None), "mincore", None)
    for array in (one for one in arrays if one.nbytes):
        address = array.ctypes.data
        before = address % mmap.PAGESIZE
        pages = -(-(before + array.nbytes) // mmap.PAGESIZE)
        found = np.zeros(pages, dtype=np.uint8)
        if in_memory is None or in_memory(ctypes.c_void_p(address - before), ctypes.c_size_t(array.nbytes + before), ctypes.c_void_p(found.ctypes.data)):
            continue  # each page is mapped when it is read
        numbers = np.flatnonzero(found & 1)
        around = (numbers + (address - before) // mmap.PAGESIZE) // _AROUND
        first = numbers[np.diff(around, prepend=-1) != 0]
        np.take(array.reshape(-1).view(np.uint8), np.maximum(first * mmap.PAGESIZE - before, 0))
