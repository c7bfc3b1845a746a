"""Verification of what a version makes of its segments: all are there, its lists of deleted rows fit them, and what is
live is what the version says.

Of the segments, only ids and metadata are read here; `index.verify.verifier` verifies their content. Memory: some 250
bytes a chunk.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from almanac.core.digests import Digests, RowNumbers, digests_of
from almanac.core.stamps import altered_file
from almanac.core.tables import CHUNKS, DOCUMENTS, RECORDS, damaged_table
from almanac.index.build.digest import digest_of
from almanac.index.segments.deleted import DELETED, deleted_file, deleted_rows
from almanac.index.segments.segment_store import SEGMENT, SEGMENT_HASH, SEGMENTS, segment_dir, segment_in
from almanac.index.segments.version_tables import TablePart, VersionTables
from almanac.index.verify.files import UNREADABLE, hash_line
from almanac.index.verify.jobs import CompositionJob
from almanac.index.verify.problem_collector import ProblemCollector
from almanac.schemas.errors import DamagedVersion
from almanac.schemas.manifest import EmbedderInfo, Manifest, Segment, SegmentUse

_TABLES = (CHUNKS, RECORDS, DOCUMENTS)
_BATCH = 50_000  # rows read at a time
_SHOWN = 100  # differing ids that are named


def check_composition(job: CompositionJob, problems: ProblemCollector) -> None:
    """Checks what a version makes of its segments; `CompositionJob` says which comparisons there are."""
    if len({use.segment for use in job.segments}) < len(job.segments):
        problems.add("row_foreign", SEGMENTS, "a segment is named twice")
        return
    fitting = [_fits(job, use, problems) for use in job.segments]
    if not all(fitting):
        return  # of what is left, nothing can be said
    deletions = _check_deletions(job, problems)
    if deletions is None:
        return
    live = _LiveRows(job, deletions)
    try:
        if job.manifest is not None:
            _check_counts(job.manifest, live, problems)
        ids = live.ids()
        if _check_unique(ids, problems) and job.manifest is not None:
            tables = VersionTables(job.index_dir, job.version_dir, job.manifest)
            digest = digest_of(tables.batches_of(CHUNKS), job.manifest.embedder.fingerprint)
            if digest != job.manifest.digest:
                problems.add("digest_differs", "digest", digest, job.manifest.digest)
        if job.chunks is not None:
            _check_same_chunks(live, job.chunks, problems)
    except DamagedVersion as error:
        problems.add("unreadable", _relative(error.where, job), error.message)


def _fits(job: CompositionJob, use: SegmentUse, problems: ProblemCollector) -> bool:
    """Whether the rows of a segment can be read as part of the version; it may have problems all the same."""
    folder, inside = segment_dir(job.index_dir, use.segment), f"{SEGMENTS}/{use.segment}"
    try:
        segment = segment_in(folder)
    except DamagedVersion as error:
        problems.add(
            "unreadable" if (folder / SEGMENT).is_file() else "file_missing", f"{inside}/{SEGMENT}", error.message
        )
        return False
    wrong = _misfit(segment, use, job.embedder, job.manifest)
    if wrong is not None:
        problems.add("digest_differs", f"{inside}/{SEGMENT}: {wrong[0]}", wrong[1], wrong[2])
    if job.trusts_seals:
        sums = folder / SEGMENT_HASH
        if not sums.is_file() or sums.read_bytes().decode(errors="replace") != hash_line(folder / SEGMENT):
            problems.add("file_altered", f"{inside}/{SEGMENT}")
        if (altered := altered_file(folder, segment.files)) is not None:
            problems.add("file_altered", f"{inside}/{altered}")
            return False
    return True


def _misfit(
    segment: Segment, use: SegmentUse, embedder: EmbedderInfo, manifest: Manifest | None
) -> tuple[str, object, object] | None:
    """What in a segment's manifest does not fit the version: its name, what is there, and what should be."""
    compared: list[tuple[str, object, object]] = [
        ("segment", segment.segment, use.segment),
        ("counts.chunks", segment.counts.chunks, use.chunks),
        ("embedder", segment.embedder.fingerprint, embedder.fingerprint),
    ]
    if manifest is not None:
        compared += [
            (name, getattr(segment, name), getattr(manifest, name)) for name in ("kb", "collection", "language")
        ]
    return next((one for one in compared if one[1] != one[2]), None)


Deletions = dict[tuple[str, str], RowNumbers]  # (segment, table) → deleted row numbers


def _check_deletions(job: CompositionJob, problems: ProblemCollector) -> Deletions | None:
    """Checks the version's lists of deleted rows and returns them; None, with a problem, where they cannot be
    applied.
    """
    found: Deletions = {}
    is_sound = True
    for use in job.segments:
        for table in _TABLES:
            where = deleted_file(use.segment, table)
            try:
                rows, count = (
                    deleted_rows(job.version_dir, use.segment, table),
                    _row_count(segment_dir(job.index_dir, use.segment) / table),
                )
            except DamagedVersion as error:
                problems.add("unreadable", _relative(error.where, job), error.message)
                is_sound = False
                continue
            if len(rows) and not (rows[0] >= 0 and rows[-1] < count and bool((np.diff(rows) > 0).all())):
                problems.add("row_foreign", where, "no ascending row numbers of that table", f"below {count}")
                is_sound = False
            expected = use.deleted if table == CHUNKS else len(rows)
            if len(rows) != expected:
                problems.add(
                    "row_missing" if len(rows) < expected else "row_foreign", f"{where}: rows", len(rows), expected
                )
            found[use.segment, table] = rows
    _check_strays(job, problems)
    return found if is_sound else None


