"""Files of a version or a segment: compared with its manifest, and told of where they cannot be read."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from almanac.core.stamps import altered_file
from almanac.schemas.errors import DamagedVersion, storage_error
from almanac.schemas.manifest import Sealed

REBUILD = "almanac rebuild KB VERSION makes it anew; almanac rollback KB serves an older version"


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


@contextmanager
def as_damaged(called: str, path: Path, hint: str = REBUILD) -> Iterator[None]:
    """Converts what reading a damaged file or folder raises inside the block into DamagedVersion, and PermissionError
    into StorageError. `called` begins the message, such as "the vectors".
    """
    try:
        yield
    except PermissionError as error:
        raise storage_error(error, Path(error.filename or path)) from error
    except (OSError, ValueError, LookupError, RuntimeError) as error:  # those of Arrow and faiss are such
        raise DamagedVersion(f"{called} cannot be read: {error}", where=str(path), hint=hint) from error
