"""Makes segments: their tables are staged in a hidden folder, a child builds the rest from them, another one verifies it, and the sealed folder gets its name.

A segment that is in its place is complete. After a kill, those that were finished are found by their names, which are hashes of their content.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict

from almanac.core.clock import utc_now
from almanac.core.durable import exchange, move, remove
from almanac.core.progress import OnProgress, ignore
from almanac.core.stamps import altered_file
from almanac.core.tables import CHUNK_SCHEMA, CHUNKS, DOCUMENTS, ITEM_SCHEMA, RECORDS, TableWriter, read_table
from almanac.index.build.builder import build_version
from almanac.index.build.delta import row_layout
from almanac.index.build.digest import DIGESTED, digest_of
from almanac.index.build.job import AbsolutePath, BuildJob
from almanac.index.lexical.deleted import write_deleted_terms
from almanac.index.lexical.facts import LEXICAL, analyzer_fingerprint, lexical_facts
from almanac.index.lexical.terms import TERMS, TermsFile
from almanac.index.segments.deleted import DELETED, deleted_terms_file, write_deleted_rows
from almanac.index.segments.store import SEGMENTS, is_sealed, read_segment, segment_dir
from almanac.index.vectors.exact import most_repeats
from almanac.index.vectors.keys import RowNumbers
from almanac.index.verify.verifier import verify_version
from almanac.index.versions.lock import Lease
from almanac.index.versions.pins import remove_unless_pinned
from almanac.index.versions.seal import seal
from almanac.schemas.errors import DamagedVersion
from almanac.schemas.hashing import canonical_json, sha256
from almanac.schemas.manifest import FORMAT, Counts, Derived, EmbedderInfo, Segment

_SCHEMAS = {CHUNKS: CHUNK_SCHEMA, RECORDS: ITEM_SCHEMA, DOCUMENTS: ITEM_SCHEMA}
_ITEM_KEY = ("source", "kind", "document_id", "content_sha256", "raw_sha256", "fetched_at")  # `content_sha256` covers all that a reader sees
_CHUNK_KEY = ("chunk_id", "fetched_at")  # the id covers the rest
KEYS = {CHUNKS: _CHUNK_KEY, RECORDS: _ITEM_KEY, DOCUMENTS: _ITEM_KEY}


class SegmentSpec(BaseModel):
    """What the segments of a version have in common. With a segment's rows, it determines its content."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kb: str
    collection: str  # name of the Chroma collection
    language: str  # as declared: a BCP 47 tag or `auto`
    embedder: EmbedderInfo
    vectors_root: AbsolutePath  # folder of the vector store

    @property
    def making(self) -> str:
        """Fingerprint of how segments are made: those of another one have to be made again."""
        made = [FORMAT, self.kb, self.collection, self.language, self.embedder.fingerprint, row_layout(), analyzer_fingerprint()]
        return sha256(canonical_json(made))[:16]


class StagedSegment(BaseModel):
    """A segment whose tables are written. `folder` is the hidden folder that has them; None where an equal segment is in its place already."""

    model_config = ConfigDict(frozen=True)

    name: str
    counts: Counts
    folder: Path | None

    @property
    def is_new(self) -> bool:
        return self.folder is not None


class Stager:
    """Context manager that writes the tables of a segment into a hidden folder, in batches. `rows` and `bytes` count chunks and the bytes of their columns."""

    def __init__(self, index_dir: Path, spec: SegmentSpec) -> None:
        self._index_dir, self._spec = index_dir, spec
        self._folder = unused_folder(index_dir, "staged")
        self._writers = {name: TableWriter(self._folder / name, schema) for name, schema in _SCHEMAS.items()}
        self._keys: dict[str, list[str]] = {name: [] for name in _SCHEMAS}
        self.rows, self.bytes = 0, 0

    def write(self, name: str, batch: pa.Table) -> None:
        """Adds rows to the table of that name."""
        self._writers[name].write(batch)
        self._keys[name] += keys_of(batch, name).to_pylist()
        if name == CHUNKS:
            self.rows, self.bytes = self.rows + batch.num_rows, self.bytes + batch.nbytes

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for writer in self._writers.values():
            writer.__exit__(*error)  # type: ignore[arg-type]
        if error[0] is not None:
            remove(self._folder)

    def finish(self) -> StagedSegment:
        """Returns the segment of these rows. Call it after the block. Where an intact segment of that name is in its place, the staged tables are removed."""
        hashed = sha256("\n".join([self._spec.making, *(line for name in _SCHEMAS for line in (name, *sorted(self._keys[name])))]))[:32]
        counts = Counts(records=len(self._keys[RECORDS]), documents=len(self._keys[DOCUMENTS]), chunks=self.rows)
        if is_intact(self._index_dir, hashed):
            remove(self._folder)
            return StagedSegment(name=hashed, counts=counts, folder=None)
        return StagedSegment(name=hashed, counts=counts, folder=self._folder)


def keys_of(batch: pa.Table, name: str) -> pa.ChunkedArray:
    """Returns a text for each row of a table that is equal for equal rows only: ids and hashes, joined by line feeds."""
    columns = [batch.column(column).cast(pa.large_string()) for column in KEYS[name]]
    return pc.binary_join_element_wise(*columns, pa.scalar("\n", pa.large_string()), null_handling="replace")


def stage_segment(index_dir: Path, spec: SegmentSpec, tables: Mapping[str, Iterable[pa.Table]]) -> StagedSegment:
    """Writes the tables of a new segment, given as batches by name. Raises StorageError where the disk is full."""
    with Stager(index_dir, spec) as stager:
        for name, batches in tables.items():
            for batch in batches:
                stager.write(name, batch)
    return stager.finish()


