"""Rebuilds a version's Chroma directory, lexical index and matrix from its tables and the vector store; of a version of
segments, those that are damaged.

Each folder is built beside the one that it replaces and exchanged with it in one atomic step.
"""

import time
from pathlib import Path

from almanac.core.durable import remove
from almanac.core.progress import OnProgress, ignore
from almanac.core.tables import CHUNKS, DOCUMENTS, RECORDS
from almanac.index.build.builder import build_version
from almanac.index.build.job import BuildJob, SegmentSpec
from almanac.index.segments.segment_store import read_segment, segment_dir
from almanac.index.upkeep.composition import TABLES, read_deletions, recompose, replacing, require_unaltered
from almanac.index.vectors.keys import keys_in
from almanac.index.vectors.restore import restore_vectors
from almanac.index.vectors.vector_store import VectorStore
from almanac.index.verify.verifier import require_none, verify_folder, verify_segment, verify_whole
from almanac.index.versions.lock import Lease
from almanac.index.versions.seal import seal
from almanac.index.versions.version_store import read_manifest, version_dir
from almanac.schemas.errors import DamagedVersion
from almanac.schemas.manifest import Manifest, Sealed, Segment
from almanac.schemas.reports import RebuildResult


def rebuild_version(
    index_dir: Path, version: str, vectors_root: Path, *, lease: Lease | None = None, on_progress: OnProgress = ignore
) -> RebuildResult:
    """Repairs any damage to a version except to its tables and lists of deleted rows. Nothing is embedded; digest and
    tables stay the same.

    Vectors that the vector store has lost are taken from the version itself.

    Readers continue with the files that they have open; a kill leaves either the old or the new directory in place,
    complete.

    Args:
        index_dir: The knowledge base's index directory.
        version: Name of the version.
        vectors_root: Folder of the vector store.
        lease: The writer's lock, checked before the manifest is written.
        on_progress: Called with (rows done, rows in total).

    Raises DamagedVersion where a table differs from the manifest, or a vector is missing in both places, since both are
    needed for the rebuild.
    """
    started = time.perf_counter()
    manifest = read_manifest(index_dir, version)
    folder = version_dir(index_dir, version)
    if manifest.segments:
        _rebuild_segments(index_dir, manifest, vectors_root, lease, on_progress)
    else:
        require_tables(folder, manifest)
        replace_folder(folder, manifest, manifest, folder, vectors_root, lease=lease, on_progress=on_progress)
    seconds = round(time.perf_counter() - started, 3)
    return RebuildResult(
        kb=manifest.kb, version=version, digest=manifest.digest, chunks=manifest.counts.chunks, seconds=seconds
    )


def _rebuild_segments(
    index_dir: Path, manifest: Manifest, vectors_root: Path, lease: Lease | None, on_progress: OnProgress
) -> None:
    """Rebuilds the damaged segments of a version; all of them where nothing at all is damaged. Then the version's own
    files are written anew. What other versions share of these segments is mended with them.
    """
    folder, names = version_dir(index_dir, manifest.version), [use.segment for use in manifest.segments]
    deletions = read_deletions(folder, manifest)
    damaged = [name for name in names if verify_segment(index_dir, name, vectors_root, manifest.embedder)]
    if not damaged and not verify_whole(folder, manifest):
        damaged = names
    segments = {name: read_segment(index_dir, name) for name in damaged}
    for name, segment in segments.items():
        require_tables(segment_dir(index_dir, name), segment)
    total, done = sum(segment.counts.chunks for segment in segments.values()), 0
    for name, segment in segments.items():

        def report(rows: int, _: int, before: int = done) -> None:
            on_progress(before + rows, total)

        place = segment_dir(index_dir, name)
        replace_folder(place, segment, segment, place, vectors_root, lease=lease, on_progress=report)
        done += segment.counts.chunks
    recompose(index_dir, manifest, deletions, lease=lease)


def replace_folder(
    folder: Path,
    before: Sealed,
    sealed: Manifest | Segment,
    tables: Path,
    vectors_root: Path,
    *,
    lease: Lease | None = None,
    on_progress: OnProgress = ignore,
) -> None:
    """Builds a version of one segment, or a segment, anew, verifies it and exchanges its folder.

    Args:
        folder: The folder.
        before: Its present manifest, by which vectors that the store has lost are restored.
        sealed: The manifest of what is built.
        tables: The folder with the tables that it is built from.
        vectors_root: Folder of the vector store.
        lease: The writer's lock, checked before the manifest is written.
        on_progress: Called with (rows done, rows in total).

    Raises DamagedVersion where the build or its verification fails; what there was then stays in place.
    """
    given = {name: tables / name for name in TABLES if (tables / name).is_file()}
    with replacing(folder) as successor:
        job = BuildJob(
            version_dir=successor,
            chunks=given[CHUNKS],
            records=given.get(RECORDS),
            documents=given.get(DOCUMENTS),
            **dict(SegmentSpec.from_manifest(sealed, vectors_root)),
        )

        def restore() -> int:
            return restore_vectors(VectorStore(vectors_root, sealed.embedder), keys_in(job.chunks), folder, before)

        try:
            restore()
            _build_sealed(job, sealed, lease, on_progress)
        except DamagedVersion:
            # Reading the vectors may have shown that a part is damaged: it has been put aside by now.
            if not restore():
                raise
            remove(successor)
            _build_sealed(job, sealed, lease, on_progress)


def _build_sealed(job: BuildJob, sealed: Manifest | Segment, lease: Lease | None, on_progress: OnProgress) -> None:
    version = sealed.version if isinstance(sealed, Manifest) else "VERSION"
    finding = f"{sealed.called} cannot be built again"
    hint = (
        f"almanac verify KB {version} lists what is missing or altered; almanac run KB builds a new version, and "
        "embeds what that one needs"
    )
    try:
        facts = build_version(job, on_progress=on_progress)
    except DamagedVersion as error:
        raise DamagedVersion(f"{finding}: {error.message}", where=error.where, hint=hint) from error
    built = sealed.model_copy(update={"files": [], "lineage": {**sealed.lineage, "build": facts.model_dump()}})
    require_none(verify_folder(job.version_dir, built, job.vectors_root), finding, job.version_dir, hint)
    seal(job.version_dir, built, lease=lease)


def require_tables(folder: Path, manifest: Sealed) -> None:
    """Raises DamagedVersion unless the SHA-256 of each table matches the manifest."""
    require_unaltered(folder, manifest, "a version is made from its tables", TABLES.__contains__)
