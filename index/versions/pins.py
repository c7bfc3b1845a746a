"""Pins: a reader holds the version that it reads, so that nobody takes it away; a writer asks whether anybody reads.

A pin is a shared lock on the version's folder: it ends with its process, however that ends. It also leads to that very folder when
another one takes its name (`rebuild`, `forget`). Chroma opens files by their path again and again: a reader that went by the path would then
read half of either (seen: "missing metadata segment", and wrong ids).
"""

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from almanac.core.durable import remove


class Pin:
    """Holds a version's folder until it is closed. `folder` is that folder, whatever it is called by now."""

    def __init__(self, folder: Path) -> None:
        self._named = folder
        self._descriptor: int | None = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(self._descriptor, fcntl.LOCK_SH)
        self.folder = Path(f"/proc/self/fd/{self._descriptor}") if sys.platform == "linux" else folder

    def is_in_place(self) -> bool:
        """Whether the folder still has its name: another one may have taken it, or it is being removed."""
        try:
            return self._descriptor is not None and os.path.samestat(os.fstat(self._descriptor), self._named.stat())
        except FileNotFoundError:
            return False

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


@contextmanager
def alone_with(folder: Path) -> Iterator[bool]:
    """Whether nobody reads in `folder`; where nobody does, whoever would begin to waits until the end of the block."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            alone = True
        except BlockingIOError:
            alone = False
        yield alone
    finally:
        os.close(descriptor)


def remove_unless_held(folder: Path) -> bool:
    """Takes a version's folder away, unless somebody reads in it; whether it did."""
    with alone_with(folder) as alone:
        if alone:
            remove(folder)
        return alone
