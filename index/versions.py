"""Versions as files: which there are, which one is current, and what the next is called. Nothing here opens an engine.

`<index_dir>/versions/v0001/manifest.json` makes a directory a version; `<index_dir>/CURRENT` holds the name of the published one.
"""

import json
import re
import shutil
from pathlib import Path

from pydantic import ValidationError

from schemas.durable import sync_folder, write_file
from schemas.errors import DamagedVersion, NotFound, NothingPublished
from schemas.manifest import FORMAT, Manifest

MANIFEST = "manifest.json"
POINTER = "CURRENT"
_NAME = re.compile(r"v\d{4,}")


def version_dir(index_dir: Path, version: str) -> Path:
    return index_dir / "versions" / version


def version_number(version: str) -> int:
    return int(version[1:])


def version_names(index_dir: Path) -> list[str]:
    """Complete versions, oldest first."""
    return sorted((path.parent.name for path in index_dir.glob(f"versions/*/{MANIFEST}") if _NAME.fullmatch(path.parent.name)), key=version_number)


def list_versions(index_dir: Path) -> list[Manifest]:
    """The manifests of all complete versions, oldest first."""
    return [read_manifest(index_dir, version) for version in version_names(index_dir)]


def read_manifest(index_dir: Path, version: str) -> Manifest:
    """The manifest of a version. Raises NotFound, or DamagedVersion when it cannot be understood."""
    known = version_names(index_dir)
    if version not in known:
        raise NotFound(f"no version '{version}' of '{index_dir.name}'", where=str(index_dir), hint=f"there are: {', '.join(known) or 'none yet'}")
    path = version_dir(index_dir, version) / MANIFEST
    try:
        stored = json.loads(path.read_text())
        found = stored.get("format")
        if found != FORMAT:
            raise DamagedVersion(
                f"the manifest has format {found!r}; this almanac reads {FORMAT}",
                where=str(path),
                hint=f"read it with the almanac that wrote it, or almanac run {index_dir.name}",
            )
        return Manifest.model_validate(stored)
    except (ValueError, AttributeError, ValidationError) as error:
        raise DamagedVersion(f"the manifest cannot be read: {error}", where=str(path), hint=f"almanac rollback {index_dir.name}") from error


def read_pointer(index_dir: Path) -> str | None:
    """What CURRENT says, whether or not there is such a version."""
    path = index_dir / POINTER
    return path.read_text().strip() if path.is_file() else None


def current_version(index_dir: Path) -> str | None:
    """The published version, or None before the first. Raises DamagedVersion when the pointer leads nowhere."""
    version = read_pointer(index_dir)
    if version is not None and version not in version_names(index_dir):
        raise DamagedVersion(
            f"CURRENT says '{version}', and there is no complete version of that name",
            where=str(index_dir / POINTER),
            hint=f"almanac rollback {index_dir.name} goes back to an older one; almanac versions {index_dir.name} lists them",
        )
    return version


def resolve_version(index_dir: Path, version: str | None = None) -> str:
    """The version asked for, or the current one for None. Raises NotFound or NothingPublished."""
    if version is not None:
        return read_manifest(index_dir, version).version
    current = current_version(index_dir)
    if current is None:
        raise NothingPublished(f"nothing is published for '{index_dir.name}' yet", where=str(index_dir), hint=f"almanac run {index_dir.name}")
    return current


def next_version(index_dir: Path) -> str:
    """One more than the highest complete version, `v0001` at first; unfinished directories do not count."""
    names = version_names(index_dir)
    return f"v{version_number(names[-1]) + 1 if names else 1:04d}"


def point_to(index_dir: Path, version: str) -> None:
    """Makes `version` the current one, atomically and durably. It must exist and be whole: see `publish`."""
    write_file(index_dir / POINTER, f"{version}\n")


def discard_unfinished(index_dir: Path) -> list[str]:
    """Removes version directories without a manifest and returns their names. Only the holder of the writer's lock may call it."""
    folder = index_dir / "versions"
    unfinished = [path for path in sorted(folder.glob("*")) if path.is_dir() and not (path / MANIFEST).is_file()]
    for path in unfinished:
        shutil.rmtree(path)
    if unfinished:
        sync_folder(folder)
    return [path.name for path in unfinished]
