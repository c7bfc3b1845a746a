"""Some rows of a chunks table: what is held is what was asked for, and one batch of the others."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

_BATCH = 10_000


class ChunkRows:
    """Rows of a table by number, in the order of `numbers`."""

    def __init__(self, path: Path, numbers: npt.NDArray[np.int64], columns: Sequence[str]) -> None:
        in_file_order = np.sort(numbers)
        self._places = np.searchsorted(in_file_order, numbers)
        self._table = _read(path, in_file_order, columns)

    def __len__(self) -> int:
        return len(self._places)

    def slice(self, begin: int, end: int) -> pa.Table:
        """Those from `begin` to `end`, of all that were asked for."""
        return self._table.take(pa.array(self._places[begin:end]))


def _read(path: Path, numbers: npt.NDArray[np.int64], columns: Sequence[str]) -> pa.Table:
    batches, begin = [], 0
    with pq.ParquetFile(path) as file:
        schema = pa.schema([file.schema_arrow.field(name) for name in columns])
        for batch in file.iter_batches(batch_size=_BATCH, columns=list(columns)):
            first, last = np.searchsorted(numbers, [begin, begin + len(batch)])
            if last > first:
                batches.append(batch.select(list(columns)).take(pa.array(numbers[first:last] - begin)))
            begin += len(batch)
    return pa.Table.from_batches(batches, schema=schema).combine_chunks()  # else each `take` joins them anew
