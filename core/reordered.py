"""Puts the rows of a table that is larger than memory into another order: sorted runs, merged from a memory-mapped
file.
"""

import mmap
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_RUN_BYTES = 32 << 20  # of a sorted run
_BYTES_IN_MEMORY = 64 << 20  # a smaller table needs no file

Places = npt.NDArray[np.int64]


def reordered(
    batches: Iterable[tuple[pa.Table, Places]], total: int, rows: int, *, scratch: Path | None = None
) -> Iterator[pa.Table]:
    """Yields the rows of `batches` in another order, `rows` at a time; the last table may have fewer.

    Memory: a run of 32 MB while the batches are read, then `rows` rows. What exceeds 64 MB lies in a file without a
    name meanwhile.

    Args:
        batches: tables of one schema, each with the new place of each of its rows, int64 (n,): every number below
            `total` once, -1 for rows to leave out.
        total: number of rows that are not left out.
        rows: rows in a yielded table.
        scratch: folder of the file; None is that of the system's temporary files.
    """
    runs = _Runs(scratch)
    with runs:
        for table, places in batches:
            runs.add(table, places)
        for begin in range(0, total, rows):
            yield runs.slice(begin, min(begin + rows, total))


class _Runs:
    """Runs of rows, each sorted by place: the first in memory, all others in a file."""

    def __init__(self, scratch: Path | None) -> None:
        self._scratch = scratch
        self._waiting: list[tuple[pa.Table, Places]] = []
        self._waiting_bytes = self._bytes = 0
        self._tables: list[pa.Table] = []
        self._places: list[Places] = []
        self._file: IO[bytes] | None = None
        self._writer: pa.RecordBatchFileWriter | None = None
        self._mapped: mmap.mmap | None = None
        self._read = 0  # bytes since pages of the file were let go
        self._is_open = False

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        self._tables.clear()
        if self._file is not None:
            self._file.close()

    def add(self, table: pa.Table, places: Places) -> None:
        kept = np.flatnonzero(places >= 0)
        if not len(kept):
            return
        self._waiting.append((table if len(kept) == len(places) else table.take(pa.array(kept)), places[kept]))
        self._waiting_bytes += self._waiting[-1][0].nbytes
        if self._waiting_bytes >= _RUN_BYTES:
            self._end_run()

    def slice(self, begin: int, end: int) -> pa.Table:
        """The rows with these places, in order."""
        self._settle()
        found, places = [], []
        for table, its_places in zip(self._tables, self._places, strict=True):
            first, last = np.searchsorted(its_places, [begin, end])
            if last > first:
                found.append(table.slice(first, last - first))
                places.append(its_places[first:last])
        rows = pa.concat_tables(found).combine_chunks().take(pa.array(np.argsort(np.concatenate(places))))
        self._read += rows.nbytes
        if self._mapped is not None and self._read > _RUN_BYTES:
            # what was read stays in the system's cache, and no longer counts as this process's memory
            self._mapped.madvise(mmap.MADV_DONTNEED)
            self._read = 0
        return rows

    def _end_run(self) -> None:
        if not self._waiting:
            return
        places = np.concatenate([one for _, one in self._waiting])
        order = np.argsort(places)
        run = (
            _with_long_offsets(pa.concat_tables([table for table, _ in self._waiting]))
            .combine_chunks()
            .take(pa.array(order))
        )
        self._waiting, self._waiting_bytes = [], 0
        self._places.append(places[order])
        self._bytes += run.nbytes
        if self._bytes <= _BYTES_IN_MEMORY:
            self._tables.append(run)
            return
        if self._writer is None:
            self._file = tempfile.TemporaryFile(dir=self._scratch)  # noqa: SIM115  # closed by `__exit__`
            self._writer = pa.ipc.new_file(pa.PythonFile(self._file, mode="w"), run.schema)
        self._writer.write_table(run, max_chunksize=len(run))

    def _settle(self) -> None:
        """Ends the last run, and maps the file."""
        if self._is_open:
            return
        self._is_open = True
        self._end_run()
        if self._writer is not None and self._file is not None:
            self._writer.close()
            self._file.flush()
            self._mapped = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
            reader = pa.ipc.open_file(pa.BufferReader(pa.py_buffer(self._mapped)))
            self._tables += [
                pa.Table.from_batches([reader.get_batch(number)]) for number in range(reader.num_record_batches)
            ]


def _with_long_offsets(table: pa.Table) -> pa.Table:
    """The table with large strings: a run of long texts may exceed the 2 GiB that 32-bit offsets can address."""
    fields = [pa.field(field.name, pa.large_string()) if field.type == pa.string() else field for field in table.schema]
    return table.cast(pa.schema(fields))
