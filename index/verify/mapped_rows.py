"""Verification of what readers map into memory: rows (`rows.arrow`, `by_id.npy`) against the chunks table that they are
copied from, vectors (`vectors.npy`) against the vector store, and `vectors.faiss` against these.
"""

from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from almanac.core.digests import RowNumbers
from almanac.core.mapped import load_array
from almanac.core.tables import CHUNKS, read_batches
from almanac.index.chroma.compared import unlike
from almanac.index.embedding.embedder import Vectors
from almanac.index.segments.segment_rows import BY_ID, COLUMNS, ROWS, ROWS_SCHEMA
from almanac.index.vectors.quantized import QUANTIZED, Quantized, has_quantized
from almanac.index.vectors.vector_matrix import MATRIX, open_matrix
from almanac.index.verify.problem_collector import ProblemCollector
from almanac.schemas.errors import AlmanacError, DamagedVersion

_BATCH = 2000  # rows


class Expected:
    """The stored vectors of a table's rows; NaN for a row without one, which was reported and is not compared."""

    def __init__(self, places: RowNumbers, vectors: Vectors) -> None:
        self._places, self._vectors = places, vectors

    def at(self, rows: "slice | list[int]") -> Vectors:
        places = self._places[rows]
        expected = np.full((len(places), self._vectors.shape[1]), np.nan, dtype=np.float32)
        expected[places >= 0] = self._vectors[places[places >= 0]]
        return expected


def check_mapped_rows(version_dir: Path, table: pa.Table, problems: ProblemCollector) -> None:
    """Compares the mapped rows with the chunks table in `version_dir`, and their order by id.

    Args:
        version_dir: Directory of the version or segment.
        table: Chunk ids of all rows, in the order of chunks.parquet.
        problems: Collects the problems.
    """
    try:
        reader = pa.ipc.open_file(pa.memory_map(str(version_dir / ROWS)))
        batches = [reader.get_batch(number) for number in range(reader.num_record_batches)]
        for batch in batches:
            batch.validate(full=True)  # else wrong offsets would have Arrow read beside the file
        mapped = pa.Table.from_batches(batches, ROWS_SCHEMA)
        ids = table.column("chunk_id").cast(pa.large_string())
        if not mapped.column("chunk_id").equals(ids):
            wanted = f"the {len(ids)} of {CHUNKS}, in its order"
            problems.add("row_altered", f"{ROWS}: chunk ids", f"{mapped.num_rows} rows", wanted)
            return
        begin = 0
        for batch in read_batches(version_dir / CHUNKS, COLUMNS, rows=_BATCH):
            rows = batch.select(COLUMNS).cast(ROWS_SCHEMA)
            _check_same(mapped.slice(begin, len(rows)), rows, problems)
            begin += len(rows)
        if not np.array_equal(load_array(version_dir / BY_ID), pc.sort_indices(ids).to_numpy()):
            problems.add("row_altered", BY_ID, "another order", "that of chunk ids")
    except (AlmanacError, OSError, ValueError, EOFError, pa.ArrowException) as error:
        problems.add("unreadable", ROWS, error.message if isinstance(error, AlmanacError) else error)


def _check_same(mapped: pa.Table, rows: pa.Table, problems: ProblemCollector) -> None:
    if mapped.equals(rows):
        return
    for stored, wanted in zip(mapped.to_pylist(), rows.to_pylist(), strict=True):
        for name in COLUMNS:
            if stored[name] != wanted[name]:
                problems.add("row_altered", f"{ROWS}: {wanted['chunk_id']}: {name}", stored[name], wanted[name])


def check_matrix(version_dir: Path, table: pa.Table, expected: Expected, problems: ProblemCollector) -> None:
    """Compares the matrix with the stored vectors.

    Args:
        version_dir: Directory of the version.
        table: Chunk ids of all rows, in the order of chunks.parquet.
        expected: The stored vectors.
        problems: Collects the problems.
    """
    ids, dimension = table.column("chunk_id"), expected.at(slice(0, 0)).shape[1]
    try:
        matrix = open_matrix(version_dir, table.num_rows, dimension)
    except DamagedVersion as error:
        problems.add("unreadable", MATRIX, error.message)
        return
    for begin in range(0, table.num_rows, _BATCH):
        for row, cosine in unlike(expected.at(slice(begin, begin + _BATCH)), matrix[begin : begin + _BATCH]):
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
