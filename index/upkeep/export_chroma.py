"""Export of a version to one stock Chroma directory, which any `chromadb` opens, whatever segments the version consists
of.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from pydantic import BaseModel

from almanac.core.durable import move, remove, sweep, temporary_beside
from almanac.core.tables import CHUNKS, read_batches
from almanac.core.verified import verified_file
from almanac.index.build.child_process import Message, run_child
from almanac.index.build.job import AbsolutePath
from almanac.index.chroma.chroma_rows import CHROMA, STORED_COLUMNS
from almanac.index.embedding.embedder import Vectors
from almanac.index.segments.deleted import deleted_rows
from almanac.index.segments.version_tables import VersionTables
from almanac.index.upkeep.composition import read_deletions
from almanac.index.vectors.vector_matrix import verified_matrix
from almanac.index.versions.version_store import read_manifest, version_dir
from almanac.schemas.errors import DamagedVersion, UsageError, as_storage_error
from almanac.schemas.manifest import Manifest
from almanac.schemas.reports import ExportedChroma

_SENT = 1000  # rows at a time
_Rows = tuple[pa.Table, Vectors]  # the columns that Chroma's rows are made of, and the vectors, float32 (n, dimension)


class ExportJob(BaseModel):
    """What the child process exports: a version, into the folder `chroma` of an existing directory."""

    index_dir: AbsolutePath
    version: str
    target: AbsolutePath


def export_chroma(index_dir: Path, version: str, out: Path) -> ExportedChroma:
    """Writes all chunks of a version, with their vectors and metadata, as one collection into the directory `out`,
    which appears when it is complete.

    The collection has the name and the rows that a version of a single segment has. Raises UsageError where `out` is
    not an empty or new directory, DamagedVersion where a file of the version differs from its manifest, StorageError
    where the disk fails.
    """
    out = out.absolute()
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise UsageError("that is not an empty directory", where=str(out), hint="--out names one that is new or empty")
    manifest = read_manifest(index_dir, version)
    temporary = temporary_beside(out)
    with as_storage_error(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        sweep(out.parent.glob(f".{out.name}.*.tmp"))  # of exports that were killed
        try:
            temporary.mkdir()
            # In a child, whose freed memory is overwritten: Chroma's index files take over what is left in memory, such
            # as a text that is deleted.
            job = ExportJob(index_dir=index_dir, version=version, target=temporary)
            run_child("almanac.index.upkeep.export_chroma", job.model_dump_json(), lambda _: None)  # it sends nothing
            move(temporary / CHROMA, out)
        finally:
            remove(temporary)
    return ExportedChroma(
        kb=manifest.kb, version=version, out=str(out), collection=manifest.collection, chunks=manifest.counts.chunks
    )


def _write_collection(job: ExportJob) -> None:
    from almanac.index.chroma.chroma_client import add_rows, as_disk_full, create_collection, flush, open_client

    manifest = read_manifest(job.index_dir, job.version)
    with as_disk_full(job.target), open_client(job.target) as client:
        wanted = manifest.counts.chunks
        collection = create_collection(client, manifest.collection, manifest.kb, manifest.embedder, wanted)
        for rows, vectors in _live_rows(job.index_dir, manifest):
            if len(rows):
                add_rows(collection, rows.to_pylist(), vectors)
        flush(collection)
        if (count := collection.count()) != wanted:
            raise DamagedVersion(
                f"{count} rows were exported, and {manifest.version} has {wanted}",
                where=str(version_dir(job.index_dir, job.version)),
                hint="almanac verify KB VERSION says what is wrong",
            )


def _live_rows(index_dir: Path, manifest: Manifest) -> Iterator[_Rows]:
    """Yields the live rows of all segments, in batches, each with its vectors."""
    folder = version_dir(index_dir, manifest.version)
    read_deletions(folder, manifest)  # raises where a list was altered
    for place, sealed in VersionTables.in_folder(folder, manifest).folders():
        table, matrix = verified_file(place, sealed, CHUNKS), verified_matrix(place, sealed)
        is_live, begin = np.ones(len(matrix), dtype=np.bool_), 0
        if manifest.segments:
            is_live[deleted_rows(folder, place.name, CHUNKS)] = False
        for batch in read_batches(table, STORED_COLUMNS, rows=_SENT):
            live = is_live[begin : begin + batch.num_rows]
            yield batch.filter(pa.array(live)), matrix[begin : begin + batch.num_rows][live]
            begin += batch.num_rows


def work(job_text: str, _: Callable[[Message], None], _more: Iterable[object] = ()) -> None:
    job = ExportJob.model_validate_json(job_text)
    with as_storage_error(job.target):
        _write_collection(job)


def prepare() -> None:
    """Imports what the work needs, before there is any."""
    import almanac.index.chroma.chroma_client  # noqa: F401