def is_intact(index_dir: Path, name: str) -> bool:
    """Whether a segment of this name is sealed, and none of its files was altered."""
    folder = segment_dir(index_dir, name)
    try:
        return is_sealed(folder) and altered_file(folder, read_segment(index_dir, name).files) is None
    except DamagedVersion:
        return False


def unused_folder(index_dir: Path, what: str) -> Path:
    """Makes a hidden folder for a segment in the making; leftovers are removed by the next writer (`discard_unfinished`)."""
    for number in count(1):
        folder = index_dir / SEGMENTS / f".{what}.{number}"
        try:
            folder.mkdir(parents=True)
            return folder
        except FileExistsError:
            continue
    raise AssertionError


def make_segments(
    index_dir: Path,
    spec: SegmentSpec,
    staged: Sequence[StagedSegment],
    *,
    known_from: Sequence[str] = (),
    lease: Lease | None = None,
    on_progress: OnProgress = ignore,
) -> None:
    """Builds, verifies and seals the staged segments that are new, one on each core at a time, and puts them in their places.

    Args:
        index_dir: The knowledge base's index directory.
        spec: What the segments have in common.
        staged: The segments.
        known_from: Names of segments that have some of these rows: their texts need not be analyzed again.
        lease: The writer's lock, checked before a segment is sealed.
        on_progress: Called with (chunks done, chunks in total) over all segments.

    Raises DamagedVersion where a vector is missing or verification finds a problem, OperationalError where a child dies, StorageError where the disk fails,
    RunLocked where `lease` was lost.
    """
    new = [one for one in staged if one.folder is not None]
    total = sum(one.counts.chunks for one in new)
    done: dict[str, int] = {}

    def make(one: StagedSegment) -> None:
        def report(rows: int, _: int) -> None:
            done[one.name] = rows
            on_progress(sum(done.values()), total)

        _make(index_dir, spec, one, known_from, lease, report)

    with ThreadPoolExecutor(max(1, min(len(new), len(os.sched_getaffinity(0))))) as threads:
        for made in [threads.submit(make, one) for one in sorted(new, key=lambda one: -one.counts.chunks)]:
            made.result()


def _make(index_dir: Path, spec: SegmentSpec, one: StagedSegment, known_from: Sequence[str], lease: Lease | None, on_progress: OnProgress) -> None:
    assert one.folder is not None
    job = BuildJob(
        version_dir=one.folder,
        kb=spec.kb,
        collection=spec.collection,
        language=spec.language,
        chunks=one.folder / CHUNKS,
        vectors_root=spec.vectors_root,
        embedder=spec.embedder,
        known_from=[segment_dir(index_dir, name) for name in known_from],
    )
    facts = build_version(job, on_progress=on_progress)
    if problems := verify_version(one.folder, None, spec.vectors_root, spec.embedder):
        raise DamagedVersion(
            f"a new segment differs from what was built in {len(problems)} places; first: {problems[0].kind} at {problems[0].where}",
            where=str(one.folder),
            hint="what is published serves on; run again, and check the disk if it happens again",
        )
    table = read_table(one.folder / CHUNKS, DIGESTED)
    segment = Segment(
        segment=one.name,
        kb=spec.kb,
        digest=digest_of(table, spec.embedder.fingerprint),
        counts=one.counts,
        embedder=spec.embedder,
        derived=Derived(language_fit={}, repeats=most_repeats(table.column("text_sha256"))),
        collection=spec.collection,
        language=spec.language,
        lineage={"build": facts.model_dump(), "making": spec.making},
        created_at=utc_now(),
        files=[],
    )
    seal(one.folder, segment, lease=lease)
    put_in_place(index_dir, one.name, one.folder)


def put_in_place(index_dir: Path, name: str, folder: Path) -> None:
    """Gives a sealed segment in a hidden folder its name; one that is there, since it was damaged, is exchanged in one step and removed."""
    place = segment_dir(index_dir, name)
    if place.exists():
        exchange(folder, place)
        remove_unless_pinned(folder)  # otherwise `discard_unfinished` removes it once no reader has it pinned
    else:
        move(folder, place)


def write_deletions(
    folder: Path, index_dir: Path, segment: str, rows: Mapping[str, RowNumbers], *, known: Path | None = None, known_rows: RowNumbers | None = None
) -> None:
    """Writes which rows of a segment the version in `folder` has deleted: row numbers by table, and the statistics of the deleted chunks' terms.

    Args:
        folder: Folder of the version, not sealed yet.
        index_dir: The knowledge base's index directory.
        segment: Name of the segment.
        rows: Deleted row numbers by name of the table, ascending.
        known: Folder of a version that has the statistics of some of these chunks; None where there is none.
        known_rows: The chunks that `known` has deleted.
    """
    for name, numbers in rows.items():
        write_deleted_rows(folder, segment, name, numbers)
    chunks = rows.get(CHUNKS)
    if chunks is not None and len(chunks):
        (folder / DELETED).mkdir(parents=True, exist_ok=True)
        earlier = known / deleted_terms_file(segment) if known is not None and known_rows is not None and len(known_rows) else None
        lexical = segment_dir(index_dir, segment) / LEXICAL
        write_deleted_terms(folder / deleted_terms_file(segment), TermsFile(lexical / TERMS, lexical_facts(lexical).rows), chunks, earlier, known_rows)
