"""Retention: removes versions beyond the declared number, segments that no version names any more, and vectors that no
remaining version or run needs.
"""

import json
import time
from collections.abc import Collection
from pathlib import Path

from almanac.core.digests import DigestSet, digests_of
from almanac.core.logs import get_logger
from almanac.core.pins import remove_unless_pinned
from almanac.core.settings import DataDir
from almanac.core.tables import CHUNKS
from almanac.index.chroma.leftover import remove_leftovers
from almanac.index.segments.segment_store import SEGMENT, bytes_in, remove_unnamed_segments
from almanac.index.vectors.keys import keys_in
from almanac.index.vectors.retention import prune_vectors, vectors_unused
from almanac.index.versions.lock import Lease
from almanac.index.versions.publications import override_of, pointer_lock, publications
from almanac.index.versions.version_store import (
    MANIFEST,
    discard_unfinished,
    read_manifest,
    read_pointer,
    version_dir,
    version_names,
)
from almanac.schemas.declaration import Declaration
from almanac.schemas.errors import AlmanacError, DamagedVersion
from almanac.schemas.reports import PruneResult

_LAST = 3  # newest versions that are kept whatever the declaration says
_DAY_S = 86_400
_log = get_logger("almanac.prune")


def prune(
    data: DataDir, declaration: Declaration, *, keep_vectors: Collection[str] = (), lease: Lease | None = None
) -> PruneResult:
    """Applies the declared retention to versions, then to segments and vectors; returns what was removed.

    The caller has the writer lock and must not be inside `vectors_in_use`: while any process of any knowledge base is,
    no vectors are removed.

    Args:
        data: The data directory.
        declaration: The knowledge base, with its retention.
        keep_vectors: Vector keys to keep in addition to those that tables refer to.
        lease: The writer's lock, checked before each removal of a version.
    """
    index_dir = data.index(declaration.name)
    discard_unfinished(index_dir)
    remove_leftovers(index_dir)
    result = PruneResult(kb=declaration.name, versions=[], held=[], crawls=0, pages=0, vectors=0, bytes=0)
    with pointer_lock(index_dir):  # nobody can roll back to a version that is being removed
        for version in expired_versions(index_dir, declaration.retention.versions):
            if lease:
                lease.require_held()
            folder = version_dir(index_dir, version)
            size = bytes_in(folder)
            if remove_unless_pinned(folder):
                result.versions.append(version)
                result.bytes += size
            else:
                result.held.append(version)
    if lease:
        lease.require_held()
    result.bytes += remove_unnamed_segments(index_dir)[1]
    with vectors_unused(data.vectors) as unused:
        if unused:
            limit = time.time() - declaration.retention.vectors_days * _DAY_S
            result.vectors, freed = _prune_vectors(data, keep_vectors, limit)
            result.bytes += freed
        else:
            _log.info("vectors are in use, and left for the next time", kb=declaration.name)
    return result


def expired_versions(index_dir: Path, keep: int) -> list[str]:
    """Returns the versions beyond the `keep` newest, oldest first; never the live version, the one published last, or
    the three newest.

    Refused versions count for nothing: they stay as long as they are among the three newest, to be looked at and
    published by hand, and displace none that one can roll back to. Otherwise a site that is refused every night would
    fill the disk.
    """
    names, count = version_names(index_dir), max(keep, _LAST)
    others = [name for name in names if not _was_refused(index_dir, name)]
    stay = {
        *names[-_LAST:],
        *others[-count:],
        read_pointer(index_dir),
        *(publication.version for publication in publications(index_dir)[-1:]),
    }
    return [name for name in names if name not in stay]


def _was_refused(index_dir: Path, version: str) -> bool:
    """Whether the gate refused the version and it was not published by an override."""
    try:
        refused = read_manifest(index_dir, version).gate.verdict != "passed"
    except DamagedVersion:
        return False
    return refused and override_of(index_dir, version) is None


def _prune_vectors(data: DataDir, keep: Collection[str], limit_s: float) -> tuple[int, int]:
    def needed(fingerprint: str) -> DigestSet | None:
        keys = needed_keys(data, fingerprint)
        if keys is not None:
            keys.add(digests_of(list(keep)))
        return keys

    return prune_vectors(data.vectors, needed, limit_s)


def needed_keys(
    data: DataDir, fingerprint: str | None = None, *, overlook_unreadable: bool = False
) -> DigestSet | None:
    """Returns the vector keys that are needed by versions and segments of all knowledge bases, and by the tables of
    their latest and unfinished runs; None where a table cannot be read.

    The tables are read one at a time. Memory: 32 bytes for each distinct key, and one table's keys.

    Args:
        data: The data directory.
        fingerprint: That of the embedder whose keys are asked for; None asks for those of all. A table whose embedder
            is not known counts for each.
        overlook_unreadable: Whether to skip tables that cannot be read.
    """
    needed = DigestSet(digests_of([]))
    while True:
        for path in _chunks_tables(data):
            if fingerprint is not None and _embedder_of(path) not in (None, fingerprint):
                continue
            try:
                needed.add(digests_of(keys_in(path)))
            except AlmanacError as error:
                if not path.is_file():
                    break  # a run of another knowledge base moved it: start over
                _log.warning("table_unreadable", table=str(path), error=str(error))
                if not overlook_unreadable:
                    return None
        else:
            return needed


def _chunks_tables(data: DataDir) -> list[Path]:
    """The chunks tables of unfinished runs, which move them to those of the latest, and of versions and segments."""
    places = ("processed/*/.*/**", "processed/*", "index/*/versions/v*", "index/*/segments/*")
    return sorted(path for place in places for path in data.root.glob(f"{place}/{CHUNKS}"))


def _embedder_of(chunks: Path) -> str | None:
    """The embedder's fingerprint, by the manifest of any format beside a chunks table; None where it is not there."""
    for name in (MANIFEST, SEGMENT):
        try:
            return str(json.loads(chunks.with_name(name).read_text(encoding="utf-8"))["embedder"]["fingerprint"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return None
