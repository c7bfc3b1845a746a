"""The bound of the cache: of all versions and segments that readers fetched, those used least recently go first; what
somebody has open stays.

Counted are the working copies in which nobody of this machine writes the index. One that a writer has checked out is
its data, and stays whole.
"""

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import NamedTuple

from almanac.core.logs import get_logger
from almanac.core.pins import remove_unless_pinned
from almanac.core.store.layout import SEALS
from almanac.core.store.notes import NOTES, Notes
from almanac.core.store.working_copy import WorkingCopy, locked
from almanac.schemas.errors import StorageError

READERS = "readers"  # noted in place of a tree for an index of which readers fetch single versions
_JUST_S = 60.0  # what was fetched so recently may be about to be opened
_GB = 1e9
_log = get_logger("almanac.store")


class _Folder(NamedTuple):
    used_at: float
    path: Path
    bytes: int


def make_room(copy: WorkingCopy, incoming: int, wanted: set[Path], limit: int) -> None:
    """Removes what was used least recently until `incoming` more bytes fit below the limit. Where what is open or
    `wanted` takes more, a warning says so.

    The caller has the lock of `copy`, a working copy of readers.
    """
    with ExitStack() as held:
        roots = [copy.root, *(root for root in _others(copy.root) if _is_free(root, held))]
        folders = sorted(folder for root in roots for folder in _sealed_in(root))
        total = incoming + sum(folder.bytes for folder in folders)
        for folder in folders:
            if total <= limit:
                return
            if folder.path in wanted or time.time() - folder.used_at < _JUST_S:
                continue
            if remove_unless_pinned(folder.path):
                total -= folder.bytes
                _log.info("evicted", folder=str(folder.path), bytes=folder.bytes)
            else:
                mark_used([folder.path])
        if total > limit:
            _log.warning(
                "cache_over_bound",
                needed_gb=round(total / _GB, 3),
                bound_gb=round(limit / _GB, 3),
                next="what is open stays; ALMANAC_CACHE_GB raises the bound",
            )


def mark_used(folders: Iterable[Path]) -> None:
    """Marks versions and segments, or a file, as used now."""
    for folder in folders:
        try:
            os.utime(folder)
        except (FileNotFoundError, PermissionError):  # removed meanwhile; a cache that is only read
            continue


def _others(root: Path) -> list[Path]:
    """The other working copies of this cache: `stores/<store>/<kb>/`."""
    return sorted(path.parent for path in root.parents[1].glob(f"*/*/{NOTES}") if path.parent != root)


def _is_free(root: Path, held: ExitStack) -> bool:
    """Whether a working copy is one of readers, and nobody changes it; it is locked then."""
    if not all(held.enter_context(locked(root / name, wait=False)) for name in (".checkout", ".writer")):
        return False
    try:
        with closing(Notes(root / NOTES)) as notes:
            return notes.checked_out("index") == READERS
    except StorageError:  # damaged: told to whoever works there
        return False


def _sealed_in(root: Path) -> Iterator[_Folder]:
    for kind, seal in SEALS.items():
        for path in root.glob(f"index/*/{kind}/*/{seal}"):
            folder = path.parent
            if not folder.name.startswith("."):
                yield _Folder(
                    folder.stat().st_mtime,
                    folder,
                    sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()),
                )
