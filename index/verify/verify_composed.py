"""Verification of what a version makes of its segments: all are there, its lists of deleted rows fit them, and what is
live is what the version says.

Of the segments, only ids and metadata are read here; `index.verify.verifier` verifies their content. Memory: some 250
bytes a chunk.
"""

from pathlib import Path

import numpy as np
import pyarrow.compute as pc

from almanac.core.digests import Digests, SortedDigests, digests_in, digests_of
from almanac.core.stamps import altered_file
from almanac.core.tables import CHUNKS, DOCUMENTS, RECORDS, Batches, batches_of, rows_in
from almanac.index.build.digest import digest_of
from almanac.index.segments.deleted import DELETED, deleted_file, deleted_rows
from almanac.index.segments.segment_store import SEGMENT, SEGMENT_HASH, SEGMENTS, segment_dir, segment_in
from almanac.index.segments.version_tables import StoredTables
from almanac.index.verify.files import hash_line
from almanac.index.verify.problem_collector import ProblemCollector
from almanac.schemas.errors import DamagedVersion
from almanac.schemas.manifest import EmbedderInfo, Manifest, SegmentUse

_TABLES = {CHUNKS: "chunks", RECORDS: "records", DOCUMENTS: "documents"}  # table → its count in the manifest
_BATCH = 50_000  # rows read at a time
_SHOWN = 100  # differing ids that are named


def check_composition(
    tables: StoredTables,
    embedder: EmbedderInfo,
    problems: ProblemCollector,
    *,
    trusts_seals: bool,
    chunks: Path | None = None,
) -> None:
    """Checks what a version makes of its segments.

    Args:
        tables: The tables of the version. Where its manifest is there, its digest and counts are compared.
        embedder: The version's embedder.
        problems: Collects the problems.
        trusts_seals: Whether the segments are trusted by their seals and stamps; else the caller verifies them.
        chunks: A table with the same chunks, which are compared.
    """
    segments = tables.manifest.segments
    if len({use.segment for use in segments}) < len(segments):
        problems.add("row_foreign", SEGMENTS, "a segment is named twice")
        return
    fitting = [_fits(tables, use, embedder, problems, trusts_seals=trusts_seals) for use in segments]
    if not all(fitting) or not _deletions_fit(tables, problems):
        return  # of what is left, nothing can be said
    try:
        _check_counts(tables, problems)
        ids = digests_in((batch.column(0) for batch in tables.batches(CHUNKS, ["chunk_id"], rows=_BATCH)), 16)
        if _are_unique(ids, problems) and isinstance(manifest := tables.manifest, Manifest):
            digest = digest_of(tables.batches_of(CHUNKS), manifest.embedder.fingerprint)
            if digest != manifest.digest:
                problems.add("digest_differs", "digest", digest, manifest.digest)
        if chunks is not None:
            _check_same_chunks(tables, chunks, problems)
    except DamagedVersion as error:
        problems.add("unreadable", _relative(error.where, tables), error.message)


def _fits(
    tables: StoredTables, use: SegmentUse, embedder: EmbedderInfo, problems: ProblemCollector, *, trusts_seals: bool
) -> bool:
    """Whether the rows of a segment can be read as part of the version; it may have problems all the same."""
    folder, inside = segment_dir(tables.index_dir, use.segment), f"{SEGMENTS}/{use.segment}"
    try:
        segment = segment_in(folder)
    except DamagedVersion as error:
        problems.add(
            "unreadable" if (folder / SEGMENT).is_file() else "file_missing", f"{inside}/{SEGMENT}", error.message
        )
        return False
    compared: list[tuple[str, object, object]] = [
        ("segment", segment.segment, use.segment),
        ("counts.chunks", segment.counts.chunks, use.chunks),
        ("embedder", segment.embedder.fingerprint, embedder.fingerprint),
    ]
    if isinstance(manifest := tables.manifest, Manifest):
        compared += [
            (name, getattr(segment, name), getattr(manifest, name)) for name in ("kb", "collection", "language")
        ]
    for name, stored, expected in compared:
        if stored != expected:
            problems.add("digest_differs", f"{inside}/{SEGMENT}: {name}", stored, expected)
    if trusts_seals:
        sums = folder / SEGMENT_HASH
        if not sums.is_file() or sums.read_bytes().decode(errors="replace") != hash_line(folder / SEGMENT):
            problems.add("file_altered", f"{inside}/{SEGMENT}")
        if (altered := altered_file(folder, segment.files)) is not None:
            problems.add("file_altered", f"{inside}/{altered}")
            return False
    return True


