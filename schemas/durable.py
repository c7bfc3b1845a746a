"""Durable writes: every file of ours that has to outlive a crash is written through here.

A file appears whole or not at all: temporary name beside it, sync, rename, sync of the folder.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import IO


def write_file(path: Path, content: bytes | str | Callable[[IO[bytes]], object]) -> None:
    """Puts `content` at `path`, replacing what was there; a callable writes into the open file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            if callable(content):
                content(file)
            else:
                file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Makes renames in `folder` outlive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(root: Path) -> None:
    """Syncs every file and folder below `root`, and `root` itself: for files that an engine wrote without syncing."""
    for folder, _, names in os.walk(root, topdown=False):
        for name in names:
            with (Path(folder) / name).open("rb") as file:
                os.fsync(file.fileno())
        sync_folder(Path(folder))
