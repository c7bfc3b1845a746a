"""Durable writes: whatever of ours has to outlive a crash is written, moved and removed through here.

A file appears whole or not at all: temporary name beside it, sync, rename, sync of the folder. A folder is taken away under a hidden name
first, so that nobody meets half of it. `watched` tells each moment at which a crash would leave another state of the disk.
"""

import ctypes
import errno
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Literal

Moment = Literal["before", "middle", "after"]
Watcher = Callable[[Moment, str, Path], None]

_watcher: Watcher | None = None
REMOVED = ".*.removed"  # what is left of a folder that was being removed
TEMPORARY = ".*.tmp"  # what a file is called until it is whole: .NAME.PID.tmp
_EXCHANGE = 2  # renameat2's RENAME_EXCHANGE
_HERE = -100  # AT_FDCWD


@contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """Calls `watcher(moment, deed, path)` before, in the middle of and after each deed of this module, in this process."""
    global _watcher
    _watcher, before = watcher, _watcher
    try:
        yield
    finally:
        _watcher = before


def _reached(moment: Moment, deed: str, path: Path) -> None:
    if _watcher is not None:
        _watcher(moment, deed, path)


def write_file(path: Path, content: bytes | str | Callable[[IO[bytes]], object], *, synced: bool = True) -> None:
    """Puts `content` at `path`, replacing what was there; a callable writes into the open file. Without `synced` a power cut may undo it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    _reached("before", "write", path)
    try:
        with temporary.open("wb") as file:
            if callable(content):
                content(file)
            else:
                file.write(content.encode() if isinstance(content, str) else content)
            if synced:
                file.flush()
                os.fsync(file.fileno())
        _reached("middle", "write", path)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    if synced:
        sync_folder(path.parent)
    _reached("after", "write", path)


def append(file: IO[bytes], line: bytes) -> None:
    """Adds a line to a file that is open unbuffered. It is the system's at once: killing this process loses nothing of it."""
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
    """A disk that is nearly full takes a part without a word."""
    while content:
        content = content[file.write(content) :]


def move(source: Path, target: Path) -> None:
    """Renames a file, replacing `target`, or a folder to where nothing is."""
    target.parent.mkdir(parents=True, exist_ok=True)
    _reached("before", "move", target)
    source.replace(target)
    sync_folder(target.parent)
    _reached("after", "move", target)


def exchange(one: Path, other: Path) -> None:
    """Two folders beside each other take each other's places, in one step: at no moment is there none."""
    _reached("before", "exchange", one)
    if sys.platform != "linux":
        raise OSError(errno.ENOSYS, "folders cannot be exchanged in one step on this system", str(one))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), str(one))
    sync_folder(one.parent)
    _reached("after", "exchange", one)


def remove(path: Path, *, synced: bool = True) -> None:
    """Takes a file or a folder away; without `synced` a power cut may bring a file back.

    What a crash leaves of a folder has a name that begins with a dot and ends with `.removed`.
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
    """Whether a folder is what a crash left of one that was being removed."""
    return path.name.startswith(".") and path.name.endswith(".removed")


def sweep(temporaries: Iterable[Path]) -> int:
    """Removes those of these temporary files whose process is no more, and says how many bytes they took. For `folder.glob(TEMPORARY)`."""
    freed = 0
    for path in temporaries:
        pid = path.suffixes[-2][1:] if len(path.suffixes) > 1 else ""
        if pid.isdecimal() and not _lives(int(pid)):
            with suppress(FileNotFoundError):  # it had just become a file
                freed += path.stat().st_size
                remove(path)
    return freed


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def sync_folder(folder: Path) -> None:
    """Makes renames in `folder` outlive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(root: Path) -> None:
    """Syncs every file and folder below `root`, and `root` itself: for files that an engine wrote without syncing."""
    _reached("before", "sync", root)
    for folder, _, names in os.walk(root, topdown=False):
        for name in names:
            with (Path(folder) / name).open("rb") as file:
                os.fsync(file.fileno())
        sync_folder(Path(folder))
    _reached("after", "sync", root)
