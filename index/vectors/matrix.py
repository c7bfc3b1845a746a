"""All vectors of a version in one file, a row for each row of chunks.parquet: whoever knows the rows reads the vectors there.

Chroma finds the nearest of all quickly, but takes 40 µs to hand out a stored vector, and 90 ms at 100,000 rows where it is told among which to search.
From this file, 6,000 vectors are read and compared in 2 ms.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from almanac.index.vectors.keys import RowNumbers
from almanac.schemas.errors import DamagedVersion
from almanac.schemas.hashing import file_sha256
from almanac.schemas.manifest import Manifest

if TYPE_CHECKING:
    from almanac.index.embedding.embedder import Vectors
    from almanac.index.vectors.store import VectorStore

MATRIX = "vectors.npy"
_ROWS = 10_000  # copied at a time


def open_matrix(folder: Path, rows: int, dimension: int) -> "Vectors":
    """The vectors of the version in a folder, float32 (rows, dimension), of unit length, in the order of chunks.parquet; mapped, not read.

    Raises DamagedVersion where the file is none, or is one of another shape.
    """
    path, hint = folder / MATRIX, "almanac rebuild KB VERSION makes it anew; almanac rollback KB serves an older version"
    try:
        found: Vectors = np.lib.format.open_memmap(path, mode="r") if rows else np.load(path)
    except (OSError, ValueError, EOFError) as error:
        raise DamagedVersion(f"the vectors cannot be read: {error}", where=str(path), hint=hint) from error
    if found.shape != (rows, dimension) or found.dtype != np.float32:
        raise DamagedVersion(f"the vectors have the shape {found.shape} instead of {(rows, dimension)}", where=str(path), hint=hint)
    return found


def write_matrix(folder: Path, keys: list[str], store: "VectorStore") -> "Vectors":
    """Writes the vectors of these texts from the parts that hold them. Raises DamagedVersion that names the first key without one."""
    out = _create(folder, len(keys), store.dimension)
    store.read_into(keys, out)
    return out


def change_matrix(folder: Path, keys: list[str], store: "VectorStore", parent: "Vectors", kept: RowNumbers, places: RowNumbers) -> "Vectors":
    """The same, with the rows `kept` taken over from rows `places` of the parent's."""
    out = _create(folder, len(keys), store.dimension)
    for begin in range(0, len(kept), _ROWS):
        out[kept[begin : begin + _ROWS]] = parent[places[begin : begin + _ROWS]]
    added = np.setdiff1d(np.arange(len(keys)), kept)
    out[added] = store.read([keys[number] for number in added])
    return out


def verified_matrix(folder: Path, manifest: Manifest) -> "Vectors":
    """The vectors of the version in a folder, byte by byte those that were published. Raises DamagedVersion where they are not."""
    path = folder / MATRIX
    wanted = next((stored.sha256 for stored in manifest.files if stored.path == MATRIX), None)
    if not path.is_file() or file_sha256(path) != wanted:
        raise DamagedVersion(f"{MATRIX} of {manifest.version} is missing or was altered", where=str(path))
    return open_matrix(folder, manifest.counts.chunks, manifest.embedder.dimension)


def _create(folder: Path, rows: int, dimension: int) -> "Vectors":
    if not rows:  # nothing to map
        np.save(folder / MATRIX, np.empty((0, dimension), dtype=np.float32))
        return np.empty((0, dimension), dtype=np.float32)
    created: Vectors = np.lib.format.open_memmap(folder / MATRIX, mode="w+", dtype=np.float32, shape=(rows, dimension))
    return created
