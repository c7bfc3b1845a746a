"""Statistics of the deleted rows of a segment, which BM25 leaves out: number of rows, number of terms, and for each
term the deleted rows that contain it.

An uncompressed Arrow IPC file of one batch, ordered by field and by the bytes of terms, mapped into memory and searched
by bisection.
"""

import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from almanac.core.durable import write_file
from almanac.index.lexical.terms import FIELDS, LANGUAGE, TermsFile, as_damaged_terms, prefix_of, prefixes_of
from almanac.index.vectors.keys import RowNumbers
from almanac.schemas.errors import DamagedVersion

# metadata of the schema: JSON of `rows`, `languages` (rows of each), and `terms` and `entries` of each field
_FACTS = b"facts"
_SCHEMA = pa.schema([("prefix", pa.uint64()), ("term", pa.large_string()), ("rows", pa.int64())])
_AT_A_TIME = 10_000  # rows in memory


class WantedTerms(NamedTuple):
    """Terms whose counts are asked of several segments."""

    encoded: list[bytes]
    prefixes: npt.NDArray[np.uint64]

    @classmethod
    def of(cls, terms: Sequence[str]) -> Self:
        encoded = [term.encode() for term in terms]
        return cls(encoded, np.array([prefix_of(term) for term in encoded], np.uint64))


class DeletedTerms:
    """The statistics of a segment's deleted rows, opened for reading. Safe to share among threads."""

    def __init__(self, path: Path) -> None:
        """Opens the file. Raises DamagedVersion where it is missing or cannot be read."""
        self._path = path
        with as_damaged_terms(path):
            reader = pa.ipc.open_file(pa.memory_map(str(path)))
            facts = json.loads((reader.schema.metadata or {})[_FACTS])
            if not reader.schema.remove_metadata().equals(_SCHEMA):
                raise ValueError("it has other columns")
            self.rows = int(facts["rows"])
            self.languages = Counter[str](facts["languages"])  # language → number of rows
            self.terms = {name: int(facts["terms"][name]) for name in FIELDS}
            first, all_ = int(facts["entries"][FIELDS[0]]), sum(int(facts["entries"][name]) for name in FIELDS)
            self._spans = {FIELDS[0]: (0, first), FIELDS[1]: (first, all_)}
            self._batch = reader.get_batch(0)
            if len(self._batch) != all_:
                raise ValueError(f"it does not have {all_} entries")
            prefix, term, rows = (column.buffers() for column in self._batch.columns)
            self._prefixes, self._counts = (
                np.frombuffer(prefix[1], np.uint64, all_),
                np.frombuffer(rows[1], np.int64, all_),
            )
            self._starts, self._text = np.frombuffer(term[1], np.int64, all_ + 1), memoryview(term[2] or b"")

    def counts(self, name: str, terms: WantedTerms) -> list[int]:
        """Returns for each term in how many deleted rows it occurs."""
        begin, end = self._spans[name]
        prefixes = self._prefixes[begin:end]
        firsts, lasts = (prefixes.searchsorted(terms.prefixes, side).tolist() for side in ("left", "right"))
        found = zip(terms.encoded, firsts, lasts, strict=True)
        return [self._count(term, begin + first, begin + last) if first < last else 0 for term, first, last in found]

    def table(self, name: str) -> pa.Table:
        """Returns all entries of a field: columns `term` and `rows`. Raises DamagedVersion where they are no texts."""
        with as_damaged_terms(self._path):
            self._batch.validate(full=True)
            begin, end = self._spans[name]
            return pa.Table.from_batches([self._batch.slice(begin, end - begin)]).select(["term", "rows"])

    def _count(self, term: bytes, first: int, last: int) -> int:
        """Looks a term up among the entries that share its first eight bytes."""
        place = bisect_left(range(last), term, lo=first, key=self._term)
        return int(self._counts[place]) if place < last and self._term(place) == term else 0

    def _term(self, place: int) -> bytes:
        return bytes(self._text[self._starts[place] : self._starts[place + 1]])


