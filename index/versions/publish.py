"""Makes a built and verified directory a version, makes a version the current one, and goes back to an older one."""

import json
from collections.abc import Iterator
from pathlib import Path

import structlog

from almanac.core.clock import utc_now
from almanac.core.durable import sync_tree, write_file
from almanac.index.chroma.rows import CHROMA
from almanac.index.versions.lock import Lease
from almanac.index.versions.store import (
    MANIFEST,
    MANIFEST_HASH,
    point_to,
    read_manifest,
    read_pointer,
    require_files,
    require_published,
    version_dir,
    version_names,
    version_number,
)
from almanac.schemas.errors import DamagedVersion, GateRefused, NotFound
from almanac.schemas.hashing import file_sha256, sha256
from almanac.schemas.manifest import Manifest, StoredFile

_log = structlog.get_logger("almanac.publish")


def finish_version(index_dir: Path, manifest: Manifest, *, lease: Lease | None = None) -> Manifest:
    """Syncs the directory of `manifest.version` and writes its manifest, with `files` filled in: from here on it is a version.

    Call it after `verify_version` found nothing and no process has the directory open. Raises RunLocked where `lease` was taken away.
    """
    folder = version_dir(index_dir, manifest.version)
    if (folder / MANIFEST).exists():
        raise DamagedVersion(f"{manifest.version} is finished already", where=str(folder), hint="a version is never written again")
    return seal(folder, manifest, lease=lease)


def seal(folder: Path, manifest: Manifest, *, lease: Lease | None = None) -> Manifest:
    """Syncs a built directory, wherever it lies, and writes its manifest into it."""
    sync_tree(folder)  # Chroma syncs its database only, never its index files
    complete = manifest.model_copy(update={"files": [_describe(path, folder) for path in sorted(_stable_files(folder))]})
    if lease:
        lease.require_held()
    content = complete.model_dump_json(indent=2) + "\n"
    write_file(folder / MANIFEST_HASH, f"{sha256(content)}  {MANIFEST}\n")  # before it: the manifest makes the directory a version
    write_file(folder / MANIFEST, content)
    return complete


def publish(index_dir: Path, version: str, *, override: str | None = None, lease: Lease | None = None) -> None:
    """Makes `version` the current one.

    Raises GateRefused where its gate refused, unless `override` says why to go on; DamagedVersion where a file of it is missing or short;
    RunLocked where `lease` was taken away.
    """
    manifest = read_manifest(index_dir, version)
    if manifest.gate.verdict != "passed" and not override:
        failed = ", ".join(f"{check.name} {check.value} (limit {check.limit})" for check in manifest.gate.checks if not check.ok)
        raise GateRefused(
            f"the gate refused {version}: {failed or 'see its manifest'}",
            where=str(version_dir(index_dir, version) / MANIFEST),
            hint=f"mend the cause and run again, or almanac publish {index_dir.name} {version} --override-gate WHY",
        )
    require_files(version_dir(index_dir, version), manifest)
    previous = read_pointer(index_dir)
    if lease:
        lease.require_held()
    if manifest.gate.verdict != "passed":
        # Beside the versions, which never change: why this one went live all the same.
        entry = {"version": version, "why": override, "at": utc_now(), "previous": previous}
        write_file(_override_path(index_dir, version), json.dumps(entry, ensure_ascii=False) + "\n")
    point_to(index_dir, version)
    _log.info("published", kb=index_dir.name, version=version, previous=previous, override=override)


def override_of(index_dir: Path, version: str) -> str | None:
    """Why a refused version was published all the same; None where it never was."""
    try:
        return str(json.loads(_override_path(index_dir, version).read_text(encoding="utf-8"))["why"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def _override_path(index_dir: Path, version: str) -> Path:
    return index_dir / "overrides" / f"{version}.json"


def rollback(index_dir: Path, version: str | None = None, *, lease: Lease | None = None) -> str:
    """Publishes `version`, or the newest one older than the current that the gate let pass and whose files are whole, and returns it.

    It works from a pointer that leads nowhere, too. Raises NotFound when there is no version to go back to; a version that the gate refused is
    gone back to where it was published before, on a reason that is kept.
    """
    if version is None:
        version = _version_before(index_dir)
    publish(index_dir, version, override=override_of(index_dir, version), lease=lease)
    return version


def _version_before(index_dir: Path) -> str:
    require_published(index_dir)
    pointer = str(read_pointer(index_dir))
    # A pointer that cannot be read as a version is newer than every version.
    limit = version_number(pointer) if pointer[1:].isdecimal() else None
    for name in reversed(version_names(index_dir)):
        if limit is not None and version_number(name) >= limit:
            continue
        try:
            manifest = read_manifest(index_dir, name)
            require_files(version_dir(index_dir, name), manifest)
            if manifest.gate.verdict == "passed":
                return name
        except DamagedVersion as error:
            _log.warning("version_skipped", kb=index_dir.name, version=name, error=error.message)
    raise NotFound(f"no version older than {pointer} to go back to", where=str(index_dir), hint="almanac versions KB lists what there is")


def _stable_files(folder: Path) -> Iterator[Path]:
    """Files that stay as they are when the version is opened, queried and closed.

    Measured with Chroma 1.5.9: `chroma.sqlite3` changes at each opening. The HNSW files do not, once flushed, which
    `index_metadata.pickle` tells; a collection that was never flushed (fewer than two rows) writes them anew each time.
    """
    for path in folder.rglob("*"):
        relative = path.relative_to(folder)
        if not path.is_file() or relative.name in (MANIFEST, MANIFEST_HASH) or relative.name.startswith("."):
            continue
        in_chroma = relative.parts[0] == CHROMA
        if not in_chroma or (len(relative.parts) > 2 and (path.parent / "index_metadata.pickle").is_file()):
            yield path


def _describe(path: Path, folder: Path) -> StoredFile:
    return StoredFile(path=path.relative_to(folder).as_posix(), bytes=path.stat().st_size, sha256=file_sha256(path))
