"""Completes a built directory into a version, publishes a version, and rolls back to an older one."""

from pathlib import Path

from almanac.core.clock import utc_now
from almanac.core.logs import get_logger
from almanac.index.versions.lock import Lease
from almanac.index.versions.publications import Publication, note_publication, override_of, pointer_lock, publications
from almanac.index.versions.seal import seal
from almanac.index.versions.version_store import (
    MANIFEST,
    existing_versions,
    point_to,
    read_manifest,
    require_files,
    require_published,
    require_segments,
    usable_pointer,
    version_dir,
    version_names,
    version_number,
)
from almanac.schemas.errors import DamagedVersion, GateRefused, NotFound
from almanac.schemas.manifest import Manifest

_log = get_logger("almanac.publish")


def finish_version(index_dir: Path, manifest: Manifest, *, lease: Lease | None = None) -> Manifest:
    """Syncs the directory of `manifest.version` to disk and writes its manifest, which makes it a version; returns the
    manifest with `files` filled in.

    Call it after `verify_version` found no problems, while no process has the directory open. Raises DamagedVersion
    where the directory already has a manifest, RunLocked where `lease` was lost.
    """
    folder = version_dir(index_dir, manifest.version)
    if (folder / MANIFEST).exists():
        raise DamagedVersion(
            f"{manifest.version} is finished already", where=str(folder), hint="a version is never written again"
        )
    return seal(folder, manifest, lease=lease)


def publish(index_dir: Path, version: str, *, override: str | None = None, lease: Lease | None = None) -> None:
    """Makes `version` the current one, whatever the pointer says now.

    Args:
        index_dir: The knowledge base's index directory.
        version: Name of a complete version.
        override: Reason for publishing a version that its gate refused; it is kept in the record of publications.
        lease: The writer's lock, checked before anything is written. None: the lock is not needed.

    Raises GateRefused where the gate refused the version and there is no `override`, DamagedVersion where a file is
    missing or has another size, NotFound for an unknown version, RunLocked where `lease` was lost.
    """
    with pointer_lock(index_dir):
        _publish(index_dir, version, override, lease)


def publish_after(
    index_dir: Path, version: str, previous: str | None, *, override: str | None = None, lease: Lease | None = None
) -> bool:
    """Makes `version` the current one, unless another one than `previous` is current by now: somebody rolled back while
    the version was made.

    Returns whether it was published. Raises as `publish`.
    """
    with pointer_lock(index_dir):
        if usable_pointer(index_dir) != previous:
            return False
        _publish(index_dir, version, override, lease)
        return True


def _publish(index_dir: Path, version: str, override: str | None, lease: Lease | None) -> None:
    manifest = read_manifest(index_dir, version)
    is_refused = manifest.gate.verdict != "passed"
    if is_refused and not override:
        failed = ", ".join(
            f"{check.name} {check.value} (limit {check.limit})" for check in manifest.gate.checks if not check.ok
        )
        raise GateRefused(
            f"the gate refused {version}: {failed or 'see its manifest'}",
            where=str(version_dir(index_dir, version) / MANIFEST),
            hint=f"mend the cause and run again, or almanac publish {index_dir.name} {version} --override-gate WHY",
        )
    require_files(version_dir(index_dir, version), manifest)
    require_segments(index_dir, manifest)
    previous = usable_pointer(index_dir)
    if lease:
        lease.require_held()
    publication = Publication(version=version, at=utc_now(), previous=previous, why=override if is_refused else None)
    if is_refused:
        note_publication(index_dir, publication)  # first: nobody may find it live without the reason
        point_to(index_dir, version)
    else:
        point_to(index_dir, version)
        try:
            note_publication(index_dir, publication)
        except OSError as error:  # without room for the record, the version is live all the same
            _log.warning("the publication is not recorded", kb=index_dir.name, version=version, error=str(error))
    _log.info("published", kb=index_dir.name, version=version, previous=previous, override=override)


def rollback(index_dir: Path, version: str | None = None) -> str:
    """Publishes an older version and returns its name. The writer's lock is not needed.

    Without `version`, this is the newest version older than the current one that passed its gate or was published
    before, and whose files are complete. Where the pointer is lost or names no version, it is the version that was
    published last. A refused version can be given by name if it was published before; the reason of then is reused.
    Raises NotFound when there is no version to roll back to, and otherwise as `publish`.
    """
    with pointer_lock(index_dir):
        if version is None:
            version = _version_before(index_dir)
        _publish(index_dir, version, override_of(index_dir, version), None)
    return version


def _version_before(index_dir: Path) -> str:
    require_published(index_dir)
    current, names = usable_pointer(index_dir), version_names(index_dir)
    if current is not None:
        candidates = [name for name in reversed(names) if version_number(name) < version_number(current)]
    else:
        last_first = [publication.version for publication in reversed(publications(index_dir))]
        candidates = [name for name in dict.fromkeys([*last_first, *reversed(names)]) if name in names]
    for name in candidates:
        try:
            manifest = read_manifest(index_dir, name)
            require_files(version_dir(index_dir, name), manifest)
            require_segments(index_dir, manifest)
            if manifest.gate.verdict == "passed" or override_of(index_dir, name):
                return name
        except DamagedVersion as error:
            _log.warning("version_skipped", kb=index_dir.name, version=name, error=error.message)
    older = f"no version older than {current}" if current else "no complete version that the gate let pass"
    hint = (
        f"almanac versions KB lists what there is; {existing_versions(index_dir)}"
        if names
        else "almanac run KB builds one"
    )
    raise NotFound(f"{older} to go back to", where=str(index_dir), hint=hint)
