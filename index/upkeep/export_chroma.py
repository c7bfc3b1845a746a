"""Export of a version to one stock Chroma directory, which any `chromadb` opens, whatever segments the version consists
of.
"""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
from pydantic import BaseModel

from almanac.core.durable import move, remove, sweep, temporary_beside
from almanac.core.tables import CHUNKS, read_batches
from almanac.core.verified import verified_file
from almanac.index.build.child_process import Message, run_child, serve_parent
from almanac.index.build.job import AbsolutePath
from almanac.index.chroma.batches import ROWS_ADDED, even_batches
from almanac.index.chroma.copy import copy_chroma
from almanac.index.chroma.rows import CHROMA, DATABASE, STORED_COLUMNS
from almanac.index.embedding.embedder import Vectors
from almanac.index.segments.store import read_segment, segment_dir
from almanac.index.upkeep.composition import read_deletions
from almanac.index.vectors.matrix import verified_matrix
from almanac.index.versions.store import read_manifest, version_dir
from almanac.schemas.errors import DamagedVersion, OperationalError, UsageError, as_storage_error
from almanac.schemas.manifest import Manifest
from almanac.schemas.reports import ExportedChroma

_Rows = tuple[pa.Table, Vectors]  # the columns that Chroma's rows are made of, and the vectors, float32 (n, dimension)


class ExportJob(BaseModel):
    """What the child process exports: a version of segments, into the folder `chroma` of an existing directory."""

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
    folder, beside = version_dir(index_dir, version), temporary_beside(out)
    with as_storage_error(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        sweep(out.parent.glob(f".{out.name}.*.tmp"))  # of exports that were killed
        try:
            beside.mkdir()
            if manifest.segments:
                # In a child, whose freed memory is overwritten: Chroma's index files take over what is left in memory,
                # such as a text that is deleted.
                run_child(
                    "almanac.index.upkeep.export_chroma",
                    ExportJob(index_dir=index_dir, version=version, target=beside).model_dump_json(),
                    _unexpected,
                )
            else:
                copy_chroma(folder, manifest, beside)
            _require_count(beside, manifest)
            move(beside / CHROMA, out)
        finally:
            remove(beside)
    return ExportedChroma(
        kb=manifest.kb, version=version, out=str(out), collection=manifest.collection, chunks=manifest.counts.chunks
    )


def _unexpected(message: Message) -> None:
    raise OperationalError(
        f"the export sent {message}", where="almanac.index.upkeep.export_chroma", hint="a defect: please report it"
    )


def _write_collection(job: ExportJob) -> None:
    from almanac.index.chroma.client import add_rows, as_disk_full, create_collection, open_client

    manifest = read_manifest(job.index_dir, job.version)
    with as_disk_full(job.target), open_client(job.target) as client:
        batches = list(even_batches(manifest.counts.chunks, ROWS_ADDED))
        collection = create_collection(client, manifest.collection, manifest.kb, manifest.embedder, batches)
        for rows, vectors in _batches(_segments_of(job.index_dir, manifest), [end - begin for begin, end in batches]):
            add_rows(collection, rows.to_pylist(), vectors)


def _segments_of(index_dir: Path, manifest: Manifest) -> Iterator[_Rows]:
    """Yields the live rows of all segments, in batches, each with its vectors."""
    deletions = read_deletions(version_dir(index_dir, manifest.version), manifest)
    for use in manifest.segments:
        folder, segment = segment_dir(index_dir, use.segment), read_segment(index_dir, use.segment)
        table, matrix = verified_file(folder, segment, CHUNKS), verified_matrix(folder, segment)
        is_live, begin = np.ones(len(matrix), dtype=np.bool_), 0
        is_live[deletions[use.segment][CHUNKS]] = False
        for batch in read_batches(table, STORED_COLUMNS):
            live = is_live[begin : begin + batch.num_rows]
            yield batch.filter(pa.array(live)), matrix[begin : begin + batch.num_rows][live]
            begin += batch.num_rows


def _batches(parts: Iterator[_Rows], sizes: Sequence[int]) -> Iterator[_Rows]:
    """Yields the rows of all parts in batches of these sizes. Raises DamagedVersion where there are fewer."""
    tables: list[pa.Table] = []
    vectors: list[Vectors] = []
    for size in sizes:
        while sum(map(len, vectors)) < size:
            table, its_vectors = next(parts, (None, None))
            if table is None or its_vectors is None:
                raise DamagedVersion(
                    "the segments have fewer chunks than the version", hint="almanac verify KB says what is wrong"
                )
            tables.append(table)
            vectors.append(its_vectors)
        joined, every = pa.concat_tables(tables), np.concatenate(vectors)
        yield joined.slice(0, size), every[:size]
        tables, vectors = [joined.slice(size)], [every[size:]]


def _require_count(folder: Path, manifest: Manifest) -> None:
    """Raises DamagedVersion unless the database has all chunks of the version, each once."""
    with closing(sqlite3.connect(f"{(folder / CHROMA / DATABASE).as_uri()}?mode=ro", uri=True)) as opened:
        [[rows, different]] = opened.execute("SELECT count(*), count(DISTINCT embedding_id) FROM embeddings").fetchall()
    if not rows == different == manifest.counts.chunks:
        raise DamagedVersion(
            f"{rows} rows were exported, {different} of them different, and {manifest.version} has "
            f"{manifest.counts.chunks}",
            where=str(folder),
            hint="almanac verify KB VERSION says what is wrong",
        )


def work(job_text: str, _: Callable[[Message], None]) -> None:
    job = ExportJob.model_validate_json(job_text)
    with as_storage_error(job.target):
        _write_collection(job)


if __name__ == "__main__":
    serve_parent(work)
