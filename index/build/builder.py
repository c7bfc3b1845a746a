"""Builds a version directory from processed tables and stored vectors, in a child process. Nothing is embedded here.

Chroma's directory is built in full, or as a delta: a changed copy of the parent's (`index.build.delta`). The same
applies to the lexical index (`index.lexical.writer`). A build always starts in an empty folder and is never resumed:
Chroma writes its index files in place, so the leftovers of a killed builder are discarded.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from almanac.core.durable import remove
from almanac.core.logs import get_logger
from almanac.core.progress import OnProgress
from almanac.core.tables import CHUNKS, DOCUMENTS, RECORDS, read_table
from almanac.core.verified import verified_file
from almanac.index.build.child_process import Ahead, Message, run_child, serve_parent
from almanac.index.build.delta import (
    BuildFacts,
    DeltaNotPossible,
    Parent,
    Rows,
    find_difference,
    full_facts,
    usable_parent,
)
from almanac.index.build.job import BuildJob
from almanac.index.chroma.batches import EF_SEARCH, ROWS_ADDED, even_batches
from almanac.index.chroma.copy import copy_chroma, copy_file
from almanac.index.chroma.rows import CHROMA, STORED_COLUMNS
from almanac.index.lexical.facts import LEXICAL
from almanac.index.lexical.terms import TERMS
from almanac.index.segments.rows import MappedRows, write_rows
from almanac.index.segments.store import segment_in
from almanac.index.vectors.keys import RowNumbers
from almanac.index.vectors.matrix import change_matrix, verified_matrix, write_matrix
from almanac.index.vectors.quantized import write_quantized
from almanac.index.vectors.store import VectorStore
from almanac.schemas.errors import DamagedVersion, OperationalError, as_storage_error

if TYPE_CHECKING:
    from chromadb.api.collection_configuration import UpdateHNSWConfiguration
    from chromadb.api.models.Collection import Collection

    from almanac.index.embedding.embedder import Vectors
    from almanac.index.lexical.writer import KnownTerms

BUILDER = "almanac.index.build.builder"  # the child's module
# rows up to which words are indexed beside Chroma, which leaves Python's lock to others; for more, the memory of both
# would add up
_BESIDE = 20_000
_NOBODY = "nobody"  # an id that no chunk can have, since chunk ids are hexadecimal
_log = get_logger("almanac.build")


def build_version(job: BuildJob, *, on_progress: OnProgress | None = None, ahead: Ahead | None = None) -> BuildFacts:
    """Builds `job.version_dir` in a child process, without a manifest; returns how it was built.

    `on_progress(done, total)` is called with numbers of rows added and removed; a child of `ahead` is used where there
    is one. Raises OperationalError when the directory is not empty or the child dies, DamagedVersion when a vector is
    missing, StorageError when the disk fails.
    """
    built: list[BuildFacts] = []

    def forward(message: Message) -> None:
        if "facts" in message:
            built.append(BuildFacts.model_validate(message["facts"]))
        elif on_progress:
            on_progress(message["done"], message["total"])

    run_child(BUILDER, job.model_dump_json(), forward, ahead=ahead)
    if len(built) != 1:
        raise OperationalError(
            "the builder ended without a result", where=str(job.version_dir), hint="a defect: please report it"
        )
    [facts] = built
    if facts.why_full:
        tell = _log.warning if facts.parent_damaged else _log.info
        tell("built in full", kb=job.kb, parent=job.parent.name if job.parent else None, why=facts.why_full)
    return facts


def build_here(job: BuildJob, on_progress: OnProgress) -> BuildFacts:
    """Builds the version in this process; called in the child. Arguments, result and errors as in `build_version`."""
    has_tables = job.chunks.parent == job.version_dir
    if not has_tables and job.version_dir.exists() and any(job.version_dir.iterdir()):
        raise OperationalError(
            "the directory of the new version is not empty",
            where=str(job.version_dir),
            hint="an unfinished version is discarded by the next almanac run",
        )
    job.version_dir.mkdir(parents=True, exist_ok=True)
    for source, name in ((job.chunks, CHUNKS), (job.records, RECORDS), (job.documents, DOCUMENTS)):
        if source is not None and not has_tables:
            copy_file(source, job.version_dir / name)  # not a hard link, which would change with the original
    write_rows(job.version_dir)

    # Read from the copy, so that Chroma's rows match the table beside them even if the original changes meanwhile.
    table = read_table(job.version_dir / CHUNKS, ["chunk_id", "text_sha256", "fetched_at"])
    _refuse_duplicates(table)
    why: DeltaNotPossible | None = None
    facts: BuildFacts | None = None
    if job.parent is not None:
        try:
            facts = _build_delta(job, usable_parent(job, job.parent), table, on_progress)
        except DeltaNotPossible as reason:
            why = reason
    return facts or _build_full(job, table, why, on_progress)


def _build_full(job: BuildJob, table: pa.Table, why: DeltaNotPossible | None, on_progress: OnProgress) -> BuildFacts:
    from almanac.index.chroma.client import as_disk_full, create_collection, open_client
    from almanac.index.lexical.writer import build_lexical

    matrix = write_matrix(job.version_dir, table.column("text_sha256"), VectorStore(job.vectors_root, job.embedder))
    write_quantized(job.version_dir, matrix)
    rows = _Rows(job, matrix, pc.sort_indices(table.column("chunk_id")).to_numpy().astype(np.int64))

    def make_lexical() -> None:
        build_lexical(job.version_dir, job.language, _known_terms(job, table))

    is_beside = len(rows) <= _BESIDE
    with ThreadPoolExecutor(1) as thread, as_disk_full(job.version_dir):
        made = thread.submit(make_lexical) if is_beside else None
        with open_client(job.version_dir) as client:
            batches = list(even_batches(len(rows), ROWS_ADDED))
            collection = create_collection(client, job.collection, job.kb, job.embedder, batches)
            for begin, end in batches:
                rows.add_to(collection, begin, end)
                on_progress(end, len(rows))
        if made is not None:
            made.result()
        else:
            make_lexical()
    return full_facts(len(rows), why)


def _known_terms(job: BuildJob, table: pa.Table) -> "KnownTerms | None":
    """The terms of the rows that the new segment has of `job.known_from`; those of a damaged segment are left out, and
    analyzed again.
    """
    from almanac.index.lexical.writer import KnownRows, KnownTerms

    ids = table.column("chunk_id").combine_chunks()
    sources = []
    for folder in job.known_from:
        try:
            segment = segment_in(folder)
            verified_file(folder, segment, f"{LEXICAL}/{TERMS}")
            places = pc.index_in(
                ids,
                value_set=read_table(verified_file(folder, segment, CHUNKS), ["chunk_id"]).column(0).combine_chunks(),
            )
        except DamagedVersion as error:
            _log.warning(
                "a segment is damaged: its rows are analyzed again", kb=job.kb, segment=folder.name, why=error.message
            )
            continue
        kept = pc.indices_nonzero(pc.is_valid(places)).to_numpy().astype(np.int64)
        sources.append(KnownRows(folder, segment, kept, places.take(pa.array(kept)).to_numpy().astype(np.int64)))
    return KnownTerms.of(sources, job.language) if sources else None


def _build_delta(job: BuildJob, parent: Parent, table: pa.Table, on_progress: OnProgress) -> BuildFacts:
    """Builds the version as a delta. Raises DeltaNotPossible, without leaving a Chroma directory, where a full build is
    cheaper or the parent is damaged.
    """
    with ThreadPoolExecutor(1) as thread:
        copied = thread.submit(copy_chroma, parent.folder, parent.manifest, job.version_dir)
        try:
            # In parallel with the copy: find the difference, read its rows, and import Chroma, which takes a second.
            difference = find_difference(parent, table)
            matrix = _changed_matrix(job, parent, difference.rows, table.column("text_sha256"))
            rows = _Rows(job, matrix, difference.rows.added)
            from almanac.index.chroma.client import as_disk_full

            copied.result()
        except DamagedVersion as error:
            raise _without_copy(job, f"{error.message}: {error.where}") from error
        except DeltaNotPossible:
            wait([copied])
            remove(job.version_dir / CHROMA)
            raise
    # beside Chroma's changes: all three leave Python's lock to others
    with ThreadPoolExecutor(2) as threads, as_disk_full(job.version_dir):
        made = [
            threads.submit(_make_lexical, job, parent, difference.rows),
            threads.submit(write_quantized, job.version_dir, matrix),
        ]
        try:
            _change(job, difference.rows.removed, rows, on_progress)
        except OSError:
            raise
        # Chroma raises various types from its Rust core; a fault that is not the copy's will fail the full build as
        # well
        except Exception as error:
            wait(made)
            remove(job.version_dir / LEXICAL)
            raise _without_copy(job, f"Chroma cannot change a copy of it: {error}") from error
        for one in made:
            one.result()
    return difference.facts


def _changed_matrix(job: BuildJob, parent: Parent, rows: Rows, keys: pa.ChunkedArray) -> "Vectors":
    """Writes the matrix from the parent's vectors and the added ones; where the parent's are damaged, from the vector
    parts alone.
    """
    store = VectorStore(job.vectors_root, job.embedder)
    try:
        return change_matrix(
            job.version_dir, keys, store, verified_matrix(parent.folder, parent.manifest), rows.kept, rows.places
        )
    except DamagedVersion as error:
        _log.warning(
            "the parent's vectors are damaged: read from the parts",
            kb=job.kb,
            parent=job.parent and job.parent.name,
            why=error.message,
        )
    return write_matrix(job.version_dir, keys, store)


def _make_lexical(job: BuildJob, parent: Parent, rows: Rows) -> None:
    """Builds the lexical index with the terms of the parent's rows that stay; where they are damaged, all rows are
    analyzed.
    """
    from almanac.index.lexical.writer import KnownRows, KnownTerms, build_lexical

    known = None
    try:
        known = KnownTerms.of([KnownRows(parent.folder, parent.manifest, rows.kept, rows.places)], job.language)
    except DamagedVersion as error:
        _log.warning(
            "the parent's lexical index is damaged: all rows are analyzed",
            kb=job.kb,
            parent=job.parent and job.parent.name,
            why=error.message,
        )
    build_lexical(job.version_dir, job.language, known)


def _without_copy(job: BuildJob, why: str) -> DeltaNotPossible:
    remove(job.version_dir / CHROMA)
    return DeltaNotPossible(why, damaged=True)


def _change(job: BuildJob, removed: pa.LargeStringArray, rows: "_Rows", on_progress: OnProgress) -> None:
    from almanac.index.chroma.client import as_disk_full, open_client, open_collection

    total = len(removed) + len(rows)
    with as_disk_full(job.version_dir), open_client(job.version_dir) as client:
        collection = open_collection(client, job.collection)
        # Has to come before any read or write: an index that is already loaded keeps its previous settings.
        collection.modify(configuration={"hnsw": _flushed_once_after(total)})
        for begin, end in even_batches(len(removed), ROWS_ADDED):
            collection.delete(ids=removed[begin:end].to_pylist())
            on_progress(end, total)
        for begin, end in even_batches(len(rows), ROWS_ADDED):
            rows.add_to(collection, begin, end)
            on_progress(len(removed) + end, total)
        if total == 1:
            collection.delete(ids=[_NOBODY])


class _Rows:
    """Rows of a segment to add to Chroma, in the order of `numbers`, mapped and not loaded. `matrix` is float32
    (n_chunks, dimension), for all its rows.
    """

    def __init__(self, job: BuildJob, matrix: "Vectors", numbers: RowNumbers) -> None:
        self._mapped = MappedRows(job.version_dir, len(matrix))
        self._matrix, self._numbers = matrix, numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def add_to(self, collection: "Collection", begin: int, end: int) -> None:
        numbers = self._numbers[begin:end]
        from almanac.index.chroma.client import add_rows

        add_rows(
            collection, [self._mapped.row(number, STORED_COLUMNS) for number in numbers.tolist()], self._matrix[numbers]
        )


def _flushed_once_after(changes: int) -> "UpdateHNSWConfiguration":
    """HNSW settings for a delta: one flush, after the last of `changes` deleted and added rows.

    Chroma counts the rows of its log over all calls, including deletions of unknown ids. Since the smallest threshold
    is 2, a single change is followed by the deletion of an unknown id.
    """
    threshold = max(2, changes)
    return {"ef_search": EF_SEARCH, "sync_threshold": threshold, "batch_size": min(100, threshold)}


def _refuse_duplicates(table: pa.Table) -> None:
    counts = pc.value_counts(table.column("chunk_id"))
    twice = (
        [entry["values"].as_py() for entry in counts if entry["counts"].as_py() > 1][:1]
        if len(counts) < len(table)
        else []
    )
    if twice:
        raise OperationalError(f"the chunk id {twice[0]} stands twice", where=CHUNKS, hint="a defect: please report it")


def work(job_text: str, send: Callable[[Message], None]) -> None:
    job = BuildJob.model_validate_json(job_text)

    def report(done: int, total: int) -> None:
        send({"done": done, "total": total})

    with as_storage_error(job.version_dir):
        facts = build_here(job, report)
    send({"facts": facts.model_dump()})


def prepare() -> None:
    """Imports what the work needs, before there is any."""
    import pandas  # noqa: F401  # pyarrow imports it with the first array

    import almanac.index.chroma.client
    import almanac.index.lexical.writer  # noqa: F401


if __name__ == "__main__":
    serve_parent(work)
