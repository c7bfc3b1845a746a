"""Seals a built folder: syncs it to disk, hashes its files, and writes the manifest that makes it a version or a
segment.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from almanac.core.durable import sync_tree, write_file
from almanac.core.stamps import STAMPS, write_stamps
from almanac.index.segments.store import SEGMENT, SEGMENT_HASH
from almanac.index.versions.lock import Lease
from almanac.index.versions.store import MANIFEST, MANIFEST_HASH
from almanac.schemas.hashing import file_sha256, sha256
from almanac.schemas.manifest import Sealed, Segment, StoredFile

_NOT_LISTED = frozenset((MANIFEST, MANIFEST_HASH, SEGMENT, SEGMENT_HASH, STAMPS))
_Kind = TypeVar("_Kind", bound=Sealed)


def seal(folder: Path, manifest: _Kind, *, lease: Lease | None = None) -> _Kind:
    """Completes a built and verified folder, which no process may have open; returns the manifest with `files` filled
    in.

    Args:
        folder: Folder of a version or a segment; it need not be the final one.
        manifest: Its manifest, without files.
        lease: The writer's lock, checked before the manifest is written.

    Raises RunLocked where `lease` was lost.
    """
    sync_tree(folder)  # Chroma syncs only its database, never its index files
    complete = manifest.model_copy(update={"files": [_describe(path, folder) for path in sorted(_files(folder))]})
    if lease:
        lease.require_held()
    name, hash_name = (SEGMENT, SEGMENT_HASH) if isinstance(manifest, Segment) else (MANIFEST, MANIFEST_HASH)
    if isinstance(manifest, Segment):
        write_stamps(folder, complete.files)
    content = complete.model_dump_json(indent=2) + "\n"
    # first: the manifest makes the folder a version or a segment
    write_file(folder / hash_name, f"{sha256(content)}  {name}\n")
    write_file(folder / name, content)
    return complete


def _files(folder: Path) -> Iterator[Path]:
    """Yields the files that make up the folder. None changes afterwards: whoever opens Chroma opens a copy of its
    folder, since Chroma writes to its database whenever that is opened.
    """
    for path in folder.rglob("*"):
        name = path.relative_to(folder).name
        if path.is_file() and name not in _NOT_LISTED and not name.startswith("."):
            yield path


def _describe(path: Path, folder: Path) -> StoredFile:
    return StoredFile(path=path.relative_to(folder).as_posix(), bytes=path.stat().st_size, sha256=file_sha256(path))
