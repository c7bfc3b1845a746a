"""Verification of Chroma against the chunks table and the vector store, as any client reads it: the same rows, with the
same texts, metadata and vectors, of which some find themselves.
"""

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from almanac.core.memory import give_back
from almanac.core.tables import CHUNKS, read_batches
from almanac.index.chroma.chroma_client import open_client, open_collection, require_database
from almanac.index.chroma.chroma_rows import CHROMA, DATABASE, STORED_COLUMNS
from almanac.index.chroma.compared import differences
from almanac.index.vectors.vector_store import VectorStore
from almanac.index.verify.mapped_rows import Expected, check_matrix
from almanac.index.verify.problem_collector import ProblemCollector
from almanac.schemas.errors import AlmanacError
from almanac.schemas.manifest import EmbedderInfo

if TYPE_CHECKING:
    from chromadb.api.models.Collection import Collection


_PROBE_DISTANCE = 1e-4  # HNSW sums in single precision
_BATCH = 1000
_PROBES = 64


def check_rows(
    version_dir: Path,
    name: str | None,
    table: pa.Table,
    vectors_root: Path,
    embedder: EmbedderInfo,
    problems: ProblemCollector,
    *,
    is_sealed: bool,
) -> None:
    """Compares Chroma with the chunks table, its vectors and those of `vectors.npy` with the vector store, and queries
    a few rows by their own vector.

    Args:
        version_dir: Directory of the version.
        name: Name of the collection; None where it is not known.
        table: Chunk ids and vector keys of all rows, in the order of chunks.parquet.
        vectors_root: Folder of the vector store.
        embedder: The version's embedder.
        problems: Collects the problems.
        is_sealed: Whether the folder must not be written to.
    """
    expected = _expected_vectors(table.column("text_sha256").to_pylist(), vectors_root, embedder, problems)
    check_matrix(version_dir, table, expected, problems)
    give_back()  # Chroma reads its graph, a quarter of a GB for 100,000 rows
    database = version_dir / CHROMA / DATABASE
    try:
        require_database(version_dir)
        _check_pages(database, problems, is_sealed=is_sealed)
        with _to_open(version_dir, is_sealed=is_sealed) as opened, open_client(opened) as client:
            names = [collection.name for collection in client.list_collections()]
            wanted = name or (names[0] if names else "")
            if names != [wanted]:
                problems.add("unreadable", f"{CHROMA}: collections", names, [wanted] if wanted else "one collection")
                return
            collection = open_collection(client, wanted)
            _check_collection(collection, version_dir, table, expected, problems)
        _check_text_index(database, problems)
    except Exception as error:  # Chroma raises various types from its Rust core; in any case the version cannot be read
        where = error.where if isinstance(error, AlmanacError) and error.where else CHROMA
        problems.add("unreadable", where, error.message if isinstance(error, AlmanacError) else error)


@contextmanager
def _to_open(version_dir: Path, *, is_sealed: bool) -> Iterator[Path]:
    """The folder, or where it is sealed another one with a copy of its Chroma, which writes whenever it is opened."""
    if not is_sealed:
        yield version_dir
        return
    with tempfile.TemporaryDirectory(prefix="almanac-verify-") as scratch:
        shutil.copytree(version_dir / CHROMA, Path(scratch) / CHROMA, copy_function=shutil.copyfile)
        for path in [path for path in Path(scratch).rglob("*") if path.is_dir()]:
            path.chmod(0o700)  # which were copied with the mode of a folder that may only be read
        yield Path(scratch)


def _expected_vectors(
    keys: list[str], vectors_root: Path, embedder: EmbedderInfo, problems: ProblemCollector
) -> Expected:
    store, wanted = VectorStore(vectors_root, embedder), list(dict.fromkeys(keys))
    while True:
        missing = set(store.missing(wanted))
        have = [key for key in wanted if key not in missing]
        try:
            vectors = store.read_to_disk(have)
            break
        except AlmanacError as error:  # a part turned out to be damaged; its keys are missing from now on
            if set(store.missing(wanted)) == missing:
                problems.add("unreadable", str(store.folder), error.message)
                have, missing, vectors = [], set(), np.empty((0, embedder.dimension), dtype=np.float32)
                break
    for key in missing:
        problems.add("vector_missing", f"vectors/{embedder.fingerprint}", None, key)
    place = {key: number for number, key in enumerate(have)}
    return Expected(np.array([place.get(key, -1) for key in keys], dtype=np.int64), vectors)


