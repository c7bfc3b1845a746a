"""Verification of a version's `vectors.npy` against the vector store, and of `vectors.faiss` against it."""

from contextlib import suppress
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from almanac.index.chroma.compared import unlike
from almanac.index.embedding.embedder import Vectors
from almanac.index.vectors.quantized import QUANTIZED, Quantized, has_quantized
from almanac.index.vectors.vector_matrix import MATRIX, open_matrix
from almanac.index.verify.problem_collector import ProblemCollector
from almanac.schemas.errors import DamagedVersion

_BATCH = 5000


class Stored(Protocol):
    """Stored vectors of a table's rows, float32 (n, dimension); NaN where there is none."""

    def at(self, rows: slice) -> Vectors: ...


def check_matrix(version_dir: Path, table: pa.Table, stored: Stored, problems: ProblemCollector) -> None:
    """Compares the matrix with the stored vectors.

    Args:
        version_dir: Directory of the version.
        table: Chunk ids of all rows, in the order of chunks.parquet.
        stored: The stored vectors.
        problems: Collects the problems.
    """
    ids, dimension = table.column("chunk_id"), stored.at(slice(0, 0)).shape[1]
    try:
        matrix = open_matrix(version_dir, table.num_rows, dimension)
    except DamagedVersion as error:
        problems.add("unreadable", MATRIX, error.message)
        return
    for begin in range(0, table.num_rows, _BATCH):
        for row, cosine in unlike(stored.at(slice(begin, begin + _BATCH)), matrix[begin : begin + _BATCH]):
            problems.add("vector_altered", f"{MATRIX}: {ids[begin + row].as_py()}", cosine, 1.0)


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
