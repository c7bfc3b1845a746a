"""Reads selected rows of a chunks table, with only these rows and one batch of the table in memory."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from almanac.core.tables import open_table

_BATCH = 10_000


class ChunkRows:
    """The rows of a Parquet table with the given row numbers, in the order of `numbers`; only `columns` are read."""

    def __init__(self, path: Path, numbers: npt.NDArray[np.int64], columns: Sequence[str]) -> None:
        in_file_order = np.sort(numbers)
        self._places = np.searchsorted(in_file_order, numbers)
        self._table = _read(path, in_file_order, columns)

    def __len__(self) -> int:
        return len(self._places)

    def slice(self, begin: int, end: int) -> pa.Table:
        """Returns the rows at positions `begin` to `end` of `numbers`, end excluded."""
        return self._table.take(pa.array(self._places[begin:end]))


def _read(path: Path, numbers: npt.NDArray[np.int64], columns: Sequence[str]) -> pa.Table:
    batches, begin = [], 0
    with open_table(path) as file:
        schema = pa.schema([file.schema_arrow.field(name) for name in columns])
        for batch in file.iter_batches(batch_size=_BATCH, columns=list(columns)):
            first, last = np.searchsorted(numbers, [begin, begin + len(batch)])
            if last > first:
                batches.append(batch.select(list(columns)).take(pa.array(numbers[first:last] - begin)))
            begin += len(batch)
    # otherwise each `take` would combine them again
    return pa.Table.from_batches(batches, schema=schema).combine_chunks()
