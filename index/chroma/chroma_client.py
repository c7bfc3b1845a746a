"""Chroma's client: the only module that uses it directly. Importing this module imports Chroma (about 1 s)."""

import errno
import itertools
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import chromadb
import chromadb.api.rust  # every client needs it, and would import it when it is opened
import numpy as np
from chromadb.api import ClientAPI
from chromadb.api.models.Collection import Collection
from chromadb.api.shared_system_client import SharedSystemClient
from chromadb.api.types import Metadata
from chromadb.config import Settings

from almanac.index.chroma.chroma_rows import CHROMA, DATABASE, document_of, metadata_of
from almanac.index.embedding.embedder import Vectors
from almanac.schemas.errors import DamagedVersion, OperationalError
from almanac.schemas.manifest import EmbedderInfo

# For stock clients; our readers do not ask Chroma. Twice the default: better recall for 0.1 ms more in a query of 1.5
# ms, at no cost for the build.
_EF_SEARCH = 200
# Four times the default, for the same reason: with 16, stock clients never find about 15 of 597 rows of
# multilingual-e5-small, with 64 all of them. 8,000 rows are added as fast, and take a fifth more room.
_NEIGHBORS = 64
_FLUSHED = 1000  # changes, after which Chroma writes its vector index
_HARDLY_ANY = 16 << 20  # bytes of free space below which a failure is attributed to a full disk


class ChromaPanic(Exception):
    """A panic of Chroma's Rust core, usually caused by a damaged database."""


@contextmanager
def open_client(version_dir: Path) -> Iterator[ClientAPI]:
    """Opens a client on a version's Chroma directory and closes it at the end of the block: a client that is only
    dereferenced keeps its files open.

    Panics of Chroma, also those inside the block, are raised as ChromaPanic.
    """
    path = str(version_dir / CHROMA)
    with as_damaged_index():
        try:
            client = chromadb.PersistentClient(path=path, settings=Settings(anonymized_telemetry=False))
        except BaseException:
            # else Chroma passes the system that failed to start to the next client on that path
            SharedSystemClient.clear_system_cache()
            raise
        try:
            yield client
        finally:
            client.close()  # type: ignore[attr-defined]


@contextmanager
def as_damaged_index() -> Iterator[None]:
    """Converts panics of Chroma's Rust core, which `except Exception` does not catch, into ChromaPanic."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ == "PanicException":
            raise ChromaPanic(str(error)) from error
        raise


@contextmanager
def as_disk_full(folder: Path) -> Iterator[None]:
    """Converts a failure of Chroma into OSError (ENOSPC) where less than 16 MiB are free: Chroma itself does not report
    a full disk as the cause.
    """
    try:
        yield
    except Exception as error:
        if not isinstance(error, OSError) and shutil.disk_usage(folder).free < _HARDLY_ANY:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder)) from error
        raise


def open_collection(client: ClientAPI, name: str) -> Collection:
    """Returns an existing collection, without Chroma's default embedding function, which would download a model."""
    return client.get_collection(name, embedding_function=None)


def require_database(version_dir: Path) -> None:
    """Raises DamagedVersion where Chroma's database is missing: its client would silently create an empty one."""
    database = version_dir / CHROMA / DATABASE
    if not database.is_file():
        raise DamagedVersion(
            "Chroma's database is missing", where=str(database), hint="almanac rollback KB, or almanac run KB"
        )


def create_collection(client: ClientAPI, name: str, kb: str, embedder: EmbedderInfo, rows: int) -> Collection:
    """Returns a new collection for so many rows. Call `flush` after the last one."""
    flushed = max(2, min(_FLUSHED, rows))
    return client.create_collection(
        name,
        configuration={
            "hnsw": {
                "space": "cosine",
                "ef_search": _EF_SEARCH,
                "max_neighbors": _NEIGHBORS,
                "sync_threshold": flushed,
                "batch_size": min(100, flushed),
            }
        },
        embedding_function=None,
        metadata={"kb": kb, "embedder": embedder.model, "embedder_fingerprint": embedder.fingerprint},
    )


def flush(collection: Collection) -> None:
    """Has Chroma write its vector index: rows that it has not written are replayed from its log at every opening, 0.7 s
    for 5,000 instead of 0.03 s, and the log stays in the database (37 instead of 20 MB).

    It counts the changes since the last writing, deletions of unknown ids among them.
    """
    threshold = (collection.configuration_json.get("hnsw") or {}).get("sync_threshold", _FLUSHED)
    collection.delete(ids=[f"nobody-{number}" for number in range(threshold)])  # ids of chunks are hexadecimal


def add_rows(collection: Collection, rows: Sequence[dict[str, Any]], vectors: Vectors) -> None:
    """Adds rows of a chunks table, of which `STORED_COLUMNS` are needed, with their vectors, float32 (n, dimension).

    Raises OperationalError, which names the row and what of it, where Chroma refuses one.
    """
    documents, metadatas = [document_of(row) for row in rows], list[Metadata](map(metadata_of, rows))
    try:
        collection.add(
            ids=[row["chunk_id"] for row in rows], embeddings=vectors, documents=documents, metadatas=metadatas
        )
    except OSError:
        raise
    except Exception as error:  # Chroma raises various types from its Rust core, and names no row
        if (refused := _refused(rows)) is not None:
            raise refused from error
        raise


def _refused(rows: Sequence[dict[str, Any]]) -> OperationalError | None:
    """The error for the first row that Chroma does not take by itself, into a collection in memory; None where it takes
    all of them.
    """
    client = chromadb.EphemeralClient(settings=Settings(anonymized_telemetry=False))
    scratch = client.get_or_create_collection("refused", embedding_function=None)

    numbers = itertools.count()

    def refusal(document: str, metadata: Metadata) -> str | None:
        try:
            scratch.add(
                ids=[str(next(numbers))],
                embeddings=np.ones((1, 1), dtype=np.float32),
                documents=[document],
                metadatas=[metadata],
            )
        except Exception as error:
            return str(error)
        return None

    try:
        for row in rows:
            document, metadata = document_of(row), metadata_of(row)
            if (why := refusal(document, metadata)) is None:
                continue
            parts: dict[str, tuple[str, Metadata]] = {"text": (document, {"kind": "text"})}
            parts |= {f"field {key}": ("", {key: value}) for key, value in metadata.items()}
            what = next((name for name, part in parts.items() if refusal(*part) is not None), "fields together")
            return OperationalError(
                f"Chroma refuses the {what} of {row['document_id']}: {why}",
                where=f"source {row['source']}, {row['url']}",
                hint="leave the field out by `metadata` of the source, or the item by a rule of `validate`; and please "
                "report it, with the value",
            )
    finally:
        client.delete_collection("refused")
    return None
