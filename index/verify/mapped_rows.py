"""Verification of the rows that readers map into memory (`rows.arrow`, `by_id.npy`) against the chunks table that they
are copied from.
"""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from almanac.core.mapped import load_array
from almanac.core.tables import CHUNKS, read_batches
from almanac.index.segments.segment_rows import BY_ID, COLUMNS, ROWS, ROWS_SCHEMA
from almanac.index.verify.problem_collector import ProblemCollector
from almanac.schemas.errors import AlmanacError

_BATCH = 2000  # rows


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
            problems.add(
                "row_altered",
                f"{ROWS}: chunk ids",
                f"{mapped.num_rows} rows",
                f"the {len(ids)} of {CHUNKS}, in its order",
            )
            return
        begin = 0
        for batch in read_batches(version_dir / CHUNKS, COLUMNS, rows=_BATCH):
            rows = batch.select(COLUMNS).cast(ROWS_SCHEMA)
            _check_same(mapped.slice(begin, len(rows)), rows, problems)
            begin += len(rows)
        _check_order(version_dir, ids, problems)
    except (AlmanacError, OSError, ValueError, EOFError, pa.ArrowException) as error:
        problems.add("unreadable", ROWS, error.message if isinstance(error, AlmanacError) else error)


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
