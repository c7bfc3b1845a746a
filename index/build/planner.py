"""Plans a version of several segments: compares the run's tables with the parent's, chooses segments to merge, and
stages new ones.

Rows are compared by `KEYS`, which are equal for equal rows only. What the parent has and the run has not, is deleted;
what the run has and the parent has not, goes into new segments, together with the rows of segments that are merged,
which the run's tables have, too. Of these tables, only the row groups with such rows are read in full.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict

from almanac.core.logs import get_logger
from almanac.core.memory import give_back
from almanac.core.tables import CHUNKS, DOCUMENTS, RECORDS, open_table, read_table, rows_in
from almanac.index.build.job import AbsolutePath, SegmentSpec
from almanac.index.build.policy import MOST_BYTES, Size, rows_each, to_merge
from almanac.index.build.staged_segments import KEYS, StagedSegment, Stager, is_intact, keys_of
from almanac.index.segments.deleted import deleted_rows, write_deleted_rows
from almanac.index.segments.segment_store import read_segment, segment_dir
from almanac.index.vectors.keys import RowNumbers
from almanac.index.versions.version_store import manifest_in
from almanac.schemas.errors import AlmanacError, DamagedVersion, as_storage_error
from almanac.schemas.manifest import Manifest, SegmentUse

_BATCH = 2000  # rows
_log = get_logger("almanac.build")


class PlanJob(BaseModel):
    """What a version of several segments is planned from."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    index_dir: AbsolutePath
    version_dir: AbsolutePath  # of the new version: empty or not there yet
    spec: SegmentSpec
    limit: int  # `index.segment`
    chunks: AbsolutePath
    records: AbsolutePath
    documents: AbsolutePath
    parent: AbsolutePath | None = None  # folder of the version to start from; None builds all segments anew
    merge_all: bool = False  # compaction: every segment that is small or has deletions is merged


class Plan(BaseModel):
    """The segments of the new version, those of them that have to be made, and the parent's segments whose rows these
    take over.
    """

    model_config = ConfigDict(frozen=True)

    segments: list[SegmentUse]
    staged: list[StagedSegment]
    merged: list[str]
    added: int  # chunks that the parent does not have
    removed: int  # chunks of the parent that are gone
    why_full: str | None = None  # why the parent could not be used


@dataclass
class _ParentSegment:
    """A segment of the parent. By table, the numbers of its rows that the parent has, and of those that the run has,
    too.
    """

    name: str
    chunks: int
    live: dict[str, RowNumbers]
    stays: dict[str, RowNumbers]


def plan_version(job: PlanJob) -> Plan:
    """Compares and stages; writes the tables of new segments and the deletions of kept ones. Raises StorageError where
    the disk fails.

    Costs a second or two for a million chunks, and some 500 bytes of memory for each while it compares.
    """
    with as_storage_error(job.index_dir):
        try:
            return _planned(job)
        finally:
            give_back()  # keys of all rows: what builds the segments needs the memory


def _planned(job: PlanJob) -> Plan:
    paths = {CHUNKS: job.chunks, RECORDS: job.records, DOCUMENTS: job.documents}
    manifest, why_full = _usable_parent(job)
    rows = [_rows_of(job, use) for use in manifest.segments] if manifest is not None else []
    segments = [segment for segment in rows if segment is not None]
    is_new, where = {}, {}
    for table, path in paths.items():
        is_new[table], where[table] = _compared(path, table, job.index_dir, segments)
    sizes = [Size(segment.name, segment.chunks, len(segment.stays[CHUNKS])) for segment in segments]
    added = int(is_new[CHUNKS].sum())
    removed = sum(len(segment.live[CHUNKS]) for segment in segments) - sum(size.live for size in sizes)
    if job.merge_all:
        merged = {size.name for size in sizes if size.chunks < job.limit or size.live < size.chunks}
        merged = merged if len(merged) > 1 or any(size.live < size.chunks for size in sizes) else set()
    else:
        merged = to_merge(sizes, added, job.limit)
    for segment in segments:
        if segment.name in merged:
            for table in paths:
                is_new[table][where[table][segment.name]] = True
    staged = list(_staged(job, paths, is_new))
    job.version_dir.mkdir(parents=True, exist_ok=True)
    uses = [
        _use(job, segment)
        for segment in segments
        if segment.name not in merged and any(len(segment.stays[table]) for table in paths)
    ]
    uses += [SegmentUse(segment=new.name, chunks=new.counts.chunks, deleted=0) for new in staged]
    return Plan(segments=uses, staged=staged, merged=sorted(merged), added=added, removed=removed, why_full=why_full)


def _usable_parent(job: PlanJob) -> tuple[Manifest | None, str | None]:
    if job.parent is None:
        return None, None
    try:
        manifest = manifest_in(job.parent, job.index_dir, job.parent.name)
    except AlmanacError as error:
        return None, error.message
    if not manifest.segments:
        return None, "the version before is a single segment"
    if manifest.embedder.fingerprint != job.spec.embedder.fingerprint:
        return None, "another embedder"
    return manifest, None


