"""`rows.arrow` and `by_id.npy`: the rows of a segment as they are read for an answer, mapped into memory and not
loaded.

`rows.arrow` has the columns of chunks.parquet but `embedded_text`, uncompressed, in the order of its rows. `by_id.npy`
has the row numbers, int32, in the order of chunk ids, so that a row is found by bisection.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from almanac.core.mapped import (
    bytes_of,
    load_array,
    map_file,
    read_ahead,
    read_around,
    read_singly,
)
from almanac.core.tables import CHUNK_SCHEMA, CHUNKS, read_batches
from almanac.core.verified import as_damaged
from almanac.index.vectors.keys import RowNumbers

ROWS = "rows.arrow"
BY_ID = "by_id.npy"
ID_LENGTH = 32  # hex digits of a chunk id
_MISSING = -1
_BATCH = 64 << 20  # bytes of texts in one record batch, which is held in memory while it is written
_READ = 2000  # rows read at a time
_MOST = 16  # one row in so many is asked for: then most pages are
_WORDS = ID_LENGTH // 8
ROWS_SCHEMA = pa.schema(
    [
        (field.name, pa.large_string() if pa.types.is_string(field.type) else field.type)
        for field in CHUNK_SCHEMA
        if field.name != "embedded_text"
    ]
)
COLUMNS = tuple(ROWS_SCHEMA.names)
_Ids = npt.NDArray[np.bytes_]


def write_rows(folder: Path) -> None:
    """Writes both files from the chunks table in `folder`, with one batch of it in memory. Raises as `read_batches`."""
    ids: list[_Ids] = []
    with pa.OSFile(str(folder / ROWS), "wb") as file, pa.ipc.new_file(file, ROWS_SCHEMA) as writer:
        for batch in _batches(folder / CHUNKS):
            writer.write_batch(batch)
            ids.append(_fixed(batch.column(0)))
    order = np.argsort(np.concatenate([np.zeros(0, dtype=f"S{ID_LENGTH}"), *ids]), kind="stable")
    np.save(folder / BY_ID, order.astype(np.int32))


def _fixed(ids: pa.LargeStringArray) -> _Ids:
    """Chunk ids as bytes of one length. Raises ArrowInvalid where one has another length."""
    fixed = ids.cast(pa.large_binary()).cast(pa.binary(ID_LENGTH))
    return np.frombuffer(fixed.buffers()[1], dtype=f"S{ID_LENGTH}", count=len(ids))


def _batches(chunks: Path) -> Iterator[pa.RecordBatch]:
    waiting: list[pa.Table] = []
    for batch in read_batches(chunks, ROWS_SCHEMA.names, rows=_READ):
        waiting.append(batch.select(ROWS_SCHEMA.names).cast(ROWS_SCHEMA))
        if sum(part.nbytes for part in waiting) >= _BATCH:
            yield _joined(waiting)
            waiting = []
    if waiting:
        yield _joined(waiting)


def _joined(parts: Sequence[pa.Table]) -> pa.RecordBatch:
    [batch] = pa.concat_tables(parts).combine_chunks().to_batches()
    return batch


class MappedRows:
    """The rows of a segment, mapped. Safe to share among threads.

    Args:
        folder: Folder of the segment, whose files are known to be whole.
        count: Number of rows that it must have.

    Raises DamagedVersion where a file is missing, cannot be read, or does not fit the other.
    """

    def __init__(self, folder: Path, count: int) -> None:
        with as_damaged("the rows", folder / ROWS):
            whole = map_file(folder / ROWS)
            read_singly(whole)
            reader = pa.ipc.open_file(pa.py_buffer(whole))
            self._batches = [reader.get_batch(number) for number in range(reader.num_record_batches)]
            self._by_id: npt.NDArray[np.int32] = load_array(folder / BY_ID, mapped=count > 0)
            self._starts = np.cumsum([0, *(len(batch) for batch in self._batches)], dtype=np.int64)
            if (
                reader.schema != ROWS_SCHEMA
                or self._starts[-1] != count
                or self._by_id.shape != (count,)
                or self._by_id.dtype != np.int32
            ):
                raise ValueError(f"not the {count} rows of the segment")
            self._place_ids(whole)

    def _place_ids(self, whole: npt.NDArray[np.uint8]) -> None:
        """Finds out where in the file the ids of each batch begin, in words of 8 bytes, to which Arrow aligns them."""
        self._words = whole[: len(whole) // 8 * 8].view(np.uint64)
        begin = whole.ctypes.data
        self._first_word = np.zeros(len(self._batches), dtype=np.int64)
        for number, batch in enumerate(self._batches):
            _, ends, texts = batch.column(0).buffers()
            if (
                np.frombuffer(ends, dtype=np.int64, count=len(batch) + 1)[[0, -1]].tolist()
                != [0, ID_LENGTH * len(batch)]
                or (texts.address - begin) % 8
            ):
                raise ValueError("an id is no chunk id")
            self._first_word[number] = (texts.address - begin) // 8

    def __len__(self) -> int:
        return len(self._by_id)

    @property
    def by_id(self) -> npt.NDArray[np.int32]:
        """All row numbers, int32 (n,), in the order of chunk ids."""
        return self._by_id

    def ids(self, rows: RowNumbers) -> list[str]:
        """Returns the chunk ids of rows, in their order."""
        return [chunk_id.decode() for chunk_id in self._ids(rows).tolist()]

    def _ids(self, rows: RowNumbers) -> _Ids:
        numbers = np.searchsorted(self._starts, rows, side="right") - 1
        places = self._first_word[numbers] + _WORDS * (rows - self._starts[numbers])
        ids: _Ids = self._words[places[:, None] + np.arange(_WORDS)].view(f"S{ID_LENGTH}")[:, 0]
        return ids

    def find(self, ids: _Ids) -> RowNumbers:
        """Returns the row number of each chunk id, int64 (n,), -1 for one that the segment has not. `ids` are bytes of
        32 hex digits each.
        """
        numbers = np.full(len(ids), _MISSING, dtype=np.int64)
        if not len(self) or not len(ids):
            return numbers
        wanted = _beginnings(np.ascontiguousarray(ids).view(np.uint64)[::_WORDS])
        places = np.searchsorted(self._begin_of_id, wanted)
        left = np.arange(len(ids))
        while len(left := left[places[left] < len(self)]) and len(
            left := left[self._begin_of_id[places[left]] == wanted[left]]
        ):
            rows = self._by_id[places[left]].astype(np.int64)
            is_same = self._ids(rows) == ids[left]
            numbers[left[is_same]] = rows[is_same]
            left = left[~is_same]  # another id may begin alike
            places[left] += 1
        return numbers

    @cached_property
    def _begin_of_id(self) -> npt.NDArray[np.uint64]:
        """The first eight digits of each id, as a number, in the order of ids: NumPy bisects these a hundred times as
        quickly as ids.
        """
        places = zip(self._first_word.tolist(), self._batches, strict=True)
        read_ahead(self._by_id, *(self._words[first : first + _WORDS * len(batch)] for first, batch in places))
        numbers = np.searchsorted(self._starts, self._by_id, side="right") - 1
        return _beginnings(self._words[self._first_word[numbers] + _WORDS * (self._by_id - self._starts[numbers])])

    def read_around(self) -> None:
        """Has the system read what lies around each page that is asked for, and no longer each by itself
        (`core.mapped`).
        """
        read_around(self._words)

    def rows_where(self, name: str, value: str) -> RowNumbers:
        """Returns the rows that have a value in a column of texts, int64, ascending: of a million, in some 5 ms."""
        columns = zip(self._starts.tolist(), (batch.column(name) for batch in self._batches), strict=False)
        rows = [begin + np.flatnonzero(pc.equal(column, value)) for begin, column in columns]
        return np.concatenate([np.zeros(0, dtype=np.int64), *rows])

    def rows(self, numbers: RowNumbers, names: Sequence[str]) -> list[dict[str, Any]]:
        """Returns columns of some rows, in the order of their numbers."""
        rows: list[dict[str, Any]] = [{}] * len(numbers)
        parts = np.searchsorted(self._starts, numbers, side="right") - 1
        for part in np.unique(parts).tolist():
            places = np.flatnonzero(parts == part)
            taken = self._batches[part].select(list(names)).take(pa.array(numbers[places] - self._starts[part]))
            for place, row in zip(places.tolist(), taken.to_pylist(), strict=True):
                rows[place] = row
        return rows

    def batches(self, names: Sequence[str], chosen: npt.NDArray[np.bool_] | None = None) -> Iterator[pa.RecordBatch]:
        """Yields columns of the rows of a mask, bool (n,), or of all, in order. Batches of which all rows are chosen
        are not copied.
        """
        for number, batch in enumerate(self._batches):
            columns = batch.select(list(names))
            mask = None if chosen is None else chosen[self._starts[number] : self._starts[number + 1]]
            if mask is None or _MOST * np.count_nonzero(mask) > len(mask):
                read_ahead(*bytes_of(columns))
            yield columns if mask is None or mask.all() else columns.filter(pa.array(mask))


def _beginnings(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Words of eight characters, as they lie in memory, as numbers of the same order."""
    return words.view(">u8").astype(np.uint64)
