"""Makes a built and verified directory a version, makes a version the current one, and goes back to an older one."""

import hashlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import structlog

from index.rows import CHROMA
from index.versions import MANIFEST, point_to, read_manifest, read_pointer, version_dir, version_names, version_number
from schemas.durable import sync_tree, write_file
from schemas.errors import DamagedVersion, GateRefused, NotFound, NothingPublished
from schemas.manifest import Manifest, StoredFile

_log = structlog.get_logger("almanac.publish")


def finish_version(index_dir: Path, manifest: Manifest) -> Manifest:
    """Syncs the directory of `manifest.version` and writes its manifest, with `files` filled in: from here on it is a version.

    Call it after `verify_version` found nothing and no process has the directory open.
    """
    folder = version_dir(index_dir, manifest.version)
    if (folder / MANIFEST).exists():
        raise DamagedVersion(f"{manifest.version} is finished already", where=str(folder), hint="a version is never written again")
    sync_tree(folder)  # Chroma syncs its database only, never its index files
    complete = manifest.model_copy(update={"files": [_describe(path, folder) for path in sorted(_stable_files(folder))]})
    write_file(folder / MANIFEST, complete.model_dump_json(indent=2) + "\n")
    return complete


def publish(index_dir: Path, version: str, *, override: str | None = None) -> None:
    """Makes `version` the current one. Raises GateRefused where its gate refused, unless `override` says why to go on."""
    manifest = read_manifest(index_dir, version)
    if manifest.gate.verdict != "passed" and not override:
        failed = ", ".join(f"{check.name} {check.value} (limit {check.limit})" for check in manifest.gate.checks if not check.ok)
        raise GateRefused(
            f"the gate refused {version}: {failed or 'see its manifest'}",
            where=str(version_dir(index_dir, version) / MANIFEST),
            hint=f"mend the cause and run again, or almanac publish {index_dir.name} {version} --override-gate WHY",
        )
    previous = read_pointer(index_dir)
    if manifest.gate.verdict != "passed":
        # Beside the versions, which never change: why this one went live all the same.
        entry = {"version": version, "why": override, "at": datetime.now(UTC).isoformat(timespec="seconds"), "previous": previous}
        write_file(index_dir / "overrides" / f"{version}.json", json.dumps(entry, ensure_ascii=False) + "\n")
    point_to(index_dir, version)
    _log.info("published", kb=index_dir.name, version=version, previous=previous, override=override)


def rollback(index_dir: Path, version: str | None = None) -> str:
    """Publishes `version`, or the newest one older than the current whose gate passed, and returns it.

    It works from a pointer that leads nowhere, too. Raises NotFound when there is no version to go back to.
    """
    if version is None:
        version = _version_before(index_dir)
    publish(index_dir, version)
    return version


def _version_before(index_dir: Path) -> str:
    pointer = read_pointer(index_dir)
    if pointer is None:
        raise NothingPublished(f"nothing is published for '{index_dir.name}' yet", where=str(index_dir), hint=f"almanac run {index_dir.name}")
    # A pointer that cannot be read as a version is newer than every version.
    limit = version_number(pointer) if pointer[1:].isdecimal() else None
    for name in reversed(version_names(index_dir)):
        if limit is not None and version_number(name) >= limit:
            continue
        try:
            if read_manifest(index_dir, name).gate.verdict == "passed":
                return name
        except DamagedVersion as error:
            _log.warning("version_skipped", kb=index_dir.name, version=name, error=error.message)
    raise NotFound(f"no version older than {pointer} to go back to", where=str(index_dir), hint=f"almanac versions {index_dir.name} lists what there is")


def _stable_files(folder: Path) -> Iterator[Path]:
    """Files that stay as they are when the version is opened, queried and closed.

    Measured with Chroma 1.5.9: `chroma.sqlite3` changes at each opening. The HNSW files do not, once flushed, which
    `index_metadata.pickle` tells; a collection that was never flushed (fewer than two rows) writes them anew each time.
    """
    for path in folder.rglob("*"):
        relative = path.relative_to(folder)
        if not path.is_file() or relative.name == MANIFEST or relative.name.startswith("."):
            continue
        in_chroma = relative.parts[0] == CHROMA
        if not in_chroma or (len(relative.parts) > 2 and (path.parent / "index_metadata.pickle").is_file()):
            yield path


def _describe(path: Path, folder: Path) -> StoredFile:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return StoredFile(path=path.relative_to(folder).as_posix(), bytes=path.stat().st_size, sha256=digest)
