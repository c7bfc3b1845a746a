"""What the next version has to change in a copy of its parent, and when building it in full is the better way.

Chunk ids are content-addressed, so a row of the parent with the same id is the same row: the next version is a copy, less the rows whose
ids are gone, and with the rows whose ids are new.
"""

from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, ValidationError

from almanac.core.code_fingerprint import code_fingerprint
from almanac.core.tables import CHUNKS
from almanac.index.build.job import BuildJob
from almanac.index.chroma.rows import CHROMA
from almanac.index.vectors.keys import RowNumbers
from almanac.index.versions.store import MANIFEST, manifest_in
from almanac.schemas.errors import AlmanacError, DamagedVersion
from almanac.schemas.hashing import file_sha256, short_hash
from almanac.schemas.manifest import Manifest

# Seconds, about, with Chroma 1.5.9 and rows of 1 KB and 384 dimensions, on a machine that had other things to do: a full build takes `_ADD` for each row;
# a delta `_DELTA` whatever it does, and so much for each row of the parent (copied, loaded, written, synced), deleted and added.
_ADD, _DELETE, _COPY, _DELTA = 1.2e-3, 0.6e-3, 0.03e-3, 0.3
# Slots that deletion leaves in HNSW are not used again. With 2 % of 3,000 rows changed each time, files grew from 43 to 48 MB until half of the rows
# had been added anew, and to 63 MB after 80 deltas; recall@10 stayed at .99. Beyond that, a full build now and then mends what no sample finds.
_DUE_SHARE = 0.5
_DUE_DELTAS = 50


class BuildFacts(BaseModel):
    """How a version's Chroma directory was made; the manifest keeps it as `lineage["build"]`.

    `added` and `removed` count rows of Chroma. `layout` stands for all that decides how a row lies in Chroma: our code, and Chroma's.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["full", "delta"]
    added: int
    removed: int
    added_since_full: int
    deltas: int  # since the last full build
    layout: str
    why_full: str | None = None  # where there was a parent
    parent_damaged: bool = False


class DeltaNotPossible(Exception):
    """A delta is not possible, or not the better way; the message says why."""

    def __init__(self, why: str, *, damaged: bool = False) -> None:
        super().__init__(why)
        self.damaged = damaged


@dataclass(frozen=True)
class Parent:
    """A version that another one can be made from, as far as its manifest tells."""

    folder: Path
    manifest: Manifest
    facts: BuildFacts


class Rows(NamedTuple):
    """Two tables compared. `added` are numbers of rows of the later one that the earlier lacks, in the order of their ids; `removed` are ids that go.

    `kept` are the other rows of the later one, and `places` where these are in the earlier one.
    """

    added: RowNumbers
    removed: list[str]
    kept: RowNumbers
    places: RowNumbers


@dataclass(frozen=True)
class Difference:
    """From a parent to a table: rows to add, and ids to delete first."""

    rows: Rows
    facts: BuildFacts


def full_facts(rows: int, why: DeltaNotPossible | None = None) -> BuildFacts:
    why_full, damaged = (str(why), why.damaged) if why else (None, False)
    return BuildFacts(kind="full", added=rows, removed=0, added_since_full=0, deltas=0, layout=row_layout(), why_full=why_full, parent_damaged=damaged)


def row_layout() -> str:
    """Changes when the code that makes a row of Chroma does, or Chroma itself: rows of before are then not what would be written today."""
    return short_hash([code_fingerprint("index.chroma.rows"), version("chromadb")])


def usable_parent(job: BuildJob, folder: Path) -> Parent:
    """The version in `folder`. Raises DeltaNotPossible where its Chroma directory is no beginning for the job's."""
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
    if f"{CHROMA}/" not in "".join(stored.path for stored in manifest.files):
        raise DeltaNotPossible("too few rows before")  # fewer than two are never flushed to files of their own
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
    """Compares ids and times of `table` with those of the parent. Raises DeltaNotPossible where no delta should be made."""
    manifest, earlier = parent.manifest, parent.facts
    try:
        before = pq.read_table(verified_chunks(parent.folder, manifest), columns=["chunk_id", "fetched_at"])
    except DamagedVersion as error:
        raise DeltaNotPossible(error.message, damaged=True) from error
    compared = compare_rows(before, table)
    live, rows = manifest.counts.chunks, table.num_rows
    added, removed = len(compared.added), len(compared.removed)
    since_full = earlier.added_since_full + added
    if earlier.deltas >= _DUE_DELTAS:
        raise DeltaNotPossible(f"{earlier.deltas} deltas since the last one")
    if since_full > _DUE_SHARE * rows:
        raise DeltaNotPossible(f"{since_full} rows of {rows} would have been added since the last one")
    if _DELTA + _COPY * live + _DELETE * removed + _ADD * added >= _ADD * rows:
        raise DeltaNotPossible(f"cheaper than copying {live} rows, deleting {removed} and adding {added}")
    facts = BuildFacts(kind="delta", added=added, removed=removed, added_since_full=since_full, deltas=earlier.deltas + 1, layout=earlier.layout)
    return Difference(compared, facts)


def compare_rows(before: pa.Table, after: pa.Table) -> Rows:
    """What has to change for rows that are as in `before` to be as in `after`.

    The time at which a content was first seen is no part of its id and stands in Chroma: where it differs, a row goes and comes anew.
    """
    ids, ids_before = _whole(after, "chunk_id"), _whole(before, "chunk_id")
    place = pc.index_in(ids, value_set=ids_before)
    is_kept = pc.fill_null(pc.equal(_whole(before, "fetched_at").take(place), _whole(after, "fetched_at")), False)
    numbers = pc.indices_nonzero(pc.invert(is_kept))
    gone = pc.invert(pc.is_in(ids_before, value_set=ids.filter(is_kept)))
    added = numbers.take(pc.sort_indices(ids.take(numbers)))
    removed: list[str] = ids_before.filter(gone).sort().to_pylist()
    return Rows(_numbers(added), removed, _numbers(pc.indices_nonzero(is_kept)), _numbers(place.filter(is_kept)))


def _numbers(array: pa.Array) -> RowNumbers:
    numbers: RowNumbers = array.to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers


def _whole(table: pa.Table, name: str) -> pa.Array:
    return pa.concat_arrays([pa.array([], pa.string()), *table.column(name).chunks])


def verified_chunks(folder: Path, manifest: Manifest) -> Path:
    """The chunks table of a version, which is byte by byte the one that was published. Raises DamagedVersion where it is not."""
    path = folder / CHUNKS
    wanted = next((stored.sha256 for stored in manifest.files if stored.path == CHUNKS), None)
    if not path.is_file():
        raise DamagedVersion(f"{CHUNKS} of {manifest.version} is missing", where=str(path))
    if file_sha256(path) != wanted:
        raise DamagedVersion(f"{CHUNKS} of {manifest.version} was altered", where=str(path))
    return path
