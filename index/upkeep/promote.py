"""Promotion: copies a verified version, with its tables and vectors, from one data directory to another, such as from
staging to production.
"""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from almanac.core.clock import utc_now
from almanac.core.durable import TEMPORARY, remove, sweep
from almanac.core.logs import get_logger
from almanac.core.pins import Pin
from almanac.core.settings import DataDir
from almanac.core.tables import CHUNKS
from almanac.index.build.staged_segments import is_intact, unused_folder
from almanac.index.chroma.copy import copy_database, copy_listed
from almanac.index.composing.made_segments import put_in_place
from almanac.index.segments.segment_store import segment_dir, segment_in
from almanac.index.upkeep.takedown import forgotten_urls
from almanac.index.upkeep.url_content import find_in_version
from almanac.index.vectors.keys import keys_in
from almanac.index.vectors.retention import vectors_in_use
from almanac.index.vectors.vector_store import VectorStore
from almanac.index.verify.verifier import require_none, verify_folder, verify_version, verify_whole
from almanac.index.versions.lock import Lease, writer_lock
from almanac.index.versions.publications import override_of
from almanac.index.versions.publish import finish_version, publish
from almanac.index.versions.seal import seal
from almanac.index.versions.version_store import (
    discard_unfinished,
    list_versions,
    next_version,
    pin_version,
    read_manifest,
    read_pointer,
    usable_pointer,
    version_dir,
    version_number,
)
from almanac.schemas.errors import GateRefused, UsageError
from almanac.schemas.manifest import Manifest, Sealed, Segment
from almanac.schemas.reports import Problem, PromoteResult

_PART = 500  # vectors in one part, as embedding writes them
_log = get_logger("almanac.promote")


def promote_version(source: DataDir, target: DataDir, kb: str, version: str, *, go_live: bool = True) -> PromoteResult:
    """Verifies a version in `source`, copies it with its vectors to `target`, verifies the copy and publishes it, under
    the target's writer lock.

    If the target already has a complete version with the same content, that one is verified and published instead; if
    it is live already, nothing changes.

    Args:
        source: Data directory that has the version.
        target: Data directory to copy it to.
        kb: Name of the knowledge base.
        version: Name of the version in `source`; it may get another one in `target`.
        go_live: Whether to publish the version there.

    Raises GateRefused for a version that the gate refused and that was not published by an override, DamagedVersion
    where a verification finds problems, UsageError where the directories are the same or the version contains items
    taken down in `target`, RunLocked while the target is being written.
    """
    if source.root == target.root or (target.root.exists() and source.root.samefile(target.root)):
        raise UsageError(
            "the version is in that data directory already",
            where=str(target.root),
            hint="--to names another one, such as production's",
        )
    manifest = read_manifest(source.index(kb), version)
    override = override_of(source.index(kb), version)
    _require_passed(manifest, override, source.index(kb))
    target.require_writable()
    pin = pin_version(source.index(kb), version)
    try:
        with (
            writer_lock(target.index(kb), "promote") as lease,
            vectors_in_use(source.vectors),
            vectors_in_use(target.vectors),
        ):
            _require_whole(version_dir(source.index(kb), version), manifest, source)
            promoted = _take_over(source, target, pin, manifest, lease)
            live = read_pointer(target.index(kb))
            if go_live and live != promoted:
                publish(target.index(kb), promoted, override=override, lease=lease)
    finally:
        pin.close()
    return PromoteResult(
        kb=kb,
        version=version,
        promoted=promoted,
        to=str(target.root),
        published=read_pointer(target.index(kb)) == promoted,
        digest=manifest.digest,
    )


def _require_passed(manifest: Manifest, override: str | None, index_dir: Path) -> None:
    if manifest.gate.verdict != "passed" and not override:
        raise GateRefused(
            f"the gate refused {manifest.version}, and it was not published with --override-gate",
            where=str(version_dir(index_dir, manifest.version)),
            hint=f"almanac publish KB {manifest.version} --override-gate WHY, then promote it",
        )


def _require_whole(folder: Path, manifest: Manifest, data: DataDir) -> None:
    _require_intact(verify_version(folder, manifest, data.vectors, manifest.embedder), manifest, folder)


def _require_intact(problems: Sequence[Problem], sealed: Manifest | Segment, folder: Path) -> None:
    version = sealed.version if isinstance(sealed, Manifest) else "VERSION"
    hint = f"almanac verify KB {version} lists what differs; almanac rebuild KB {version} mends all but its tables"
    require_none(problems, f"{sealed.called} differs from what it should be", folder, hint)


