"""Compaction: the live version's segments are merged into few without deleted rows, and published as a new version of
the same content.

Like a promotion in place: nothing is embedded, and the gate's verdict stands. A version that is a single segment is
built in full where deltas have left holes in it.
"""

import time
from pathlib import Path

from pydantic import ValidationError

from almanac.core.clock import utc_now
from almanac.core.durable import remove
from almanac.core.logs import get_logger
from almanac.core.progress import OnProgress, ignore
from almanac.core.tables import CHUNK_SCHEMA, CHUNKS, DOCUMENTS, ITEM_SCHEMA, RECORDS, TableWriter
from almanac.index.build.builder import build_version
from almanac.index.build.job import BuildFacts, BuildJob, SegmentSpec
from almanac.index.build.planner import PlanJob
from almanac.index.build.policy import fits_one_segment, rows_each
from almanac.index.build.staged_segments import unused_folder
from almanac.index.composing.version import build_segmented
from almanac.index.segments.segment_store import segment_dir
from almanac.index.segments.version_tables import VersionTables
from almanac.index.upkeep.composition import TABLES, read_deletions
from almanac.index.upkeep.rebuild import require_tables
from almanac.index.vectors.keys import keys_in
from almanac.index.vectors.restore import restore_vectors
from almanac.index.vectors.vector_store import VectorStore
from almanac.index.verify.verifier import require_none, verify_folder, verify_version, verify_whole
from almanac.index.versions.lock import Lease
from almanac.index.versions.publications import override_of
from almanac.index.versions.publish import finish_version, publish_after
from almanac.index.versions.version_store import (
    list_versions,
    next_version,
    read_manifest,
    resolve_version,
    version_dir,
)
from almanac.schemas.manifest import Manifest, SegmentUse
from almanac.schemas.reports import CompactResult, SegmentCounts

_log = get_logger("almanac.compact")


def compact_version(
    index_dir: Path, limit: int, vectors_root: Path, *, lease: Lease | None = None, on_progress: OnProgress = ignore
) -> CompactResult:
    """Merges the segments of the live version, and publishes the result as a new version unless another one has gone
    live meanwhile.

    Where there is nothing to merge, nothing changes. The caller has the writer lock and is inside `vectors_in_use`. A
    kill leaves the live version as it is; segments that were finished are found again by their content.

    Args:
        index_dir: The knowledge base's index directory.
        limit: `index.segment`: a version of at most so many chunks becomes a single segment.
        vectors_root: Folder of the vector store.
        lease: The writer's lock, checked before anything is written that counts.
        on_progress: Called with (chunks done, chunks in total).

    Raises NothingPublished before the first publication, DamagedVersion where a table, a list of deleted rows or the
    result is not what the manifest says.
    """
    started = time.perf_counter()
    live = resolve_version(index_dir)
    manifest = read_manifest(index_dir, live)
    new = _finished_before(index_dir, manifest, vectors_root)
    if new is None and _is_due(manifest, limit):
        new = _merged(index_dir, manifest, limit, vectors_root, lease, on_progress)
    is_live = new is None or publish_after(
        index_dir, new.version, live, override=override_of(index_dir, live), lease=lease
    )
    return CompactResult(
        kb=manifest.kb,
        version=live if new is None else new.version,
        previous=live,
        published=is_live,
        segments=SegmentCounts(before=_count(manifest), after=_count(new or manifest)),
        deleted=sum(use.deleted for use in manifest.segments) if new else 0,
        seconds=round(time.perf_counter() - started, 3),
    )


def _finished_before(index_dir: Path, manifest: Manifest, vectors_root: Path) -> Manifest | None:
    """The newest version that an earlier compaction of this one made and did not publish, if it is intact."""
    for other in reversed(list_versions(index_dir)):
        if other.digest == manifest.digest and other.lineage.get("compacted") == _origin(manifest):
            folder = version_dir(index_dir, other.version)
            return None if verify_version(folder, other, vectors_root, other.embedder) else other
    return None


def _origin(manifest: Manifest) -> dict[str, str]:
    return {"version": manifest.version, "created_at": manifest.created_at}


def _count(manifest: Manifest) -> int:
    return max(1, len(manifest.segments))