def _rows_of(job: PlanJob, use: SegmentUse) -> _ParentSegment | None:
    """The parent's rows of a segment, none of them compared yet; None for a segment that is damaged or made in another
    way: its rows count as new.
    """
    folder = segment_dir(job.index_dir, use.segment)
    try:
        if read_segment(job.index_dir, use.segment).lineage.get("making") != job.spec.making:
            return None
        if not is_intact(job.index_dir, use.segment):
            raise DamagedVersion("a segment is damaged", where=str(folder))
        assert job.parent is not None
        live = {
            table: np.setdiff1d(
                np.arange(rows_in(folder / table), dtype=np.int64),
                deleted_rows(job.parent, use.segment, table),
                assume_unique=True,
            )
            for table in KEYS
        }
    except DamagedVersion as error:
        _log.warning(
            "a segment of the parent is damaged, and made anew", kb=job.spec.kb, segment=use.segment, why=error.message
        )
        return None
    return _ParentSegment(use.segment, use.chunks, live, {})


def _compared(
    path: Path, table: str, index_dir: Path, segments: list[_ParentSegment]
) -> tuple[npt.NDArray[np.bool_], dict[str, RowNumbers]]:
    """Compares a table of the run with the parent's rows, and notes in `segments` which of these stay.

    Returns which rows of the run's table are new, bool (rows,), and by segment the row numbers in the run's table of
    the segment's rows that stay.
    """
    now = keys_of(read_table(path, list(KEYS[table])), table).combine_chunks()
    before = [
        keys_of(read_table(segment_dir(index_dir, segment.name) / table, list(KEYS[table])), table).take(
            pa.array(segment.live[table])
        )
        for segment in segments
    ]
    keys = pa.chunked_array([chunk for column in before for chunk in column.chunks], pa.large_string())
    places = pc.fill_null(pc.index_in(keys, value_set=now), -1).to_numpy().astype(np.int64)
    is_new, where, begin = np.ones(len(now), dtype=np.bool_), {}, 0
    for segment in segments:
        its_places = places[begin : begin + len(segment.live[table])]
        begin += len(its_places)
        segment.stays[table] = segment.live[table][its_places >= 0]
        where[segment.name] = its_places[its_places >= 0]
        is_new[where[segment.name]] = False
    return is_new, where


def _use(job: PlanJob, segment: _ParentSegment) -> SegmentUse:
    """Writes the deletions of a segment that is kept; returns its use."""
    folder = segment_dir(job.index_dir, segment.name)
    gone = {
        table: np.setdiff1d(np.arange(rows_in(folder / table), dtype=np.int64), stays, assume_unique=True)
        for table, stays in segment.stays.items()
    }
    for table, rows in gone.items():
        write_deleted_rows(job.version_dir, segment.name, table, rows)
    return SegmentUse(segment=segment.name, chunks=segment.chunks, deleted=len(gone[CHUNKS]))


def _staged(job: PlanJob, paths: dict[str, Path], wanted: dict[str, npt.NDArray[np.bool_]]) -> Iterator[StagedSegment]:
    """Stages the wanted rows as segments of even size. Items are spread over the segments in proportion to the
    chunks.
    """
    total = int(wanted[CHUNKS].sum())
    items = {
        table: _Share(_selected(paths[table], wanted[table]), int(wanted[table].sum()))
        for table in (RECORDS, DOCUMENTS)
    }
    batches, most, begun = _selected(paths[CHUNKS], wanted[CHUNKS]), rows_each(total, job.limit), 0
    waiting = next(batches, None)
    if waiting is None and not any(share.total for share in items.values()):
        return
    while True:
        with Stager(job.index_dir, job.spec) as stager:
            while waiting is not None and stager.rows < most and stager.bytes < MOST_BYTES:
                room = most - stager.rows
                stager.write(CHUNKS, waiting.slice(0, room))
                waiting = waiting.slice(room) if waiting.num_rows > room else next(batches, None)
            begun += stager.rows
            for table, share in items.items():
                for batch in share.until(begun / total if waiting is not None else 1.0):
                    stager.write(table, batch)
        yield stager.finish()
        if waiting is None:
            return


class _Share:
    """Gives batches of rows up to a share of their total."""

    def __init__(self, batches: Iterator[pa.Table], total: int) -> None:
        self._batches, self.total, self._given = batches, total, 0
        self._waiting: pa.Table | None = None

    def until(self, share: float) -> Iterator[pa.Table]:
        due = round(share * self.total)
        while self._given < due:
            batch = self._waiting if self._waiting is not None else next(self._batches)
            taken = batch.slice(0, due - self._given)
            self._waiting = batch.slice(taken.num_rows) if batch.num_rows > taken.num_rows else None
            self._given += taken.num_rows
            yield taken


def _selected(path: Path, wanted: npt.NDArray[np.bool_]) -> Iterator[pa.Table]:
    """Yields the wanted rows of a table in batches. Row groups without any are not read."""
    with open_table(path) as file:
        begin = 0
        for group in range(file.metadata.num_row_groups):
            end = begin + file.metadata.row_group(group).num_rows
            if wanted[begin:end].any():
                at = begin
                for batch in file.iter_batches(batch_size=_BATCH, row_groups=[group]):
                    chosen = batch.filter(pa.array(wanted[at : at + batch.num_rows]))
                    at += batch.num_rows
                    if chosen.num_rows:
                        yield pa.Table.from_batches([chosen])
            begin = end