def _deletions_fit(tables: StoredTables, problems: ProblemCollector) -> bool:
    """Whether the version's lists of deleted rows can be applied; they may have problems all the same."""
    is_sound, known = True, set()
    for use in tables.manifest.segments:
        for table in _TABLES:
            where = deleted_file(use.segment, table)
            known.add(where)
            path = segment_dir(tables.index_dir, use.segment) / table
            try:
                rows = deleted_rows(tables.folder, use.segment, table)
                count = rows_in(path) if path.is_file() else 0
            except DamagedVersion as error:
                problems.add("unreadable", _relative(error.where, tables), error.message)
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
    for path in sorted((tables.folder / DELETED).glob("*")):
        if f"{DELETED}/{path.name}" not in known:
            problems.add("row_foreign", f"{DELETED}/{path.name}", "deletions of no segment of this version")
    return is_sound


def _check_counts(tables: StoredTables, problems: ProblemCollector) -> None:
    """Compares the numbers of live rows with the manifest, if there is one, and looks for items that are live twice."""
    if not isinstance(manifest := tables.manifest, Manifest):
        return
    for table, name in _TABLES.items():
        live = sum(rows_in(part.path) - len(part.without) for part in tables.parts(table))
        if live != getattr(manifest.counts, name):
            problems.add("digest_differs", f"counts.{name}", live, getattr(manifest.counts, name))
    columns = ["source", "document_id"]
    items = digests_in(
        (
            pc.binary_join_element_wise(*(batch.column(name) for name in columns), "\0")
            for table in (RECORDS, DOCUMENTS)
            for batch in tables.batches(table, columns, rows=_BATCH)
        ),
        16,
    )
    if (different := len(np.unique(items))) < len(items):
        problems.add("row_foreign", f"{RECORDS}, {DOCUMENTS}", f"{len(items)} items, {different} of them different")


def _are_unique(ids: Digests, problems: ProblemCollector) -> bool:
    """Whether no chunk is live in two segments, or twice in one."""
    ordered = np.sort(ids, kind="stable")
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    for chunk_id in _hex(np.unique(twice)[:_SHOWN]):
        problems.add("row_foreign", f"{CHUNKS}: {chunk_id}", "live twice", "once")
    return not len(twice)


def _check_same_chunks(tables: StoredTables, chunks: Path, problems: ProblemCollector) -> None:
    """Compares ids and times of the live rows with those of another table."""
    ids, times = _ids_and_times(tables.batches_of(CHUNKS, rows=_BATCH))
    wanted, wanted_times = _ids_and_times(batches_of(chunks, rows=_BATCH))
    places = SortedDigests(ids).find(wanted)
    is_there = places >= 0
    for kind, rows in (("row_missing", wanted[~is_there]), ("row_foreign", np.setdiff1d(ids, wanted))):
        for chunk_id in _hex(rows[:_SHOWN]):
            problems.add(kind, f"{CHUNKS}: {chunk_id}")
    is_altered = times[places[is_there]] != wanted_times[is_there]
    for chunk_id in _hex(wanted[is_there][is_altered][:_SHOWN]):
        problems.add("row_altered", f"{CHUNKS}: {chunk_id}: fetched_at")


def _ids_and_times(batches: Batches) -> tuple[Digests, Digests]:
    """Chunk ids, each with a hash of the time at which it was first seen, in the order of rows."""
    ids, times = [digests_of([], 16)], [digests_of([], 16)]
    for batch in batches(["chunk_id", "fetched_at"]):
        ids.append(digests_of(batch.column("chunk_id"), 16))
        encoded = batch.column("fetched_at").combine_chunks().dictionary_encode()  # many are of one time
        times.append(digests_of(encoded.dictionary, 16)[encoded.indices.to_numpy()])
    return np.concatenate(ids), np.concatenate(times)


def _hex(digests: Digests) -> list[str]:
    raw = digests.tobytes()
    return [raw[begin : begin + 16].hex() for begin in range(0, len(raw), 16)]


def _relative(where: str | None, tables: StoredTables) -> str:
    """A place as problems name it: relative to the version's folder, or to that of the index for a segment."""
    path = Path(where or "")
    for folder in (tables.folder, tables.index_dir):
        if path.is_relative_to(folder):
            return path.relative_to(folder).as_posix()
    return str(path)
