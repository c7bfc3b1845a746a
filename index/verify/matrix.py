"""Verification of a version's `vectors.npy` against the vector store, and of `vectors.faiss` against it."""

from contextlib import suppress
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from almanac.index.embedding.embedder import Vectors
from almanac.index.vectors.matrix import MATRIX, open_matrix
from almanac.index.vectors.quantized import QUANTIZED, Quantized, has_quantized
from almanac.index.verify.problem_collector import ProblemCollector
from almanac.schemas.errors import DamagedVersion

# of a cosine: Chroma normalises vectors again, and a text embedded in another batch differs in its last bits
TOLERANCE = 1e-5
_BATCH = 5000


class KeptVectors(Protocol):
    """Stored vectors by key; the vectors of a list of keys are returned in its order, float32 (n, dimension)."""

    def __contains__(self, key: str) -> bool: ...

    def __getitem__(self, keys: list[str]) -> Vectors: ...


def check_matrix(
    version_dir: Path,
    table: pa.Table,
    some: pa.Table | None,
    kept: KeptVectors,
    dimension: int,
    problems: ProblemCollector,
) -> None:
    """Compares rows of the matrix with the stored vectors of their keys.

    Args:
        version_dir: Directory of the version.
        table: Chunk ids and vector keys of all rows, in the order of chunks.parquet.
        some: Rows to compare; None compares all.
        kept: The stored vectors.
        dimension: Expected dimension.
        problems: Collects the problems.
    """
    try:
        matrix = open_matrix(version_dir, table.num_rows, dimension)
    except DamagedVersion as error:
        problems.add("unreadable", MATRIX, error.message)
        return
    rows = table if some is None else some
    numbers = pc.index_in(rows.column("chunk_id"), value_set=table.column("chunk_id").combine_chunks())
    for begin in range(0, rows.num_rows, _BATCH):
        part = rows.slice(begin, _BATCH)
        compared = [
            (number, chunk_id, key)
            for number, chunk_id, key in zip(
                numbers.slice(begin, _BATCH).to_pylist(),
                part.column("chunk_id").to_pylist(),
                part.column("text_sha256").to_pylist(),
                strict=True,
            )
            if key in kept and number is not None
        ]
        cosines = cosines_of(kept[[key for _, _, key in compared]], matrix[[number for number, _, _ in compared]])
        for (_, chunk_id, _), cosine in zip(compared, cosines.tolist(), strict=True):
            if not cosine >= 1 - TOLERANCE:  # NaN is no match either
                problems.add("vector_altered", f"{MATRIX}: {chunk_id}", round(cosine, 6), 1.0)


def check_quantized(version_dir: Path, rows: int, dimension: int, problems: ProblemCollector) -> None:
    """Compares what was quantised with all rows of the matrix, where that can be read; `check_matrix` tells where
    not.
    """
    if not has_quantized(rows):
        return
    with suppress(DamagedVersion):
        matrix = open_matrix(version_dir, rows, dimension)
        try:
            if not Quantized(version_dir, rows, dimension).is_of(matrix):
                problems.add("vector_altered", QUANTIZED, "other vectors", f"those of {MATRIX}")
        except DamagedVersion as error:
            problems.add("unreadable", QUANTIZED, error.message)


def cosines_of(ours: npt.NDArray[np.floating], theirs: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """Returns the cosines of two (n, dimension) arrays row by row, float64 (n,); NaN where a vector is zero or not
    finite.
    """
    ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        cosines: npt.NDArray[np.float64] = np.einsum("ij,ij->i", ours, theirs) / (
            np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
        )
    return cosines
