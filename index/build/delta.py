"""Delta builds: the difference between a new version and its parent, and the decision whether a full build is better.

Chunk ids are content-addressed, so rows with the same id differ at most in `fetched_at`, the time at which their
content was first seen. The new version is a copy of the parent; rows that are gone or have another time are deleted,
and rows that are new or have another time are added.
"""

from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict, ValidationError

from almanac.core.code_fingerprint import code_fingerprint
from almanac.core.digests import DigestSet, SortedDigests, digests_of
from almanac.core.tables import CHUNKS, read_table
from almanac.core.verified import verified_file
from almanac.index.build.job import BuildJob
from almanac.index.chroma.rows import CHROMA
from almanac.index.vectors.keys import RowNumbers
from almanac.index.versions.store import MANIFEST, manifest_in
from almanac.schemas.errors import AlmanacError, DamagedVersion
from almanac.schemas.hashing import short_hash
from almanac.schemas.manifest import Manifest

# Approximate seconds with Chroma 1.5.9, rows of 1 KB and 384 dimensions, on a busy machine. A full build takes `_ADD`
# per row. A delta takes `_DELTA` in any case, `_COPY` per row of the parent (copied, loaded, written, synced),
# `_DELETE` per deleted and `_ADD` per added row.
_ADD, _DELETE, _COPY, _DELTA = 1.2e-3, 0.6e-3, 0.03e-3, 0.3
# HNSW does not reuse the slots of deleted rows. With 2 % of 3,000 rows changed each time, files grew from 43 to 48 MB
# until half of the rows had been replaced, and to 63 MB after 80 deltas; recall@10 stayed at .99. So a full build is
# due once half of the rows have been added, or after 50 deltas. It also replaces copied rows, of which the verifier
# checks only a sample.
_DUE_SHARE = 0.5
_DUE_DELTAS = 50
_ID = 16  # bytes of a chunk id


