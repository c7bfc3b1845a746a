"""Opening Chroma: the one place that knows its client. Importing this module imports Chroma (about 1 s)."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import chromadb
from chromadb.api import ClientAPI
from chromadb.api.models.Collection import Collection
from chromadb.config import Settings

from index.rows import CHROMA
from schemas.errors import DamagedVersion
from schemas.manifest import Manifest


@contextmanager
def open_client(version_dir: Path) -> Iterator[ClientAPI]:
    """A client on a version's Chroma directory, closed at the end: a client that is merely dropped keeps its files open."""
    client = chromadb.PersistentClient(path=str(version_dir / CHROMA), settings=Settings(anonymized_telemetry=False))
    try:
        yield client
    finally:
        client.close()  # type: ignore[attr-defined]


def open_collection(client: ClientAPI, name: str) -> Collection:
    # Without this the default embedding function is made, which downloads a model.
    return client.get_collection(name, embedding_function=None)


def require_files(version_dir: Path, manifest: Manifest) -> None:
    """Raises DamagedVersion for a file of the manifest that is missing or of another size: Chroma crashes on a short index file."""
    require_database(version_dir)
    for stored in manifest.files:
        path = version_dir / stored.path
        found = path.stat().st_size if path.is_file() else None
        if found != stored.bytes:
            raise DamagedVersion(
                f"{manifest.version} cannot be read: a file has {found or 'no'} bytes instead of {stored.bytes}",
                where=str(path),
                hint=f"almanac verify {manifest.kb} {manifest.version} says what is wrong; almanac rollback {manifest.kb} serves an older version",
            )


def require_database(version_dir: Path) -> None:
    """Raises DamagedVersion where Chroma's database is missing: its client would make a new, empty one without a word."""
    database = version_dir / CHROMA / "chroma.sqlite3"
    if not database.is_file():
        raise DamagedVersion("Chroma's database is missing", where=str(database), hint="almanac rollback KB, or almanac run KB")
