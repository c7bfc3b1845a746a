"""Seals a built folder: syncs it to disk, hashes its files, and writes the manifest that makes it a version or a
segment.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from almanac.core.durable import sync_tree, write_file
from almanac.core.stamps import STAMPS, write_stamps
from almanac.index.chroma.chroma_rows import CHROMA
from almanac.index.chroma.leftover import forget_making
from almanac.index.chroma.noted import note_database
from almanac.index.segments.segment_store import SEGMENT, SEGMENT_HASH
from almanac.index.versions.lock import Lease
from almanac.index.versions.version_store import MANIFEST, MANIFEST_HASH
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
    database = note_database(folder)
    sync_tree(folder)  # Chroma syncs only its database, never its index files
    complete = manifest.model_copy(
        update={"files": [_describe(path, folder) for path in sorted(_stable_files(folder))]}
    )
    if lease:
        lease.require_held()
    name, hash_name = (SEGMENT, SEGMENT_HASH) if isinstance(manifest, Segment) else (MANIFEST, MANIFEST_HASH)
    if isinstance(manifest, Segment):
        write_stamps(folder, [*complete.files, *database])
    forget_making(folder)
    content = complete.model_dump_json(indent=2) + "\n"
    # first: the manifest makes the folder a version or a segment
    write_file(folder / hash_name, f"{sha256(content)}  {name}\n")
    write_file(folder / name, content)
    return complete


def _stable_files(folder: Path) -> Iterator[Path]:
    """Yields the files that no client of Chroma changes when it opens, queries and closes the folder; only these are
    listed in the manifest.

    Chroma 1.5.9 writes to `chroma.sqlite3` at each opening. Its HNSW files stay as they are once they were flushed,
    which the presence of `index_metadata.pickle` shows; a collection that was never flushed (without rows)
    writes them again each time.
    """
    for path in folder.rglob("*"):
        relative = path.relative_to(folder)
        if not path.is_file() or relative.name in _NOT_LISTED or relative.name.startswith("."):
            continue
        in_chroma = relative.parts[0] == CHROMA
        if not in_chroma or (len(relative.parts) > 2 and (path.parent / "index_metadata.pickle").is_file()):
            yield path


def _describe(path: Path, folder: Path) -> StoredFile:
    return StoredFile(path=path.relative_to(folder).as_posix(), bytes=path.stat().st_size, sha256=file_sha256(path))