def _check_collection(
    collection: "Collection", version_dir: Path, table: pa.Table, expected: Expected, problems: ProblemCollector
) -> None:
    if (space := (collection.configuration_json.get("hnsw") or {}).get("space")) != "cosine":
        problems.add("unreadable", f"{CHROMA}: distance", space, "cosine")
    ids, listed = table.column("chunk_id").to_pylist(), collection.get(include=[])["ids"]
    if not len(listed) == len(set(listed)) == (count := collection.count()):
        problems.add("row_foreign", f"{CHROMA}: count", count, len(set(listed)))
    for chunk_id in sorted(set(listed).difference(ids)):
        problems.add("row_foreign", chunk_id)
    missing = set(ids).difference(listed)
    begin = 0
    for batch in read_batches(version_dir / CHUNKS, STORED_COLUMNS, rows=_BATCH):
        vectors = expected.at(slice(begin, begin + len(batch)))
        for difference in differences(collection, batch.to_pylist(), vectors):
            problems.add(difference.kind, difference.where, difference.found, difference.expected)
        begin += len(batch)
        give_back()
    _probe(
        collection, [(chunk_id, row) for row, chunk_id in enumerate(ids) if chunk_id not in missing], expected, problems
    )


def _probe(
    collection: "Collection", rows: list[tuple[str, int]], expected: Expected, problems: ProblemCollector
) -> None:
    """Checks that Chroma's search finds rows by their own vectors: some of those sampled, spread evenly.

    It need not find all. HNSW links the rows of a dense cluster (equal texts, pages of one template) only to one
    another, and what was reached through them is lost: of 1,200 rows of which half are nearly alike, none to 450, as
    threads happen to link them. That Chroma has each row with its vector is compared above.
    """
    rows = sorted(rows)
    probes = rows[:: max(1, len(rows) // _PROBES)][:_PROBES]
    vectors = expected.at([row for _, row in probes]) if probes else np.zeros((0, 1), dtype=np.float32)
    known = np.flatnonzero(~np.isnan(vectors[:, 0]))
    if not len(known):
        return
    answer = collection.query(query_embeddings=vectors[known], n_results=1, include=["distances"])
    nearest = [
        (ids[0], distances[0]) if ids else (None, 2.0)
        for ids, distances in zip(answer["ids"], answer["distances"] or [], strict=True)
    ]
    if all(distance > _PROBE_DISTANCE for _, distance in nearest):
        for number, (hit, distance) in zip(known.tolist(), nearest, strict=True):
            chunk_id = probes[number][0]
            problems.add("probe_failed", chunk_id, f"{hit} at distance {distance:.6f}", f"{chunk_id} at distance 0")


_INDEXED = "SELECT count(*) FROM embedding_fulltext_search_content"
_WITH_TEXT = "SELECT count(*) FROM embedding_metadata WHERE key = 'chroma:document'"
_ALIKE = """SELECT count(*) FROM embedding_fulltext_search_content AS indexed JOIN embedding_metadata AS row
    ON row.id = indexed.id AND row.key = 'chroma:document' WHERE indexed.c0 IS row.string_value"""


def _check_pages(database: Path, problems: ProblemCollector, *, is_sealed: bool) -> None:
    """Has SQLite look through its pages, and of what was not just built compare its indexes with its tables: the
    manifest has no hash of the file, which each opening by Chroma changes.
    """
    check = "integrity_check" if is_sealed else "quick_check"
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as opened:
        [[answer]] = opened.execute(f"PRAGMA {check}(1)").fetchall()
    if answer != "ok":
        problems.add("unreadable", f"{CHROMA}/{DATABASE}", answer)


def _check_text_index(database: Path, problems: ProblemCollector) -> None:
    """Checks Chroma's full-text tables, a copy of the texts that only `where_document` reads and no response shows."""
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as opened:
        indexed, with_text, alike = (opened.execute(query).fetchone()[0] for query in (_INDEXED, _WITH_TEXT, _ALIKE))
    if not indexed == with_text == alike:
        problems.add("row_altered", f"{CHROMA}: text index", f"{alike} of {indexed} texts", f"{with_text} texts")
