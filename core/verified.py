"""Files of a version or a segment that were compared with its manifest."""

from pathlib import Path

from almanac.core.stamps import altered_file
from almanac.schemas.errors import DamagedVersion
from almanac.schemas.manifest import Sealed


def verified_file(folder: Path, manifest: Sealed, name: str) -> Path:
    """Returns the path of a file in a version's or a segment's folder after comparing it with the manifest; `name` is
    relative to the folder.

    Raises DamagedVersion where the file is missing or was altered. Other files are not looked at.
    """
    path = folder / name
    listed = [stored for stored in manifest.files if stored.path == name]
    if not path.is_file():
        raise DamagedVersion(f"{name} of {manifest.called} is missing", where=str(path))
    if not listed or altered_file(folder, listed):
        raise DamagedVersion(f"{name} of {manifest.called} was altered", where=str(path))
    return path
