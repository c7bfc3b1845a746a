"""Pins protect a version or a segment from removal while it is read.

A pin is a shared lock on the folder, released when its process ends in any way. It also keeps referring to the same
folder when another one takes its name (`rebuild`, `forget`). A reader that opened files by that name would then mix
those of both folders.
"""

import fcntl
import os
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from almanac.core.durable import remove


class Pin:
    """Shared lock on a version's folder until `close`, or until nobody refers to it. On Linux, `folder` refers to the
    same folder even after it was renamed.
    """

    def __init__(self, folder: Path) -> None:
        self._named = folder
        self._descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._closed = weakref.finalize(self, os.close, self._descriptor)
        self._closed.atexit = False
        fcntl.flock(self._descriptor, fcntl.LOCK_SH)
        self.folder = Path(f"/proc/self/fd/{self._descriptor}") if sys.platform == "linux" else folder

    def is_in_place(self) -> bool:
        """Whether the folder still has its name. False when another folder replaced it, or it is being removed."""
        try:
            return self._closed.alive and os.path.samestat(os.fstat(self._descriptor), self._named.stat())
        except FileNotFoundError:
            return False

    def close(self) -> None:
        self._closed()


@contextmanager
def alone_with(folder: Path, *, waits: bool = False) -> Iterator[bool]:
    """Yields whether the exclusive lock on `folder` was obtained, that is, no reader has it pinned; with `waits`, it
    always is in the end. If so, new readers wait until the end of the block.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
            alone = True
        except BlockingIOError:
            alone = False
        yield alone
    finally:
        os.close(descriptor)


def remove_unless_pinned(folder: Path) -> bool:
    """Removes a version's folder unless a reader has it pinned; returns whether it was removed."""
    with alone_with(folder) as alone:
        if alone:
            remove(folder)
        return alone


def hidden_folder(folder: Path) -> Path:
    """Returns an unused hidden path beside a folder; leftovers there are removed by the next writer, or by the next
    fetch from a store.
    """
    number = 1
    while (hidden := folder.with_name(f".{folder.name}.{number}")).exists():
        number += 1
    return hidden
