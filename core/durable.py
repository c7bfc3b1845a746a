"""Crash-safe file operations: everything that has to survive a crash is written, moved and removed with these
functions.

A file is written atomically: to a temporary name beside it, synced, renamed, and the folder synced. A folder is renamed
to a hidden name before it is removed, so that no reader sees half of it. `watched` reports each moment at which a crash
would leave a different state on disk, for crash tests.
"""

import ctypes
import errno
import os
import re
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Literal

from almanac.core.machine import machine_id

Moment = Literal["before", "middle", "after"]
Watcher = Callable[[Moment, str, Path], None]

_watcher: Watcher | None = None
REMOVED = ".*.removed"  # glob of folders whose removal was interrupted
TEMPORARY = ".*.tmp"  # glob of files that are being written: .NAME.PID-MACHINE-NUMBER.tmp
_WRITTEN_BY = re.compile(r"\.(?P<pid>\d+)(?:-(?P<machine>[0-9a-f]+)-[0-9a-f]+)?\.tmp$")
_FOREIGN_S = 86_400.0
_EXCHANGE = 2  # renameat2's RENAME_EXCHANGE
_HERE = -100  # AT_FDCWD


@contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """Calls `watcher(moment, operation, path)` before, in the middle of and after each operation of this module, in
    this process, inside the block.

    Operations are write, append, move, exchange, remove and sync.
    """
    global _watcher
    _watcher, before = watcher, _watcher
    try:
        yield
    finally:
        _watcher = before


def _reached(moment: Moment, deed: str, path: Path) -> None:
    if _watcher is not None:
        _watcher(moment, deed, path)


def write_file(
    path: Path, content: bytes | str | Callable[[IO[bytes]], object], *, synced: bool = True, is_for_user: bool = False
) -> None:
    """Writes a file atomically and durably, replacing an existing one; creates its folder.

    Args:
        path: Path of the file.
        content: Bytes, text (written as UTF-8), or a function that writes into the open binary file.
        synced: Whether to sync file and folder; without it, a power failure may undo the write.
        is_for_user: Whether it is a file that a user asked for, such as an export: its mode is what the umask makes it,
            also in a private folder.

    An OSError of writing names the file: that of a full disk, by itself, names none.
    """
    make_folder(path.parent)
    temporary = temporary_beside(path)
    _reached("before", "write", path)
    try:
        with temporary.open("wb") if is_for_user else create(temporary) as file:
            if callable(content):
                content(file)
            else:
                file.write(content.encode() if isinstance(content, str) else content)
            if synced:
                file.flush()
                os.fsync(file.fileno())
        _reached("middle", "write", path)
        temporary.replace(path)
    except OSError as error:
        if error.errno is not None:  # one without a number loses its text with a name
            error.filename = error.filename or str(path)
        raise
    finally:
        temporary.unlink(missing_ok=True)
    if synced:
        sync_folder(path.parent)
    _reached("after", "write", path)


def make_folder(folder: Path, *, is_private: bool = False) -> None:
    """Creates a folder, and those above it, where they are missing. Of one that exists, the mode stays.

    A private folder is its owner's alone (0700), and so is what is created in it: folders by `make_folder`, files by
    `create`. Others have the mode that the umask gives them.
    """
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(mode=0o700 if is_private or _is_private(folder.parent) else 0o777, exist_ok=True)


def create(path: Path, *, appends: bool = False) -> IO[bytes]:
    """Opens a file for writing, emptied if it exists, or for `append`. A new one in a private folder is its owner's
    alone (0600).
    """
    mode = 0o600 if _is_private(path.parent) else 0o666

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags, mode)

    return open(path, "ab", buffering=0, opener=opener) if appends else open(path, "wb", opener=opener)


def _is_private(folder: Path) -> bool:
    return not folder.stat().st_mode & 0o077


def temporary_beside(path: Path) -> Path:
    """Returns a hidden name beside a file that no other process has, also of other machines and containers that share
    the folder; `sweep` knows it.
    """
    return path.with_name(f".{path.name}.{os.getpid()}-{machine_id()}-{secrets.token_hex(4)}.tmp")


