"""Verification of the rows that readers map into memory (`rows.arrow`, `by_id.npy`) against the chunks table that they
are copied from.
"""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from almanac.core.mapped import load_array
from almanac.core.tables import CHUNKS, read_batches
from almanac.index.segments.rows import BY_ID, COLUMNS, ROWS, ROWS_SCHEMA
from almanac.index.verify.problem_collector import ProblemCollector
from almanac.schemas.errors import AlmanacError

_BATCH = 2000  # rows


def check_mapped_rows(version_dir: Path, table: pa.Table, some: pa.Table | None, problems: ProblemCollector) -> None:
    """Compares the mapped rows with the chunks table in `version_dir`, and their order by id.

    Args:
        version_dir: Directory of the version or segment.
        table: Chunk ids of all rows, in the order of chunks.parquet.
        some: Rows of the chunks table to compare in full; None compares all.
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
            problems.add(
                "row_altered",
                f"{ROWS}: chunk ids",
                f"{mapped.num_rows} rows",
                f"the {len(ids)} of {CHUNKS}, in its order",
            )
            return
        for numbers, rows in _compared(version_dir, ids, some):
            _check_same(
                mapped.slice(numbers[0], len(numbers)) if some is None else mapped.take(pa.array(numbers)),
                rows,
                problems,
            )
        _check_order(version_dir, ids, problems)
    except (AlmanacError, OSError, ValueError, EOFError, pa.ArrowException) as error:
        problems.add("unreadable", ROWS, error.message if isinstance(error, AlmanacError) else error)


def _compared(version_dir: Path, ids: pa.ChunkedArray, some: pa.Table | None) -> Iterator[tuple[list[int], pa.Table]]:
    """Yields the rows to compare with their numbers, in batches."""
    if some is None:
        begin = 0
        for batch in read_batches(version_dir / CHUNKS, COLUMNS, rows=_BATCH):
            yield list(range(begin, begin + batch.num_rows)), batch.select(COLUMNS).cast(ROWS_SCHEMA)
            begin += batch.num_rows
        return
    for begin in range(0, some.num_rows, _BATCH):
        batch = some.slice(begin, _BATCH).select(COLUMNS).cast(ROWS_SCHEMA)
        yield pc.index_in(batch.column("chunk_id"), value_set=ids.combine_chunks()).to_pylist(), batch


def _check_same(mapped: pa.Table, rows: pa.Table, problems: ProblemCollector) -> None:
    if mapped.equals(rows):
        return
    for found, wanted in zip(mapped.to_pylist(), rows.to_pylist(), strict=True):
        for name in COLUMNS:
            if found[name] != wanted[name]:
                problems.add("row_altered", f"{ROWS}: {wanted['chunk_id']}: {name}", found[name], wanted[name])


def _check_order(version_dir: Path, ids: pa.ChunkedArray, problems: ProblemCollector) -> None:
    order = load_array(version_dir / BY_ID)
    wanted = pc.sort_indices(ids).to_numpy()
    if order.shape != wanted.shape or not bool((order == wanted).all()):
        problems.add("row_altered", BY_ID, "another order", "that of chunk ids")
