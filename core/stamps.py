"""Stamps of a sealed segment's files: by them a file that nobody has touched since it was hashed is told without
reading it.

`stamps.json` in the segment's folder has inode, size, and the times of the last change of content and of attributes, in
nanoseconds. A program can set back the former time, but not the latter. A disk that loses bits by itself changes
neither: for that there is `almanac verify`, which reads every byte.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from almanac.core.durable import write_file
from almanac.schemas.hashing import file_sha256

if TYPE_CHECKING:
    from almanac.schemas.manifest import StoredFile

STAMPS = "stamps.json"
_Stamp = list[int]


def write_stamps(folder: Path, files: "Sequence[StoredFile]") -> None:
    """Records the stamps of files whose hashes were just found to be right. On a read-only disk nothing is recorded."""
    stamps = {stored.path: _stamp_of(folder / stored.path) for stored in files}
    try:
        write_file(folder / STAMPS, json.dumps(stamps), synced=False)
    except OSError:
        return


def untouched(folder: Path, files: "Sequence[StoredFile]") -> set[str]:
    """Returns the paths of those files that are as they were when their hashes were last found to be right. Without
    stamps, none.
    """
    try:
        stamps = json.loads((folder / STAMPS).read_bytes())
        return {stored.path for stored in files if stamps.get(stored.path) == _stamp_of(folder / stored.path)}
    except (OSError, ValueError, AttributeError):
        return set()


def altered_file(folder: Path, files: "Sequence[StoredFile]") -> str | None:
    """Returns the first of these files that is missing or differs from its hash, None where none does. Untouched files
    are not read.
    """
    known = untouched(folder, files)
    read = [stored for stored in files if stored.path not in known]
    for stored in read:
        path = folder / stored.path
        if not path.is_file() or path.stat().st_size != stored.bytes or file_sha256(path) != stored.sha256:
            return stored.path
    return None


def _stamp_of(path: Path) -> _Stamp:
    status = path.stat()
    return [status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]
