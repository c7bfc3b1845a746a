"""Files of a version that were compared with its manifest."""

from pathlib import Path

from almanac.schemas.errors import DamagedVersion
from almanac.schemas.hashing import file_sha256
from almanac.schemas.manifest import Manifest


def verified_file(folder: Path, manifest: Manifest, name: str) -> Path:
    """Returns the path of a file in a version's folder after comparing its SHA-256 with the manifest; `name` is relative to the folder.

    Raises DamagedVersion where the file is missing or was altered. Other files of the version are not looked at.
    """
    path = folder / name
    wanted = next((stored.sha256 for stored in manifest.files if stored.path == name), None)
    if not path.is_file():
        raise DamagedVersion(f"{name} of {manifest.version} is missing", where=str(path))
    if file_sha256(path) != wanted:
        raise DamagedVersion(f"{name} of {manifest.version} was altered", where=str(path))
    return path