def write_deleted_terms(
    path: Path, terms: TermsFile, rows: RowNumbers, known: Path | None = None, known_rows: RowNumbers | None = None
) -> None:
    """Writes the statistics of deleted rows, atomically.

    Args:
        path: The file to write.
        terms: The terms of the segment's rows.
        rows: Numbers of all deleted rows of the segment, ascending, without repetition.
        known: Statistics of some of these rows, as of an earlier version, which then need not be read.
        known_rows: The numbers of those rows, ascending. Where one of them is not deleted any more, all rows are read.

    Raises DamagedVersion where the terms or the known statistics cannot be read.
    """
    before = None
    if known is not None and known_rows is not None and np.isin(known_rows, rows, assume_unique=True).all():
        before = DeletedTerms(known)
        if before.rows != len(known_rows):
            found = f"{known.name} counts {before.rows} deleted rows instead of {len(known_rows)}"
            raise DamagedVersion(found, where=str(known), hint="almanac verify KB says what is wrong")
        new = np.setdiff1d(rows, known_rows, assume_unique=True)
    else:
        new = rows
    languages = Counter[str](before.languages if before else {})
    totals = dict(before.terms) if before else dict.fromkeys(FIELDS, 0)
    tables_of: dict[str, list[pa.Table]] = {name: [before.table(name)] if before else [] for name in FIELDS}
    for batch in _joined(terms, new):
        languages.update({one["values"]: one["counts"] for one in pc.value_counts(batch.column(LANGUAGE)).to_pylist()})
        for name in FIELDS:
            counted, total = _counted(batch.column(name))
            tables_of[name].append(counted)
            totals[name] += total
    tables = [_sorted(tables_of[name]) for name in FIELDS]
    entries = {name: len(table) for name, table in zip(FIELDS, tables, strict=True)}
    facts = {"rows": len(rows), "languages": dict(sorted(languages.items())), "terms": totals, "entries": entries}
    table = pa.concat_tables(tables).combine_chunks()
    columns = [pa.array([], column.type) if not len(table) else column.chunk(0) for column in table.columns]
    schema = _SCHEMA.with_metadata({_FACTS: json.dumps(facts)})

    def write(file: object) -> None:
        with pa.ipc.new_file(file, schema) as writer:
            writer.write_batch(pa.record_batch(columns, schema=schema))

    write_file(path, write)


def _joined(terms: TermsFile, rows: RowNumbers) -> Iterator[pa.RecordBatch]:
    """Yields the terms of rows, some 10,000 rows at a time."""
    waiting: list[pa.RecordBatch] = []
    for _, batch in terms.batches(rows):
        waiting.append(batch)
        if sum(map(len, waiting)) >= _AT_A_TIME:
            yield pa.concat_batches(waiting)
            waiting = []
    if waiting:
        yield pa.concat_batches(waiting)


def _counted(texts: pa.LargeStringArray) -> tuple[pa.Table, int]:
    """Returns for each term in how many texts it occurs, as columns `term` and `rows`, and the number of all terms."""
    lists = pc.split_pattern(pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.large_string()), texts), " ")
    encoded = lists.flatten().dictionary_encode()
    codes = encoded.indices.to_numpy().astype(np.int64)
    pairs = np.unique(
        pc.list_parent_indices(lists).to_numpy().astype(np.int64) * max(len(encoded.dictionary), 1) + codes
    )
    rows = np.bincount(pairs % max(len(encoded.dictionary), 1), minlength=len(encoded.dictionary))
    return pa.table({"term": encoded.dictionary, "rows": rows.astype(np.int64)}), len(codes)


def _sorted(tables: Sequence[pa.Table]) -> pa.Table:
    """Adds up what several tables count, ordered by the bytes of terms, with the terms' first eight bytes."""
    none = pa.table({"term": pa.array([], pa.large_string()), "rows": pa.array([], pa.int64())})
    table = (
        pa.concat_tables([none, *tables]).group_by("term").aggregate([("rows", "sum")]).sort_by("term").combine_chunks()
    )
    terms = table.column("term").combine_chunks()
    terms = (
        terms
        if isinstance(terms, pa.Array)
        else terms.chunk(0)
        if terms.num_chunks
        else pa.array([], pa.large_string())
    )
    return pa.table([_prefixes(terms), terms, table.column("rows_sum")], schema=_SCHEMA)


def _prefixes(terms: pa.LargeStringArray) -> npt.NDArray[np.uint64]:
    _, offsets, text = terms.buffers()
    starts = np.frombuffer(offsets, np.int64)[terms.offset : terms.offset + len(terms) + 1]
    data = np.frombuffer(bytes(text or b"") + bytes(8), np.uint8)
    return prefixes_of(data, starts[:-1], np.diff(starts))
