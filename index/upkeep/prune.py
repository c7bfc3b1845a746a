"""Retention: versions beyond the declared number, and vectors that no kept version needs. Nothing that a kept version needs goes."""

import json
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import structlog

from almanac.core.settings import DataDir
from almanac.core.tables import CHUNKS
from almanac.index.vectors.retention import keys_in, prune_vectors, vectors_unused
from almanac.index.versions.lock import Lease
from almanac.index.versions.pins import remove_unless_held
from almanac.index.versions.publish import override_of
from almanac.index.versions.store import MANIFEST, discard_unfinished, read_manifest, read_pointer, version_dir, version_names
from almanac.schemas.declaration import Declaration
from almanac.schemas.errors import DamagedVersion
from almanac.schemas.reports import PruneResult

_LAST = 3  # the newest versions stay whatever is declared
_DAY_S = 86_400
_log = structlog.get_logger("almanac.prune")


def prune(data: DataDir, declaration: Declaration, *, keep_vectors: Collection[str] = (), lease: Lease | None = None) -> PruneResult:
    """Applies the declared retention to versions, then to vectors. `keep_vectors` are keys that are needed beside those of tables.

    The caller holds the writer's lock, and uses no vectors now: while somebody does, of any knowledge base, vectors are left for the next time.
    """
    index_dir = data.index(declaration.name)
    discard_unfinished(index_dir)
    result = PruneResult(kb=declaration.name, versions=[], held=[], crawls=0, pages=0, vectors=0, bytes=0)
    for version in expired_versions(index_dir, declaration.retention.versions):
        if lease:
            lease.require_held()
        folder = version_dir(index_dir, version)
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        if remove_unless_held(folder):
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
    """Versions beyond the `keep` newest, the oldest first; never the live one nor the last three.

    What the gate refused takes the place of nothing that one can roll back to: of the others, as many stay.
    """
    names, count = version_names(index_dir), max(keep, _LAST)
    others = [name for name in names if not _was_refused(index_dir, name)]
    stay = {*names[-count:], *others[-count:], read_pointer(index_dir)}
    return [name for name in names if name not in stay]


def _was_refused(index_dir: Path, version: str) -> bool:
    """Whether the gate refused it and nobody published it all the same."""
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
    """Vector keys that tables need: by the embedder's fingerprint, and of tables that do not say whose."""

    by_embedder: dict[str, list[pa.Array]] = field(default_factory=dict)
    everywhere: list[pa.Array] = field(default_factory=list)

    def of(self, fingerprint: str) -> pa.Array:
        return pa.concat_arrays([pa.array([], pa.string()), *self.everywhere, *self.by_embedder.get(fingerprint, [])])

    def of_any(self) -> pa.Array:
        return pa.concat_arrays([pa.array([], pa.string()), *self.everywhere, *(keys for found in self.by_embedder.values() for keys in found)])


def needed_keys(data: DataDir, *, overlook_unreadable: bool = False) -> Needs | None:
    """What the versions of every knowledge base need, and the tables of their latest runs. None where a table cannot be read: then nobody knows."""
    needs = Needs()
    for path in sorted([*data.root.glob(f"index/*/versions/v*/{CHUNKS}"), *data.root.glob(f"processed/*/{CHUNKS}"), *_staged(data)]):
        fingerprint = _fingerprint_in(path.with_name(MANIFEST))
        try:
            (needs.by_embedder.setdefault(fingerprint, []) if fingerprint else needs.everywhere).append(keys_in(path))
        except FileNotFoundError:
            return needed_keys(data, overlook_unreadable=overlook_unreadable)  # a run of another knowledge base has just moved it
        except (pa.ArrowException, KeyError, OSError) as error:
            _log.warning("table_unreadable", table=str(path), error=str(error))
            if not overlook_unreadable:
                return None
    return needs


def _staged(data: DataDir) -> list[Path]:
    """Tables of runs that did not end."""
    return list(data.root.glob(f"processed/*/.*/**/{CHUNKS}"))


def _fingerprint_in(manifest: Path) -> str | None:
    """The embedder's fingerprint that a manifest of whatever format names."""
    try:
        return str(json.loads(manifest.read_text(encoding="utf-8"))["embedder"]["fingerprint"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
