"""Removal of vectors that are no longer needed, and the lock that protects vectors in use.

Vector parts are shared by all knowledge bases, and a running job may rely on a vector before any version lists it.
Every process that reads vectors therefore takes a shared lock, and vectors are removed only under the exclusive one.
"""

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from almanac.core.digests import DigestSet, digests_of
from almanac.core.durable import TEMPORARY, remove, sweep
from almanac.core.logs import get_logger
from almanac.index.vectors.vector_store import VectorStore
from almanac.schemas.manifest import EmbedderInfo

_USE = ".use"
_log = get_logger("almanac.vectors")


@contextmanager
def vectors_in_use(root: Path) -> Iterator[None]:
    """Prevents the removal of vectors inside the block. Needed by a run from embedding to publishing, and wherever a
    version is built or verified.

    Where nothing can be written, nobody removes anything either: a snapshot that is mounted read-only needs no lock.
    """
    try:
        in_use = _use_file(root)
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES):
            raise
        yield
        return
    with in_use:
        fcntl.flock(in_use, fcntl.LOCK_SH)
        yield


@contextmanager
def vectors_unused(root: Path, *, patience_s: float = 0.0) -> Iterator[bool]:
    """Yields whether the exclusive lock on vectors was obtained within `patience_s` seconds. If so, `vectors_in_use`
    blocks until the end of the block.
    """
    with _use_file(root) as file:
        deadline = time.monotonic() + patience_s
        while not (unused := _try_exclusive(file)) and time.monotonic() < deadline:
            time.sleep(0.05)
        yield unused


def _use_file(root: Path) -> IO[bytes]:
    """The file that is locked until it is closed, opened for reading alone: where it is there already, that takes no
    permission to write.
    """
    path = root / _USE
    if not path.exists():
        root.mkdir(parents=True, exist_ok=True)
        path.touch()
    return path.open("rb")


def _try_exclusive(file: IO[bytes]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def forget_vectors(root: Path, keys: pa.Array) -> int:
    """Removes the vectors of these keys for every embedder, and all damaged parts; returns the number of vectors
    removed. Call inside `vectors_unused`.
    """
    gone = 0
    for folder in _folders(root):
        sweep(folder.glob(TEMPORARY))
        for path in sorted(folder.glob("*.parquet")):
            gone += _keep_rows(path, lambda column: pc.invert(pc.is_in(column, value_set=keys)))[0]
        # a damaged part may contain any key; an index is made again
        for path in [*folder.glob("*.damaged"), *folder.glob("*.index")]:
            remove(path)
    return gone


def prune_vectors(root: Path, needed: Callable[[str], DigestSet | None], older_than_s: float) -> tuple[int, int]:
    """Removes old vectors that are not needed; returns the number of vectors removed and the bytes freed. Call inside
    `vectors_unused`.

    Vectors of a part that are still needed are written to a new part before the old one is removed, so a kill loses
    nothing.

    Args:
        root: Folder of the vector store.
        needed: Returns the keys to keep for an embedder's fingerprint; None where they are not known, and all of its
            vectors stay. Called only for embedders with a part that is old enough.
        older_than_s: Unix time in seconds; only parts written before it are considered. A part from the future counts
            as written now.
    """
    gone, freed = 0, 0
    for folder in _folders(root):
        old = _old_parts(folder, older_than_s)
        if old and (wanted := needed(folder.name)) is not None:
            for path in old:
                vectors, size = _keep_rows(path, partial(_is_in, wanted))
                gone, freed = gone + vectors, freed + size
        freed += _sweep(folder, older_than_s)
    return gone, freed


def _old_parts(folder: Path, older_than_s: float) -> list[Path]:
    old, now = [], time.time()
    for path in sorted(folder.glob("*.parquet")):
        written_at = path.stat().st_mtime
        if written_at > now:  # by a clock that was ahead: otherwise the part would stay until the clock gets there
            os.utime(path, (now, now))
        elif written_at < older_than_s:
            old.append(path)
    return old


def _is_in(wanted: DigestSet, keys: pa.ChunkedArray) -> pa.Array:
    return pa.array(wanted.has(digests_of(keys)))


def _folders(root: Path) -> list[Path]:
    return sorted(path for path in root.glob("*") if path.is_dir())


def _keep_rows(path: Path, chosen: Callable[[pa.Array], pa.Array]) -> tuple[int, int]:
    """Keeps only the rows of a part for which `chosen`, called with the key column, is true; returns the vectors
    removed and the bytes freed. What stays is written to a new part before the old one is removed.
    """
    try:
        table = pq.read_table(path, page_checksum_verification=True).combine_chunks()
        mask = chosen(table.column("text_sha256"))
    except (pa.ArrowException, KeyError, OSError) as error:
        # VectorStore moves it aside when it reads the vectors
        _log.warning("vector_part_unreadable", part=str(path), error=str(error))
        return 0, 0
    staying = pc.sum(mask).as_py() or 0
    if staying == table.num_rows:
        return 0, 0
    before = path.stat()
    size = _write_rows(path.parent, table.filter(mask).combine_chunks(), before.st_mtime) if staying else 0
    remove(path)
    return table.num_rows - staying, before.st_size - size


def _write_rows(folder: Path, rows: pa.Table, written_at: float) -> int:
    """Writes rows of a part as another one, which keeps its age: by that, vectors are pruned. Returns its bytes."""
    dimension = rows.schema.field("vector").type.list_size
    info = EmbedderInfo(provider="", model="", revision="", dimension=dimension, fingerprint=folder.name)
    vectors = rows.column("vector").combine_chunks().flatten().to_numpy().reshape(-1, dimension)
    path = VectorStore(folder.parent, info).write_part(rows.column("text_sha256").to_pylist(), vectors)
    os.utime(path, (written_at, written_at))
    return path.stat().st_size


def _sweep(folder: Path, older_than_s: float) -> int:
    """Removes old damaged parts and temporary files of killed writers; returns the bytes freed."""
    freed = sweep(folder.glob(TEMPORARY))
    for path in folder.glob("*.damaged"):
        state = path.stat()
        if state.st_mtime < older_than_s:
            remove(path)
            freed += state.st_size
    return freed
