"""Rebuilds a version's Chroma directory, lexical index and matrix from its tables and the vector store.

The new folder is built beside the version and exchanged with it in one atomic step.
"""

import time
from collections.abc import Callable
from pathlib import Path

from almanac.core.durable import exchange, remove
from almanac.core.tables import CHUNKS, DOCUMENTS, RECORDS
from almanac.index.build.builder import build_version
from almanac.index.build.job import BuildJob
from almanac.index.vectors.keys import keys_in
from almanac.index.vectors.restore import restore_vectors
from almanac.index.vectors.store import VectorStore
from almanac.index.verify.verifier import verify_version
from almanac.index.versions.lock import Lease
from almanac.index.versions.pins import remove_unless_pinned
from almanac.index.versions.seal import seal
from almanac.index.versions.store import manifest_in, read_manifest, version_dir
from almanac.schemas.errors import DamagedVersion
from almanac.schemas.hashing import file_sha256
from almanac.schemas.manifest import Manifest
from almanac.schemas.reports import RebuildResult

TABLES = (CHUNKS, RECORDS, DOCUMENTS)
_Progress = Callable[[int, int], None]


def rebuild_version(index_dir: Path, version: str, vectors_root: Path, *, lease: Lease | None = None, on_progress: _Progress | None = None) -> RebuildResult:
    """Repairs any damage to a version except to its tables. Nothing is embedded; digest and tables stay the same.

    Vectors that the vector store has lost are taken from the version itself.

    Readers continue with the files that they have open; a kill leaves either the old or the new directory in place, complete.

    Args:
        index_dir: The knowledge base's index directory.
        version: Name of the version.
        vectors_root: Folder of the vector store.
        lease: The writer's lock, checked before the manifest is written.
        on_progress: Called with (rows done, rows in total).

    Raises DamagedVersion where a table differs from the manifest, or a vector is missing in both places, since both are needed for the rebuild.
    """
    started = time.perf_counter()
    manifest = read_manifest(index_dir, version)
    require_tables(version_dir(index_dir, version), manifest)
    replace_version(index_dir, manifest, version_dir(index_dir, version), vectors_root, lease=lease, on_progress=on_progress)
    seconds = round(time.perf_counter() - started, 3)
    return RebuildResult(kb=manifest.kb, version=version, digest=manifest.digest, chunks=manifest.counts.chunks, seconds=seconds)


def replace_version(
    index_dir: Path, manifest: Manifest, tables: Path, vectors_root: Path, *, lease: Lease | None = None, on_progress: _Progress | None = None
) -> None:
    """Builds a version for `manifest` from the tables in the folder `tables`, verifies it and exchanges it with the existing version of that name.

    Raises DamagedVersion where the build or its verification fails; the existing version then stays in place.
    """
    folder = version_dir(index_dir, manifest.version)
    beside = hidden_folder(folder)
    given = {name: tables / name for name in TABLES if (tables / name).is_file()}
    job = BuildJob(
        version_dir=beside,
        kb=manifest.kb,
        collection=manifest.collection,
        language=manifest.language,
        chunks=given[CHUNKS],
        records=given.get(RECORDS),
        documents=given.get(DOCUMENTS),
        vectors_root=vectors_root,
        embedder=manifest.embedder,
    )
    try:
        try:
            _restore(job, folder)
            _build_beside(job, manifest, lease, on_progress)
        except DamagedVersion:
            # Reading the vectors may have shown that a part is damaged: it has been put aside by now.
            if not _restore(job, folder):
                raise
            remove(beside)
            _build_beside(job, manifest, lease, on_progress)
        exchange(beside, folder)
    except BaseException:
        if beside.is_dir():
            remove(beside)
        raise
    remove_unless_pinned(beside)  # otherwise `discard_unfinished` removes it once no reader has it pinned


def _restore(job: BuildJob, folder: Path) -> int:
    """Restores the vectors that the job needs and only the version in `folder` has; returns their number."""
    manifest = manifest_in(folder, folder.parent.parent, folder.name)
    return restore_vectors(VectorStore(job.vectors_root, job.embedder), keys_in(job.chunks), folder, manifest)


def _build_beside(job: BuildJob, manifest: Manifest, lease: Lease | None, on_progress: _Progress | None) -> None:
    version = manifest.version
    try:
        facts = build_version(job, on_progress=on_progress)
        built = manifest.model_copy(update={"files": [], "lineage": {**manifest.lineage, "build": facts.model_dump()}})
        if problems := verify_version(job.version_dir, built, job.vectors_root, manifest.embedder):
            raise DamagedVersion(f"{problems[0].kind} at {problems[0].where}, and {len(problems) - 1} more", where=str(job.version_dir))
    except DamagedVersion as error:
        raise DamagedVersion(
            f"{version} cannot be built again: {error.message}",
            where=error.where,
            hint=f"almanac verify KB {version} lists what is missing or altered; almanac run KB builds a new version, and embeds what that one needs",
        ) from error
    seal(job.version_dir, built, lease=lease)


def require_tables(folder: Path, manifest: Manifest) -> None:
    """Raises DamagedVersion unless the SHA-256 of each table matches the manifest."""
    for stored in manifest.files:
        if stored.path not in TABLES:
            continue
        path = folder / stored.path
        found = file_sha256(path) if path.is_file() else None
        if found != stored.sha256:
            raise DamagedVersion(
                f"{stored.path} of {manifest.version} {'was altered' if found else 'is missing'}, and a version is made from its tables",
                where=str(path),
                hint="almanac rollback KB serves an older version; almanac run KB builds a new one; or bring the file back from a backup",
            )


def hidden_folder(folder: Path) -> Path:
    """Returns an unused hidden path beside a version's folder; leftovers there are removed by the next writer."""
    number = 1
    while (found := folder.with_name(f".{folder.name}.{number}")).exists():
        number += 1
    return found
