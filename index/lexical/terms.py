"""The terms of each row of a lexical index, kept beside it: written by the builder, mapped into memory to read single
rows.

`terms.arrow` is an uncompressed Arrow IPC file with the terms of each row of chunks.parquet, in its order, joined by
spaces; `folded` is null where the language has no such terms, and `language` is the one that the row was analyzed for.
Every batch but the last has 2,000 rows, so that a row's place follows from its number.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from almanac.core.mapped import bytes_of, map_file, map_pages_in_memory, read_ahead, read_around, read_singly
from almanac.index.vectors.keys import RowNumbers
from almanac.schemas.errors import DamagedVersion, storage_error

BODY, FOLDED = "body", "folded"
FIELDS = (BODY, FOLDED)
LANGUAGE = "language"
TERMS = "terms.arrow"
REBUILD = "almanac rebuild KB VERSION makes it anew; almanac rollback KB serves an older version"
BATCH = 2000  # rows

TERMS_SCHEMA = pa.schema([(name, pa.large_string()) for name in (*FIELDS, LANGUAGE)])
Terms = tuple[str, str | None]  # of a row, for each field


class TermsWriter:
    """Writes the terms of rows; a context manager. `rows`, `languages`, `terms` and `longest` are those of
    `LexicalFacts`.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self._writer = pa.ipc.new_file(self._file, TERMS_SCHEMA)
        self._waiting: list[tuple[str, str | None, str]] = []
        self.rows = 0
        self.languages = Counter[str]()
        self.terms = dict.fromkeys(FIELDS, 0)
        self.longest = dict.fromkeys(FIELDS, 0)

    def add(self, rows: Sequence[Terms], languages: Sequence[str]) -> None:
        """Appends rows and the language of each. Terms are separated by exactly one space."""
        self._waiting += [(*row, language) for row, language in zip(rows, languages, strict=True)]
        self.languages.update(languages)
        self.rows += len(rows)
        for number, name in enumerate(FIELDS):
            counts = [text.count(" ") + 1 for row in rows if (text := row[number])]
            self.terms[name] += sum(counts)
            self.longest[name] = max(self.longest[name], *counts, 0)
        while len(self._waiting) >= BATCH:
            self._write(BATCH)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._file:
            if kind is None and self._waiting:
                self._write(len(self._waiting))
            self._writer.close()

    def _write(self, count: int) -> None:
        columns = [
            pa.array([row[number] for row in self._waiting[:count]], pa.large_string())
            for number in range(len(TERMS_SCHEMA))
        ]
        self._writer.write_batch(pa.record_batch(columns, schema=TERMS_SCHEMA))
        del self._waiting[:count]


class _Column(NamedTuple):
    """A field's texts in one batch: text n is `data[starts[n]:starts[n + 1]]`."""

    starts: memoryview  # of int64
    data: memoryview


class TermsFile:
    """The terms of rows by their numbers, memory-mapped: opening reads a few hundred bytes, and a row its own pages.
    Safe to share among threads.
    """

    def __init__(self, path: Path, rows: int) -> None:
        """Opens the file of an index of `rows` rows. Raises DamagedVersion where it is missing, truncated, or has
        another number of batches.
        """
        self._path, self.rows = path, rows
        with as_damaged_terms(path):
            self._whole = map_file(path)
            read_singly(self._whole)
            self._reader = pa.ipc.open_file(pa.py_buffer(self._whole))
            if not self._reader.schema.equals(TERMS_SCHEMA):
                raise ValueError("it has other columns")
            if self._reader.num_record_batches != -(-rows // BATCH):
                raise ValueError(f"it does not have {rows} rows")
        self._columns: dict[tuple[int, str], _Column] = {}

    def texts(self, name: str, rows: RowNumbers) -> list[memoryview]:
        """Returns the UTF-8 terms of rows, separated by spaces, in the order of `rows`. Raises DamagedVersion for a row
        that the file does not have.
        """
        found: list[memoryview] = []
        with as_damaged_terms(self._path):
            for number in rows.tolist():
                batch, row = divmod(number, BATCH)
                column = self._columns.get((batch, name)) or self._column(batch, name)
                found.append(column.data[column.starts[row] : column.starts[row + 1]])
        return found

    def read_around(self) -> None:
        """Has the system read what lies around each page that is asked for, and no longer each by itself
        (`core.mapped`).
        """
        read_around(self._whole)

    def map_pages(self) -> None:
        """Maps the file's pages that are in memory (`core.mapped`), and finds where each batch has its texts."""
        with as_damaged_terms(self._path):
            for number in range(self._reader.num_record_batches):
                self._column(number, BODY)
            map_pages_in_memory(self._path, self._whole)

    def batches(self, rows: RowNumbers) -> Iterator[tuple[RowNumbers, pa.RecordBatch]]:
        """Yields the given rows, which are ascending, as (row numbers, terms): one batch of at most 2,000 rows for each
        batch of the file that has any.
        """
        with as_damaged_terms(self._path):
            bounds = np.flatnonzero(np.diff(rows // BATCH)) + 1
            for numbers in np.split(rows, bounds) if len(rows) else ():
                batch = self._batch(int(numbers[0]) // BATCH)
                read_ahead(*bytes_of(batch))
                batch.validate(full=True)  # else wrong offsets would have Arrow read beside the file
                yield numbers, batch.take(pa.array(numbers % BATCH))

    def _column(self, number: int, name: str) -> _Column:
        """Reads a batch's column as views that check bounds: whatever a damaged file says, nothing is read outside of
        it.
        """
        array = self._batch(number).column(FIELDS.index(name))
        _, starts, data = array.buffers()
        text = memoryview(data or b"").cast("B")  # Arrow's bytes are signed: beyond ASCII, they equal no other bytes
        column = _Column(np.frombuffer(starts, np.int64, len(array) + 1).data, text)
        self._columns[number, name] = column
        return column

    def _batch(self, number: int) -> pa.RecordBatch:
        batch = self._reader.get_batch(number)
        if len(batch) != min(BATCH, self.rows - number * BATCH):
            raise ValueError(f"batch {number} does not have its rows")
        return batch


@contextmanager
def as_damaged_terms(path: Path) -> Iterator[None]:
    """Converts errors about a damaged Arrow file into DamagedVersion."""
    try:
        yield
    except PermissionError as error:
        raise storage_error(error, path) from error
    except (pa.ArrowException, OSError, ValueError, IndexError, KeyError) as error:
        raise DamagedVersion(
            f"{path.name} of the lexical index cannot be read: {error}", where=str(path), hint=REBUILD
        ) from error


_MASKS = np.array([(1 << 8 * length) - 1 for length in range(9)], np.uint64)


def prefixes_of(
    data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint64]:
    """Returns the first eight bytes of UTF-8 terms as numbers that order like the terms; shorter terms are padded with
    zeros.

    Eight bytes of `data` have to follow each start.
    """
    at_each_byte = np.ndarray((max(len(data) - 7, 0),), np.dtype("<u8"), buffer=data, strides=(1,))
    found: npt.NDArray[np.uint64] = (at_each_byte[starts].astype(np.uint64) & _MASKS[np.minimum(lengths, 8)]).byteswap()
    return found


def prefix_of(term: bytes) -> int:
    """Returns the first eight bytes of one term, as `prefixes_of` does."""
    return int.from_bytes(term[:8].ljust(8, b"\0"), "big")
