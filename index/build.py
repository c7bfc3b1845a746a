"""Builds a version directory from processed files and kept vectors, in a child process. Nothing is embedded here.

A directory is built in one go, in a fresh folder, or not at all: Chroma's index files are written in place, so whatever a
killed builder left is thrown away, never resumed.
"""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import AfterValidator, BaseModel, ConfigDict

from index.child import Message, run_child, serve_parent
from index.rows import STORED_COLUMNS, document_of, metadata_of
from schemas.errors import OperationalError
from schemas.manifest import EmbedderInfo
from schemas.tables import CHUNKS, DOCUMENTS, RECORDS

if TYPE_CHECKING:
    from chromadb.api.collection_configuration import CreateHNSWConfiguration

_EF_SEARCH = 200  # twice the default: better recall for .1 ms of a query of 1.5 ms, and nothing at building
_BATCH = 1000  # rows in one `add`; Chroma takes up to 5,461

AbsolutePath = Annotated[Path, AfterValidator(lambda path: path.absolute())]  # the child has another working directory


class BuildJob(BaseModel):
    """All that a builder needs. `records` and `documents` are None where a knowledge base has no such file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version_dir: AbsolutePath
    kb: str
    collection: str
    chunks: AbsolutePath
    records: AbsolutePath | None = None
    documents: AbsolutePath | None = None
    vectors_root: AbsolutePath
    embedder: EmbedderInfo


def build_version(job: BuildJob, *, on_progress: Callable[[int, int], None] | None = None) -> None:
    """Builds `job.version_dir`, without a manifest; `on_progress(done, total)` counts chunks.

    Raises OperationalError when the directory holds something, a vector is missing (DamagedVersion), or the builder dies.
    """

    def forward(message: Message) -> None:
        if on_progress:
            on_progress(message["done"], message["total"])

    run_child("index.build", job.model_dump_json(), forward)


def build_here(job: BuildJob, on_progress: Callable[[int, int], None]) -> None:
    """What the child does."""
    from index.engine import open_client
    from index.vectors import VectorStore

    if job.version_dir.exists() and any(job.version_dir.iterdir()):
        raise OperationalError(
            "the directory of the new version is not empty", where=str(job.version_dir), hint="an unfinished version is discarded by the next almanac run"
        )
    job.version_dir.mkdir(parents=True, exist_ok=True)
    for source, name in ((job.chunks, CHUNKS), (job.records, RECORDS), (job.documents, DOCUMENTS)):
        if source is not None:
            shutil.copyfile(source, job.version_dir / name)  # a hard link would change with the original

    # Of the copy, so that the rows in Chroma are of the file beside it whatever becomes of the original.
    table = pq.read_table(job.version_dir / CHUNKS, columns=STORED_COLUMNS)
    order = pc.sort_indices(table.column("chunk_id"))
    _refuse_duplicates(table)
    total = len(order)
    vectors = VectorStore(job.vectors_root, job.embedder).read_to_disk(table.column("text_sha256").take(order).to_pylist())

    with open_client(job.version_dir) as client:
        batch_size = min(client.get_max_batch_size(), _BATCH)
        batches = list(_even_batches(total, batch_size))
        hnsw = _flushed_by_each_add(min((end - begin for begin, end in batches), default=batch_size))
        collection = client.create_collection(
            job.collection,
            configuration={"hnsw": hnsw},
            embedding_function=None,
            metadata={"kb": job.kb, "embedder": job.embedder.model, "embedder_fingerprint": job.embedder.fingerprint},
        )
        for begin, end in batches:
            rows = table.take(order.slice(begin, end - begin)).to_pylist()
            collection.add(
                ids=[row["chunk_id"] for row in rows],
                embeddings=vectors[begin:end],
                documents=[document_of(row) for row in rows],
                metadatas=[metadata_of(row) for row in rows],
            )
            on_progress(end, total)


def _even_batches(total: int, at_most: int) -> Iterator[tuple[int, int]]:
    """Spans that cover `total` rows; their sizes differ by one at most."""
    count = -(-total // at_most)
    for number in range(count):
        yield total * number // count, total * (number + 1) // count


def _flushed_by_each_add(rows: int) -> "CreateHNSWConfiguration":
    """Cosine distance, and settings with which each `add` of `rows` or more rows is flushed, the last one too.

    What Chroma has not flushed is replayed from its log at every opening: 0.7 s for 5,000 rows against 0.03 s, and the log
    stays in the database (37 against 20 MB). A kill between two flushes can wedge a collection, which is why nobody resumes.
    The smallest threshold that Chroma takes is 2.
    """
    threshold = max(2, rows)
    return {"space": "cosine", "ef_search": _EF_SEARCH, "sync_threshold": threshold, "batch_size": min(100, threshold)}


def _refuse_duplicates(table: pa.Table) -> None:
    counts = pc.value_counts(table.column("chunk_id"))
    twice = [entry["values"].as_py() for entry in counts if entry["counts"].as_py() > 1][:1] if len(counts) < len(table) else []
    if twice:
        raise OperationalError(f"the chunk id {twice[0]} stands twice", where=CHUNKS, hint="a defect: please report it")


def _work(job: str, send: Callable[[Message], None]) -> None:
    def report(done: int, total: int) -> None:
        send({"done": done, "total": total})

    build_here(BuildJob.model_validate_json(job), report)


if __name__ == "__main__":
    serve_parent(_work)