class BuildFacts(BaseModel):
    """How a version's Chroma directory was built; recorded in the manifest as `lineage["build"]`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["full", "delta", "segments"]  # segments: at least one of the parent's was kept
    added: int  # rows added to Chroma
    removed: int  # rows deleted from Chroma
    added_since_full: int  # rows added by all deltas since the last full build
    deltas: int  # since the last full build
    layout: str  # `row_layout` at the time
    why_full: str | None = None  # why there was a full build despite a parent; None for a delta or without a parent
    parent_damaged: bool = False
    merged: int = 0  # segments of the parent that were merged


class DeltaNotPossible(Exception):
    """A delta build is not possible or not worthwhile; the message is the reason. `damaged`: the parent is damaged."""

    def __init__(self, why: str, *, damaged: bool = False) -> None:
        super().__init__(why)
        self.damaged = damaged


@dataclass(frozen=True)
class Parent:
    """A version that, judging by its manifest, can be the base of a delta."""

    folder: Path
    manifest: Manifest
    facts: BuildFacts


class Rows(NamedTuple):
    """Comparison of an earlier and a later chunks table."""

    added: RowNumbers  # rows of the later table that are new or have another `fetched_at`, ordered by chunk id
    removed: pa.LargeStringArray  # ids of the earlier table that are gone or have another `fetched_at`, sorted
    kept: RowNumbers  # the other rows of the later table, ascending
    places: RowNumbers  # the row numbers of `kept` in the earlier table, one by one


@dataclass(frozen=True)
class Difference:
    """The changes from a parent to a new table; ids are deleted before rows are added."""

    rows: Rows
    facts: BuildFacts


def full_facts(rows: int, why: DeltaNotPossible | None = None) -> BuildFacts:
    why_full, damaged = (str(why), why.damaged) if why else (None, False)
    return BuildFacts(
        kind="full",
        added=rows,
        removed=0,
        added_since_full=0,
        deltas=0,
        layout=row_layout(),
        why_full=why_full,
        parent_damaged=damaged,
    )


def row_layout() -> str:
    """Fingerprint of how rows lie in Chroma's files: changes with the code that makes them, and with Chroma's version,
    which rules out a delta.
    """
    return short_hash([code_fingerprint("index.chroma.rows"), version("chromadb")])


def usable_parent(job: BuildJob, folder: Path) -> Parent:
    """Returns the version in `folder` as a base for the job. Raises DeltaNotPossible for another embedder, collection
    or row format, a manifest that is unreadable or does not say how the version was built, and fewer than two rows.
    """
    try:
        manifest = manifest_in(folder, folder.parent.parent, folder.name)
    except AlmanacError as error:
        raise DeltaNotPossible(error.message, damaged=True) from error
    for what, was, wanted in (
        ("embedder", manifest.embedder.fingerprint, job.embedder.fingerprint),
        ("collection", (manifest.kb, manifest.collection), (job.kb, job.collection)),
    ):
        if was != wanted:
            raise DeltaNotPossible(f"another {what}")
    if not any(stored.path.startswith(f"{CHROMA}/") for stored in manifest.files):
        # the manifest leaves out the database, and Chroma writes index files from two rows on
        raise DeltaNotPossible("too few rows before")
    return Parent(folder, manifest, _facts_of(manifest))


def _facts_of(manifest: Manifest) -> BuildFacts:
    try:
        facts = BuildFacts.model_validate(manifest.lineage.get("build"))
    except ValidationError as error:
        raise DeltaNotPossible(f"{MANIFEST} of {manifest.version} does not say how it was built") from error
    if facts.layout != row_layout():
        raise DeltaNotPossible("rows are laid out in another way now")
    return facts


def find_difference(parent: Parent, table: pa.Table) -> Difference:
    """Compares a new chunks table with the parent's by chunk id and `fetched_at`. Raises DeltaNotPossible where a full
    build is due, or cheaper.
    """
    manifest, earlier = parent.manifest, parent.facts
    try:
        before = read_table(verified_file(parent.folder, manifest, CHUNKS), ["chunk_id", "fetched_at"])
    except DamagedVersion as error:
        raise DeltaNotPossible(error.message, damaged=True) from error
    compared = compare_rows(before, table)
    live, rows = manifest.counts.chunks, table.num_rows
    added, removed = len(compared.added), len(compared.removed)
    since_full = earlier.added_since_full + added
    if earlier.deltas >= _DUE_DELTAS:
        raise DeltaNotPossible(f"{earlier.deltas} deltas since the last full build")
    if since_full > _DUE_SHARE * rows:
        raise DeltaNotPossible(f"{since_full} rows of {rows} would have been added since the last full build")
    if _DELTA + _COPY * live + _DELETE * removed + _ADD * added >= _ADD * rows:
        raise DeltaNotPossible(
            f"a full build is cheaper than copying {live} rows, deleting {removed} and adding {added}"
        )
    facts = BuildFacts(
        kind="delta",
        added=added,
        removed=removed,
        added_since_full=since_full,
        deltas=earlier.deltas + 1,
        layout=earlier.layout,
    )
    return Difference(compared, facts)


def compare_rows(before: pa.Table, after: pa.Table) -> Rows:
    """Compares two chunks tables by `chunk_id` and `fetched_at`.

    `fetched_at` is not part of the chunk id but is stored in Chroma: a row in which only it differs is deleted and
    added again.
    """
    ids, ids_before = (digests_of(table.column("chunk_id"), _ID) for table in (after, before))
    places = SortedDigests(ids_before).find(ids)
    times, times_before = _numbered(after.column("fetched_at"), before.column("fetched_at"))
    is_kept = places >= 0
    is_kept[is_kept] = times_before[places[is_kept]] == times[is_kept]
    added = np.flatnonzero(~is_kept)
    gone = pa.array(~DigestSet(ids[is_kept]).has(ids_before))
    removed = before.column("chunk_id").filter(gone).cast(pa.large_string()).combine_chunks()
    return Rows(
        added[np.argsort(ids[added], kind="stable")],
        removed.take(pc.sort_indices(removed)),
        np.flatnonzero(is_kept),
        places[is_kept],
    )


def _numbered(column: pa.ChunkedArray, before: pa.ChunkedArray) -> tuple[RowNumbers, RowNumbers]:
    """Two columns of texts as numbers, int64, which are equal where the texts are; a text that only the first has is
    -1.
    """
    known = pc.unique(before)
    return (
        pc.fill_null(pc.index_in(column, value_set=known), -1).to_numpy().astype(np.int64),
        pc.index_in(before, value_set=known).to_numpy().astype(np.int64),
    )