def _is_due(manifest: Manifest, limit: int) -> bool:
    """Whether there are deleted rows, holes that deltas left, or more segments than there would be."""
    if not manifest.segments:
        return _has_holes(manifest)
    small = [use for use in manifest.segments if use.chunks < limit or use.deleted]
    rows = sum(use.live for use in small)
    merged = -(-rows // rows_each(rows, limit)) if rows else 0
    is_single = manifest.counts.chunks <= limit
    return is_single or merged < len(small) or any(use.deleted for use in manifest.segments)


def _has_holes(manifest: Manifest) -> bool:
    """Whether Chroma's index has the slots of rows that deltas have deleted, as far as the manifest says how it was
    built.
    """
    try:
        return BuildFacts.model_validate(manifest.lineage.get("build")).slots > manifest.counts.chunks
    except ValidationError:
        return False


def _merged(
    index_dir: Path, manifest: Manifest, limit: int, vectors_root: Path, lease: Lease | None, on_progress: OnProgress
) -> Manifest | None:
    """Builds, verifies and finishes the new version; returns its manifest, None where the same segments come out."""
    folder = version_dir(index_dir, next_version(index_dir))
    staged = unused_folder(index_dir, "tables")
    try:
        _stage_tables(index_dir, manifest, staged, vectors_root)
        facts, segments = _build(index_dir, manifest, folder, staged, limit, vectors_root, lease, on_progress)
        if segments and segments == manifest.segments:
            remove(folder)
            return None
        new = _as_new_version(manifest, folder.name, facts, segments)
        require_none(
            verify_whole(folder, new) if segments else verify_folder(folder, new, vectors_root),
            f"{manifest.version} cannot be compacted",
            folder,
            f"almanac verify KB {manifest.version} says whether it is damaged; it serves on",
        )
        finished = finish_version(index_dir, new, lease=lease)
    except BaseException:
        if folder.is_dir():
            remove(folder)
        raise
    finally:
        remove(staged)
    _log.info(
        "compacted",
        kb=manifest.kb,
        version=manifest.version,
        to=finished.version,
        segments=len(manifest.segments),
        now=len(segments),
    )
    return finished


def _stage_tables(index_dir: Path, manifest: Manifest, staged: Path, vectors_root: Path) -> None:
    """Writes the live rows of all segments as the tables of one, after a check of what they are read from, and restores
    vectors that the store has lost.
    """
    tables = VersionTables.in_folder(version_dir(index_dir, manifest.version), manifest)
    read_deletions(tables.folder, manifest)
    for folder, sealed in tables.folders():
        require_tables(folder, sealed)
        restore_vectors(VectorStore(vectors_root, manifest.embedder), keys_in(folder / CHUNKS), folder, sealed)
    for name in TABLES:
        with TableWriter(staged / name, CHUNK_SCHEMA if name == CHUNKS else ITEM_SCHEMA) as writer:
            for batch in tables.batches(name):
                writer.write(batch)


def _build(
    index_dir: Path,
    manifest: Manifest,
    folder: Path,
    staged: Path,
    limit: int,
    vectors_root: Path,
    lease: Lease | None,
    on_progress: OnProgress,
) -> tuple[BuildFacts, list[SegmentUse]]:
    """Builds the folder of the new version, as a single segment or, above the limit, as several; no segments are
    returned for a single one.
    """
    paths = {"chunks": staged / CHUNKS, "records": staged / RECORDS, "documents": staged / DOCUMENTS}
    spec = SegmentSpec.from_manifest(manifest, vectors_root)
    if fits_one_segment(staged / CHUNKS, limit):
        known = [segment_dir(index_dir, use.segment) for use in manifest.segments]
        job = BuildJob(version_dir=folder, known_from=known, **paths, **dict(spec))
        return build_version(job, on_progress=on_progress), []
    parent = version_dir(index_dir, manifest.version)
    plan = PlanJob(
        index_dir=index_dir, version_dir=folder, spec=spec, limit=limit, parent=parent, merge_all=True, **paths
    )
    built = build_segmented(plan, lease=lease, on_progress=on_progress)
    return built.facts, list(built.segments)


def _as_new_version(manifest: Manifest, name: str, facts: BuildFacts, segments: list[SegmentUse]) -> Manifest:
    lineage = {**manifest.lineage, "build": facts.model_dump(), "compacted": _origin(manifest)}
    return manifest.model_copy(
        update={
            "version": name,
            "parent": manifest.version,
            "created_at": utc_now(),
            "lineage": lineage,
            "segments": segments,
            "files": [],
        }
    )
