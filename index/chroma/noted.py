"""Tells a database of Chroma that no program has opened since it was sealed. The manifest does not list that file:
whoever opens Chroma where it lies changes it.
"""

from pathlib import Path

from almanac.core.durable import write_file
from almanac.core.stamps import altered_file
from almanac.index.chroma.chroma_rows import CHROMA, DATABASE
from almanac.schemas.errors import storage_error
from almanac.schemas.hashing import file_sha256
from almanac.schemas.manifest import StoredFile

NOTED = "chroma.sha256"  # the hash of the database as it was sealed, in the format of `sha256sum`
_PATH = f"{CHROMA}/{DATABASE}"


def note_database(folder: Path) -> list[StoredFile]:
    """Notes the hash of the database in `folder`, if it has one; returns what was noted."""
    if not (folder / _PATH).is_file():
        return []
    noted = _described(folder, file_sha256(folder / _PATH))
    write_file(folder / NOTED, f"{noted.sha256}  {_PATH}\n", synced=False)
    return [noted]


def is_as_sealed(folder: Path) -> bool:
    """Whether the database in `folder` is as it was noted, or there is none. One of another hash was opened, changed or
    damaged: only its rows can say which. Raises StorageError where it may not be read.
    """
    if not (folder / _PATH).is_file():
        return not (folder / NOTED).is_file()
    try:
        sha256 = (folder / NOTED).read_text(encoding="utf-8", errors="replace").partition(" ")[0]
        return altered_file(folder, [_described(folder, sha256)]) is None
    except FileNotFoundError:
        return False
    except PermissionError as error:
        raise storage_error(error, folder / _PATH) from error


def _described(folder: Path, sha256: str) -> StoredFile:
    return StoredFile(path=_PATH, bytes=(folder / _PATH).stat().st_size, sha256=sha256)
