"""The tables of a version, whether it is one segment or consists of several: the rows of all of them, in order, without
the deleted ones.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from almanac.core.logs import get_logger
from almanac.core.tables import CHUNKS, DOCUMENTS, RECORDS, Batches, read_batches, read_table, rows_in, text_lengths
from almanac.index.segments.deleted import deleted_rows
from almanac.index.segments.segment_store import read_segment, segment_dir
from almanac.index.vectors.keys import RowNumbers
from almanac.schemas.errors import DamagedVersion
from almanac.schemas.manifest import Manifest, Outline, Sealed

_log = get_logger("almanac.segments")


@dataclass(frozen=True)
class TablePart:
    """A Parquet table of a segment, and its rows that are not part of the version, ascending. `segment` is None where
    the version is its own segment.
    """

    path: Path
    segment: str | None
    without: RowNumbers

    def batches(self, columns: Sequence[str] | None = None, *, rows: int = 2000) -> Iterator[pa.Table]:
        """Yields the rows of the version in batches of at most `rows` rows. Raises as `read_batches`."""
        begin = 0
        for batch in read_batches(self.path, columns, rows=rows):
            yield _without(batch, begin, self.without)
            begin += batch.num_rows

    def read(self, columns: list[str] | None = None) -> pa.Table:
        """Returns columns of the rows of the version. Raises as `read_table`."""
        return _without(read_table(self.path, columns), 0, self.without)


@dataclass(frozen=True)
class StoredTables:
    """The tables of a version in `folder`, found by its manifest, of which the outline is enough: another release may
    have written it.

    Missing and damaged files raise DamagedVersion when they are read.
    """

    index_dir: Path
    folder: Path
    manifest: Manifest | Outline

    def parts(self, table: str) -> list[TablePart]:
        """Returns the parts of a table, in the order of rows; those that are not on disk are left out, as where a
        knowledge base has no such table.
        """
        if not self.manifest.segments:
            parts = [TablePart(self.folder / table, None, np.zeros(0, dtype=np.int64))]
        else:
            parts = [
                TablePart(
                    segment_dir(self.index_dir, use.segment) / table,
                    use.segment,
                    deleted_rows(self.folder, use.segment, table),
                )
                for use in self.manifest.segments
            ]
        return [part for part in parts if part.path.is_file() or not self._may_lack(table)]

    def _may_lack(self, table: str) -> bool:
        counts = self.manifest.counts
        return not {CHUNKS: counts.chunks, RECORDS: counts.records, DOCUMENTS: counts.documents}[table]

    def batches(self, table: str, columns: Sequence[str] | None = None, *, rows: int = 2000) -> Iterator[pa.Table]:
        """Yields the rows of a table in batches of at most `rows` rows."""
        for part in self.parts(table):
            yield from part.batches(columns, rows=rows)

    def batches_of(self, *tables: str, rows: int = 10_000) -> Batches:
        """Returns what reads these tables one after the other, in batches of at most `rows` rows."""

        def read(columns: Sequence[str] | None) -> Iterator[pa.Table]:
            for table in tables:
                yield from self.batches(table, columns, rows=rows)

        return read

    def read(self, table: str, columns: list[str]) -> pa.Table:
        """Returns columns of a table, in as many Arrow chunks as there are parts or more."""
        return pa.concat_tables([part.read(columns) for part in self.parts(table)])

    def text_lengths(self, table: str, rows: Collection[int]) -> dict[int, int]:
        """Row number → characters in the column `text`, for rows numbered as `batches` yields them. Raises as
        `core.tables.text_lengths`.
        """
        lengths: dict[int, int] = {}
        wanted, begin = np.array(sorted(rows), dtype=np.int64), 0
        for part in self.parts(table):
            live = np.setdiff1d(np.arange(rows_in(part.path), dtype=np.int64), part.without, assume_unique=True)
            here = wanted[(wanted >= begin) & (wanted < begin + len(live))]
            characters = text_lengths(part.path, live[here - begin].tolist()) if len(here) else {}
            lengths.update(zip(here.tolist(), (characters[row] for row in live[here - begin].tolist()), strict=True))
            begin += len(live)
        return lengths


@dataclass(frozen=True)
class VersionTables(StoredTables):
    """The tables of the version in `folder`. Missing and damaged files raise DamagedVersion when they are read."""

    manifest: Manifest

    @classmethod
    def in_folder(cls, folder: Path, manifest: Manifest) -> "VersionTables":
        """The tables of a version in its public folder, `<index_dir>/versions/<version>`."""
        return cls(folder.parent.parent, folder, manifest)

    def folders(self) -> list[tuple[Path, Sealed]]:
        """Returns the folders that hold the version's rows, with their manifests: its own, or those of its segments.
        Raises DamagedVersion if unreadable.
        """
        if not self.manifest.segments:
            return [(self.folder, self.manifest)]
        return [
            (segment_dir(self.index_dir, use.segment), read_segment(self.index_dir, use.segment))
            for use in self.manifest.segments
        ]

    def readable_folders(self) -> list[tuple[Path, Sealed]]:
        """As `folders`, without segments whose manifests cannot be read."""
        if not self.manifest.segments:
            return self.folders()
        folders: list[tuple[Path, Sealed]] = []
        for use in self.manifest.segments:
            try:
                folders.append((segment_dir(self.index_dir, use.segment), read_segment(self.index_dir, use.segment)))
            except DamagedVersion as error:
                _log.warning("a segment is damaged", segment=use.segment, error=error.message)
        return folders


def _without(batch: pa.Table, begin: int, without: RowNumbers) -> pa.Table:
    """The rows of a batch, whose first row has the number `begin`, that are not among the row numbers `without`."""
    first, last = np.searchsorted(without, [begin, begin + batch.num_rows])
    if first == last:
        return batch
    mask = np.ones(batch.num_rows, dtype=np.bool_)
    mask[without[first:last] - begin] = False
    return batch.filter(pa.array(mask))
