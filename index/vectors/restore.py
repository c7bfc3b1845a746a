"""Restores vector parts that were lost or damaged from a version, whose `vectors.npy` has the same vectors."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from almanac.core.digests import SortedDigests, Texts, digests_of
from almanac.core.logs import get_logger
from almanac.core.tables import CHUNKS
from almanac.index.vectors.keys import keys_in
from almanac.index.vectors.missing import CHECKPOINT
from almanac.index.vectors.vector_matrix import verified_matrix
from almanac.index.vectors.vector_store import VectorStore
from almanac.schemas.errors import DamagedVersion
from almanac.schemas.manifest import Sealed

_log = get_logger("almanac.vectors")


def restore_vectors(store: VectorStore, keys: Texts, folder: Path, manifest: Sealed) -> int:
    """Writes the vectors of `keys` that the store lacks and a version has; returns their number.

    Args:
        store: Vector store to complete.
        keys: Vector keys that are needed.
        folder: Directory of the version, or of a segment.
        manifest: Its manifest. A version of another embedder restores nothing.

    Where the version's own vectors are damaged, nothing is restored, with a warning.
    """
    absent = store.absent(keys)
    if not len(absent) or manifest.embedder.fingerprint != store.fingerprint:
        return 0
    try:
        column = keys_in(folder / CHUNKS)
        missing = digests_of(keys)[absent]
        rows = SortedDigests(digests_of(column)).find(missing)
        rows = rows[np.argsort(missing)]  # by key
        rows = rows[rows >= 0]
        matrix = verified_matrix(folder, manifest) if len(rows) else None
    except DamagedVersion as error:
        _log.warning("vectors cannot be restored from a version", version=manifest.called, error=error.message)
        return 0
    if matrix is None:
        return 0
    for begin in range(0, len(rows), CHECKPOINT):
        part = rows[begin : begin + CHECKPOINT]
        store.write_part(column.take(pa.array(part)).to_pylist(), matrix[part])
    _log.warning("vectors_restored", vectors=len(rows), version=manifest.called, folder=str(store.folder))
    return len(rows)
