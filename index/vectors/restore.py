"""Restores vector parts that were lost or damaged from a version, whose `vectors.npy` has the same vectors."""

from collections.abc import Iterable
from pathlib import Path

import structlog

from almanac.core.tables import CHUNKS, read_table
from almanac.index.vectors.matrix import verified_matrix
from almanac.index.vectors.missing import CHECKPOINT
from almanac.index.vectors.store import VectorStore
from almanac.schemas.errors import DamagedVersion
from almanac.schemas.manifest import Sealed

_log = structlog.get_logger("almanac.vectors")


def restore_vectors(store: VectorStore, keys: Iterable[str], folder: Path, manifest: Sealed) -> int:
    """Writes the vectors of `keys` that the store lacks and a version has; returns their number.

    Args:
        store: Vector store to complete.
        keys: Vector keys that are needed.
        folder: Directory of the version, or of a segment.
        manifest: Its manifest. A version of another embedder restores nothing.

    Where the version's own vectors are damaged, nothing is restored, with a warning.
    """
    missing = set(store.missing(keys))
    if not missing or manifest.embedder.fingerprint != store.fingerprint:
        return 0
    try:
        row_of = {key: row for row, key in enumerate(read_table(folder / CHUNKS, ["text_sha256"]).column(0).to_pylist()) if key in missing}
        matrix = verified_matrix(folder, manifest) if row_of else None
    except DamagedVersion as error:
        _log.warning("vectors cannot be restored from a version", version=manifest.called, error=error.message)
        return 0
    if matrix is None:
        return 0
    found = sorted(row_of)
    for begin in range(0, len(found), CHECKPOINT):
        part = found[begin : begin + CHECKPOINT]
        store.write_part(part, matrix[[row_of[key] for key in part]])
    _log.warning("vectors_restored", vectors=len(found), version=manifest.called, folder=str(store.folder))
    return len(found)