def _take_over(source: DataDir, target: DataDir, pin: Pin, manifest: Manifest, lease: Lease) -> str:
    """Returns the version's name in `target`, after copying it or finding and verifying an equal one."""
    index_dir = target.index(manifest.kb)
    discard_unfinished(index_dir)
    sweep(target.vectors.glob(f"*/{TEMPORARY}"))
    _refuse_forgotten(source, index_dir, pin.folder, manifest)
    there = _same_there(index_dir, manifest)
    if there is not None:
        _require_whole(version_dir(index_dir, there.version), there, target)
        return there.version
    _copy_segments(source, target, manifest, lease)
    folder = version_dir(index_dir, next_version(index_dir))
    new = _as_version_of(target, folder.name, manifest)
    try:
        folder.mkdir(parents=True)
        copy_listed(pin.folder, manifest, folder)
        if manifest.segments:
            _require_intact(verify_whole(folder, new), new, folder)
        else:
            _complete_copy(source, target, pin.folder, new, manifest, folder)
    except BaseException:
        remove(folder)
        raise
    finish_version(index_dir, new, lease=lease)
    _log.info("promoted", kb=manifest.kb, version=manifest.version, to=str(folder))
    return folder.name


def _copy_segments(source: DataDir, target: DataDir, manifest: Manifest, lease: Lease) -> None:
    """Copies the segments that the target lacks or has damaged, with their vectors; each is verified, and sealed
    there.
    """
    index_dir = target.index(manifest.kb)
    for use in manifest.segments:
        if is_intact(index_dir, use.segment):
            continue
        pin = Pin(segment_dir(source.index(manifest.kb), use.segment))
        successor = unused_folder(index_dir, "promoted")
        try:
            segment = segment_in(pin.folder)
            copied = segment.model_copy(update={"files": []})
            copy_listed(pin.folder, segment, successor)
            _complete_copy(source, target, pin.folder, copied, segment, successor)
            seal(successor, copied, lease=lease)
            put_in_place(index_dir, use.segment, successor)
        except BaseException:
            if successor.is_dir():
                remove(successor)
            raise
        finally:
            pin.close()


def _complete_copy(
    source: DataDir, target: DataDir, origin: Path, new: Manifest | Segment, listed: Sealed, folder: Path
) -> None:
    """Copies what `folder` needs beside the files of `origin` that are `listed`: Chroma's database, and the vectors of
    the tables. Then verifies the folder.
    """
    _copy_vectors(source, target, origin, listed)
    copy_database(origin, folder)
    problems = verify_folder(folder, new, target.vectors)
    # A part that was there already may have turned out to be damaged: it has been put aside by now.
    if problems and _copy_vectors(source, target, origin, listed):
        problems = verify_folder(folder, new, target.vectors)
    _require_intact(problems, new, folder)


def _same_there(index_dir: Path, manifest: Manifest) -> Manifest | None:
    """Returns a complete version with the same content: the live one if it qualifies, else the newest; None where there
    is none.
    """
    live = read_pointer(index_dir)
    same = [version for version in list_versions(index_dir) if _content_of(version) == _content_of(manifest)]
    return max(same, key=lambda equal: (equal.version == live, version_number(equal.version)), default=None)


def _content_of(manifest: Manifest) -> tuple[object, ...]:
    return manifest.digest, manifest.collection, manifest.embedder, manifest.fingerprints.get("index")


def _as_version_of(target: DataDir, name: str, manifest: Manifest) -> Manifest:
    origin = manifest.model_dump(include={"version", "digest", "run_id", "created_at"})
    return manifest.model_copy(
        update={
            "version": name,
            "parent": usable_pointer(target.index(manifest.kb)),
            "created_at": utc_now(),
            "lineage": {**manifest.lineage, "promoted": origin},
            "files": [],
        }
    )


def _refuse_forgotten(source: DataDir, index_dir: Path, folder: Path, manifest: Manifest) -> None:
    """Raises UsageError where the version contains items that were taken down in the target: a promotion must not bring
    them back.

    Rows that it has deleted count, since its segments still have them.
    """
    forgotten = forgotten_urls(index_dir)
    content = find_in_version(source.index(manifest.kb), folder, manifest, forgotten) if forgotten else None
    if content is not None and content.items:
        raise UsageError(
            f"{manifest.version} holds {len(content.items)} items that were taken down there; the first: "
            f"{min(content.items)[1]}",
            where=str(index_dir),
            hint="almanac forget KB URL takes them down here, too; then promote the version again",
        )


def _copy_vectors(source: DataDir, target: DataDir, folder: Path, manifest: Sealed) -> int:
    """Copies the vectors that the tables in `folder` need and the target lacks; returns their number."""
    ours, theirs = VectorStore(source.vectors, manifest.embedder), VectorStore(target.vectors, manifest.embedder)
    column = keys_in(folder / CHUNKS)
    absent = theirs.absent(column)
    for begin in range(0, len(absent), _PART):
        keys = column.take(pa.array(absent[begin : begin + _PART])).to_pylist()
        theirs.write_part(keys, ours.read(keys))
    return len(absent)