def _check_strays(job: CompositionJob, problems: ProblemCollector) -> None:
    """Checks that no deletions lie about of a segment that is not the version's."""
    known = {deleted_file(use.segment, table) for use in job.segments for table in _TABLES}
    for path in sorted((job.version_dir / DELETED).glob("*")):
        if (name := f"{DELETED}/{path.name}") not in known:
            problems.add("row_foreign", name, "deletions of no segment of this version")


def _row_count(path: Path) -> int:
    """Rows of a table; 0 where a segment has no such table."""
    try:
        return int(pq.read_metadata(path).num_rows) if path.is_file() else 0
    except UNREADABLE as error:
        raise damaged_table(path, error) from error


@dataclass(frozen=True)
class _LiveRows:
    """The rows of the segments that are part of the version."""

    job: CompositionJob
    deletions: Deletions

    def parts(self, table: str) -> list[TablePart]:
        folders = [(use.segment, segment_dir(self.job.index_dir, use.segment)) for use in self.job.segments]
        return [
            TablePart(folder / table, name, self.deletions[name, table])
            for name, folder in folders
            if (folder / table).is_file()
        ]

    def count(self, table: str) -> int:
        return sum(_row_count(part.path) - len(part.without) for part in self.parts(table))

    def ids(self) -> Digests:
        """Chunk ids, 16 bytes each, in the order of segments and rows."""
        found = [
            digests_of(batch.column(0), 16)
            for part in self.parts(CHUNKS)
            for batch in part.batches(["chunk_id"], rows=_BATCH)
        ]
        return np.concatenate([digests_of([], 16), *found])

    def items(self) -> Digests:
        """Hashes of source and id of each item."""
        columns = ["source", "document_id"]
        found = [
            _joined(batch, columns)
            for name in (RECORDS, DOCUMENTS)
            for part in self.parts(name)
            for batch in part.batches(columns, rows=_BATCH)
        ]
        return np.concatenate([digests_of([], 16), *found])


def _joined(batch: pa.Table, columns: Sequence[str]) -> Digests:
    return digests_of(pc.binary_join_element_wise(*(batch.column(name) for name in columns), "\0"), 16)


def _check_counts(manifest: Manifest, live: _LiveRows, problems: ProblemCollector) -> None:
    for name, table in (("chunks", CHUNKS), ("records", RECORDS), ("documents", DOCUMENTS)):
        found, expected = live.count(table), getattr(manifest.counts, name)
        if found != expected:
            problems.add("digest_differs", f"counts.{name}", found, expected)
    items = live.items()
    if len(np.unique(items)) < len(items):
        problems.add(
            "row_foreign", f"{RECORDS}, {DOCUMENTS}", f"{len(items)} items, {len(np.unique(items))} of them different"
        )


def _check_unique(ids: Digests, problems: ProblemCollector) -> bool:
    """Whether no chunk is live in two segments, or twice in one."""
    ordered = np.sort(ids, kind="stable")
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    for chunk_id in _hex(np.unique(twice)[:_SHOWN]):
        problems.add("row_foreign", f"{CHUNKS}: {chunk_id}", "live twice", "once")
    return not len(twice)


def _check_same_chunks(live: _LiveRows, chunks: Path, problems: ProblemCollector) -> None:
    """Compares ids and times of the live rows with those of another table."""
    ours = _Seen.of(live.parts(CHUNKS))
    theirs = _Seen.of([TablePart(chunks, None, np.zeros(0, dtype=np.int64))])
    for kind, rows in (
        ("row_missing", np.setdiff1d(theirs.ids, ours.ids)),
        ("row_foreign", np.setdiff1d(ours.ids, theirs.ids)),
    ):
        for chunk_id in _hex(rows[:_SHOWN]):
            problems.add(kind, f"{CHUNKS}: {chunk_id}")
    _, here, there = np.intersect1d(ours.ids, theirs.ids, return_indices=True)
    for chunk_id in _hex(ours.ids[here][ours.times[here] != theirs.times[there]][:_SHOWN]):
        problems.add("row_altered", f"{CHUNKS}: {chunk_id}: fetched_at")


@dataclass(frozen=True)
class _Seen:
    """Chunk ids, each with a hash of the time at which it was first seen, by the order of ids."""

    ids: Digests
    times: Digests

    @classmethod
    def of(cls, parts: Sequence[TablePart]) -> Self:
        ids, times = [digests_of([], 16)], [digests_of([], 16)]
        for part in parts:
            for batch in part.batches(["chunk_id", "fetched_at"], rows=_BATCH):
                ids.append(digests_of(batch.column("chunk_id"), 16))
                encoded = batch.column("fetched_at").combine_chunks().dictionary_encode()
                times.append(digests_of(encoded.dictionary, 16)[encoded.indices.to_numpy()])
        joined = np.concatenate(ids)
        order = np.argsort(joined, kind="stable")
        return cls(joined[order], np.concatenate(times)[order])


def _hex(digests: Digests) -> list[str]:
    raw = digests.tobytes()
    return [raw[begin : begin + 16].hex() for begin in range(0, len(raw), 16)]


def _relative(where: str | None, job: CompositionJob) -> str:
    """A place as problems name it: relative to the version's folder, or to that of the index for a segment."""
    path = Path(where or "")
    for folder in (job.version_dir, job.index_dir):
        if path.is_relative_to(folder):
            return path.relative_to(folder).as_posix()
    return str(path)
