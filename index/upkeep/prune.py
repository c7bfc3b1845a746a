"""Retention: removes versions beyond the declared number, and vectors that no remaining version or run needs."""

import json
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import structlog

from almanac.core.settings import DataDir
from almanac.core.tables import CHUNKS
from almanac.index.vectors.keys import keys_in
from almanac.index.vectors.retention import prune_vectors, vectors_unused
from almanac.index.versions.lock import Lease
from almanac.index.versions.pins import remove_unless_pinned
from almanac.index.versions.publications import override_of, pointer_lock, publications
from almanac.index.versions.store import MANIFEST, discard_unfinished, read_manifest, read_pointer, version_dir, version_names
from almanac.schemas.declaration import Declaration
from almanac.schemas.errors import AlmanacError, DamagedVersion
from almanac.schemas.reports import PruneResult

_LAST = 3  # newest versions that are kept whatever the declaration says
_DAY_S = 86_400
_log = structlog.get_logger("almanac.prune")


def prune(data: DataDir, declaration: Declaration, *, keep_vectors: Collection[str] = (), lease: Lease | None = None) -> PruneResult:
    """Applies the declared retention to versions, then to vectors; returns what was removed.

    The caller has the writer lock and must not be inside `vectors_in_use`: while any process of any knowledge base is, no vectors are removed.

    Args:
        data: The data directory.
        declaration: The knowledge base, with its retention.
        keep_vectors: Vector keys to keep in addition to those that tables refer to.
        lease: The writer's lock, checked before each removal of a version.
    """
    index_dir = data.index(declaration.name)
    discard_unfinished(index_dir)
    result = PruneResult(kb=declaration.name, versions=[], held=[], crawls=0, pages=0, vectors=0, bytes=0)
    with pointer_lock(index_dir):  # nobody can roll back to a version that is being removed
        for version in expired_versions(index_dir, declaration.retention.versions):
            if lease:
                lease.require_held()
            folder = version_dir(index_dir, version)
            size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
            if remove_unless_pinned(folder):
                result.versions.append(version)
                result.bytes += size
            else:
                result.held.append(version)
    with vectors_unused(data.vectors) as unused:
        if unused:
            limit = time.time() - declaration.retention.vectors_days * _DAY_S
            result.vectors, freed = _prune_vectors(data, keep_vectors, limit)
            result.bytes += freed
        else:
            _log.info("vectors are in use, and left for the next time", kb=declaration.name)
    return result


def expired_versions(index_dir: Path, keep: int) -> list[str]:
    """Returns the versions beyond the `keep` newest, oldest first; never the live version, the one published last, or the three newest.

    Refused versions do not displace those that one can roll back to: the `keep` newest of the others stay as well.
    """
    names, count = version_names(index_dir), max(keep, _LAST)
    others = [name for name in names if not _was_refused(index_dir, name)]
    stay = {*names[-count:], *others[-count:], read_pointer(index_dir), *(one.version for one in publications(index_dir)[-1:])}
    return [name for name in names if name not in stay]


def _was_refused(index_dir: Path, version: str) -> bool:
    """Whether the gate refused the version and it was not published by an override."""
    try:
        refused = read_manifest(index_dir, version).gate.verdict != "passed"
    except DamagedVersion:
        return False
    return refused and override_of(index_dir, version) is None


def _prune_vectors(data: DataDir, keep: Collection[str], limit_s: float) -> tuple[int, int]:
    needs = needed_keys(data)
    if needs is None:
        return 0, 0
    needs.everywhere.append(pa.array(sorted(keep), pa.string()))
    return prune_vectors(data.vectors, needs.of, limit_s)


@dataclass
class Needs:
    """Vector keys that chunks tables refer to: by embedder fingerprint, and `everywhere` for tables whose embedder is unknown."""

    by_embedder: dict[str, list[pa.Array]] = field(default_factory=dict)
    everywhere: list[pa.Array] = field(default_factory=list)

    def of(self, fingerprint: str) -> pa.Array:
        return pa.concat_arrays([pa.array([], pa.string()), *self.everywhere, *self.by_embedder.get(fingerprint, [])])

    def of_any(self) -> pa.Array:
        return pa.concat_arrays([pa.array([], pa.string()), *self.everywhere, *(keys for found in self.by_embedder.values() for keys in found)])


def needed_keys(data: DataDir, *, overlook_unreadable: bool = False) -> Needs | None:
    """Returns the vector keys needed by the versions of all knowledge bases and by the tables of their latest and unfinished runs.

    None where a table cannot be read, since the keys are then unknown; with `overlook_unreadable`, such tables are skipped.
    """
    needs = Needs()
    for path in sorted([*data.root.glob(f"index/*/versions/v*/{CHUNKS}"), *data.root.glob(f"processed/*/{CHUNKS}"), *_staged(data)]):
        fingerprint = _fingerprint_in(path.with_name(MANIFEST))
        try:
            (needs.by_embedder.setdefault(fingerprint, []) if fingerprint else needs.everywhere).append(keys_in(path))
        except AlmanacError as error:
            if not path.is_file():
                return needed_keys(data, overlook_unreadable=overlook_unreadable)  # a run of another knowledge base moved it: start over
            _log.warning("table_unreadable", table=str(path), error=str(error))
            if not overlook_unreadable:
                return None
    return needs


def _staged(data: DataDir) -> list[Path]:
    """Returns the chunks tables of runs that are unfinished."""
    return list(data.root.glob(f"processed/*/.*/**/{CHUNKS}"))


def _fingerprint_in(manifest: Path) -> str | None:
    """Reads the embedder's fingerprint from a manifest of any format; None where there is none."""
    try:
        return str(json.loads(manifest.read_text(encoding="utf-8"))["embedder"]["fingerprint"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
