"""Opening Chroma: the one place that knows its client. Importing this module imports Chroma (about 1 s)."""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import chromadb
from chromadb.api import ClientAPI
from chromadb.api.models.Collection import Collection
from chromadb.api.shared_system_client import SharedSystemClient
from chromadb.config import Settings

from almanac.index.chroma.rows import CHROMA, DATABASE
from almanac.schemas.errors import DamagedVersion

_HARDLY_ANY = 16 << 20  # bytes


class ChromaPanic(Exception):
    """Chroma's Rust core gave up, on a database that makes no sense to it."""


@contextmanager
def open_client(version_dir: Path) -> Iterator[ClientAPI]:
    """A client on a version's Chroma directory, closed at the end: a client that is merely dropped keeps its files open."""
    path = str(version_dir / CHROMA)
    with panics_told():
        try:
            client = chromadb.PersistentClient(path=path, settings=Settings(anonymized_telemetry=False))
        except BaseException:
            _forget_failed(path)
            raise
        try:
            yield client
        finally:
            client.close()  # type: ignore[attr-defined]


@contextmanager
def panics_told() -> Iterator[None]:
    """A panic of Rust passes by `except Exception`; here it becomes one, ChromaPanic."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ == "PanicException":
            raise ChromaPanic(str(error)) from error
        raise


def _forget_failed(path: str) -> None:
    """Chroma keeps what it could not start, and hands it to the next client on that path: a whole version may have that path by then."""
    if path not in SharedSystemClient._identifier_to_refcount:
        SharedSystemClient._identifier_to_system.pop(path, None)


@contextmanager
def disk_full_told(folder: Path) -> Iterator[None]:
    """Chroma says that it cannot go on, and not why: where hardly any space is left, OSError says so."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, OSError) and shutil.disk_usage(folder).free < _HARDLY_ANY:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder)) from error
        raise


def open_collection(client: ClientAPI, name: str) -> Collection:
    # Without this the default embedding function is made, which downloads a model.
    return client.get_collection(name, embedding_function=None)


def require_database(version_dir: Path) -> None:
    """Raises DamagedVersion where Chroma's database is missing: its client would make a new, empty one without a word."""
    database = version_dir / CHROMA / DATABASE
    if not database.is_file():
        raise DamagedVersion("Chroma's database is missing", where=str(database), hint="almanac rollback KB, or almanac run KB")
