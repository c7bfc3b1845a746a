"""Leases on mapped files: who opens one of them for writing, as `cp` over a data directory does, waits until the reader
has let go of it.

What is mapped from a file ends where the file ends. A read beyond that is SIGBUS, which ends the process, and `cp`
empties a file before it fills it. A lease has Linux hold the writer back until the reader closes, for 45 s at most
(`/proc/sys/fs/lease-break-time`). Only a file's owner, and who may do anything, is given one, and not on every file
system; of other files it is told at least that they have changed.
"""

import errno
import fcntl
import os
import signal
import sys
from collections.abc import Iterable
from pathlib import Path

_NO_ROOM = (errno.EMFILE, errno.ENFILE)


class Leases:
    """Leases on files, until `close`. Raises BlockingIOError for a file that is being written, OSError for one that
    cannot be opened.
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        self._leased: list[int] = []
        # by descriptor, of those without a lease: size and time of the last change
        self._watched: dict[int, tuple[int, int]] = {}
        try:
            for path in paths:
                self._take(path)
        except BaseException:
            self.close()
            raise

    def _take(self, path: Path) -> None:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            if error.errno in _NO_ROOM:  # a file that nobody watches is read all the same
                return
            raise
        if _is_leased(descriptor):
            self._leased.append(descriptor)
        else:
            self._watched[descriptor] = _state_of(descriptor)

    def are_wanted(self) -> bool:
        """Whether somebody waits to write one of the files, or has written one without a lease."""
        if sys.platform != "linux":
            return any(_state_of(descriptor) != state for descriptor, state in self._watched.items())
        is_wanted = any(fcntl.fcntl(descriptor, fcntl.F_GETLEASE) != fcntl.F_RDLCK for descriptor in self._leased)
        return is_wanted or any(_state_of(descriptor) != state for descriptor, state in self._watched.items())

    def close(self) -> None:
        """Lets go of all files: nothing that was mapped from them may be read any more."""
        descriptors = [*self._leased, *self._watched]
        self._leased, self._watched = [], {}
        for descriptor in descriptors:
            os.close(descriptor)


def _is_leased(descriptor: int) -> bool:
    if sys.platform != "linux":
        return False
    try:
        # which is ignored: the usual one would end the process. `are_wanted` is asked instead
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except BlockingIOError:
        os.close(descriptor)
        raise
    except OSError:
        return False
    return True


def _state_of(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_size, status.st_mtime_ns