def append(file: IO[bytes], line: bytes) -> None:
    """Appends a line to a file opened without buffering. The line survives a kill of this process, but is not synced
    against a power failure.
    """
    path = Path(file.name)
    _reached("before", "append", path)
    if _watcher is not None:
        half = len(line) // 2
        _write_all(file, line[:half])
        _reached("middle", "append", path)
        line = line[half:]
    _write_all(file, line)
    _reached("after", "append", path)


def _write_all(file: IO[bytes], content: bytes) -> None:
    """Writes all of `content`: on a nearly full disk, an unbuffered write may silently write only a part."""
    while content:
        content = content[file.write(content) :]


def reserve(file: IO[bytes], size: int) -> None:
    """Takes `size` bytes of disk for a file that will be memory-mapped: on a full disk, a write into the mapping would
    be a SIGBUS, and this is an OSError.
    """
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(file.fileno(), 0, size)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):  # a file system that cannot
                raise


def move(source: Path, target: Path) -> None:
    """Renames a file, replacing `target`, or a folder, whose `target` must not exist; synced."""
    make_folder(target.parent)
    _reached("before", "move", target)
    source.replace(target)
    sync_folder(target.parent)
    _reached("after", "move", target)


def exchange(first: Path, second: Path) -> None:
    """Exchanges two sibling folders atomically, so that both names always exist. Linux only: OSError (ENOSYS) on other
    systems.
    """
    _reached("before", "exchange", first)
    if sys.platform != "linux":
        raise OSError(errno.ENOSYS, "folders cannot be exchanged in one step on this system", str(first))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(_HERE, os.fsencode(first), _HERE, os.fsencode(second), _EXCHANGE) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), str(first))
    sync_folder(first.parent)
    _reached("after", "exchange", first)


def remove(path: Path, *, synced: bool = True) -> None:
    """Removes a file, if it exists, or a folder with its content. Without `synced`, a file may reappear after a power
    failure.

    A folder is first renamed to `.NAME.removed`, under which a crash may leave the rest of it.
    """
    _reached("before", "remove", path)
    if path.is_dir() and not path.is_symlink():
        aside = path if is_removed(path) else path.with_name(f".{path.name}.removed")
        if aside != path:
            shutil.rmtree(aside, ignore_errors=True)
            path.rename(aside)
            sync_folder(path.parent)
        _reached("middle", "remove", path)
        shutil.rmtree(aside)
    else:
        path.unlink(missing_ok=True)
    if synced:
        sync_folder(path.parent)
    _reached("after", "remove", path)


def is_removed(path: Path) -> bool:
    """Whether a path is that of a folder whose removal was interrupted."""
    return path.name.startswith(".") and path.name.endswith(".removed")


def sweep(temporaries: Iterable[Path]) -> int:
    """Removes temporary files whose writing process has died; returns the bytes freed. Call it with
    `folder.glob(TEMPORARY)`.

    Of a process of another machine or container that cannot be known: its files go a day after their last change.
    """
    freed = 0
    for path in temporaries:
        with suppress(FileNotFoundError):  # renamed to its final name meanwhile
            status = path.stat()
            if _is_left(path, status.st_mtime):
                freed += status.st_size
                remove(path)
    return freed


def _is_left(path: Path, changed_at: float) -> bool:
    written_by = _WRITTEN_BY.search(path.name)
    if written_by is None:
        return False
    if written_by["machine"] == machine_id():
        return not _lives(int(written_by["pid"]))
    return time.time() - changed_at > _FOREIGN_S


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def sync_folder(folder: Path) -> None:
    """Syncs a folder, so that renames in it survive a power failure."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(root: Path) -> None:
    """Syncs every file and folder below `root`, and `root` itself. For files written by engines that do not sync
    them.
    """
    _reached("before", "sync", root)
    for folder, _, names in os.walk(root, topdown=False):
        for name in names:
            with (Path(folder) / name).open("rb") as file:
                os.fsync(file.fileno())
        sync_folder(Path(folder))
    _reached("after", "sync", root)
