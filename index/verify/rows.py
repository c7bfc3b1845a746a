"""Verification of Chroma against the chunks table and the vector store: the same rows, with the same texts, metadata
and vectors.
"""

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from almanac.core.memory import give_back
from almanac.core.tables import CHUNKS, open_table
from almanac.index.chroma.client import open_client, open_collection, require_database
from almanac.index.chroma.rows import CHROMA, DATABASE, STORED_COLUMNS, document_of, metadata_of
from almanac.index.embedding.embedder import Vectors
from almanac.index.vectors.store import VectorStore
from almanac.index.verify.matrix import TOLERANCE, check_matrix, cosines_of
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
    some: pa.Table | None,
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
        some: Rows of the chunks table to compare in full, of which a delta's verification gives a part; None compares
            all.
        vectors_root: Folder of the vector store.
        embedder: The version's embedder.
        problems: Collects the problems.
    """
    compared = table if some is None else some
    expected = _expected_vectors(compared.column("text_sha256").unique().to_pylist(), vectors_root, embedder, problems)
    check_matrix(version_dir, table, some, expected, embedder.dimension, problems)
    give_back()  # Chroma reads its graph, a quarter of a GB for 100,000 rows
    try:
        require_database(version_dir)
        if some is None:
            _check_pages(version_dir / CHROMA / DATABASE, problems)
        with _to_open(version_dir, is_sealed=is_sealed) as opened, open_client(opened) as client:
            names = [collection.name for collection in client.list_collections()]
            wanted = name or (names[0] if names else "")
            if names != [wanted]:
                problems.add("unreadable", f"{CHROMA}: collections", names, [wanted] if wanted else "one collection")
                return
            collection = open_collection(client, wanted)
            _check_space(collection, problems)
            # Requesting all ids and their count from Chroma takes 2.4 s for 100,000 rows, reading them from its
            # database 0.1 s.
            listed = collection.get(include=[])["ids"] if some is None else _stored_ids(version_dir / CHROMA / DATABASE)
            missing = _check_ids(
                pa.array(listed, pa.string()),
                collection.count() if some is None else len(listed),
                table.column("chunk_id"),
                problems,
            )
            del listed
            give_back()  # ids that were compared
            for rows in _in_batches(version_dir / CHUNKS, some):
                _check_batch(
                    collection,
                    [row for row in rows if row["chunk_id"] not in missing],
                    expected,
                    embedder.dimension,
                    problems,
                )
            _probe(collection, compared, missing, expected, problems)
        if some is None:
            _check_text_index(version_dir / CHROMA / DATABASE, problems)
    except Exception as error:  # Chroma raises various types from its Rust core; in any case the version cannot be read
        where = error.where if isinstance(error, AlmanacError) and error.where else CHROMA
        problems.add("unreadable", where, error.message if isinstance(error, AlmanacError) else error)


class _Expected:
    """Stored vectors by key. Keys without a vector are absent: they were reported once and are not compared."""

    def __init__(self, keys: list[str], vectors: Vectors) -> None:
        self._place = {key: place for place, key in enumerate(keys)}
        self._vectors = vectors

    def __contains__(self, key: str) -> bool:
        return key in self._place

    def __getitem__(self, keys: list[str]) -> Vectors:
        return self._vectors[[self._place[key] for key in keys]]


def _in_batches(path: Path, some: pa.Table | None) -> Iterator[list[dict[str, Any]]]:
    """Yields batches of the rows to compare: `some`, or all rows of the table at `path`, read one batch at a time."""
    if some is not None:
        yield from (batch.to_pylist() for batch in some.select(STORED_COLUMNS).to_batches(_BATCH))
        return
    with open_table(path) as file:
        yield from (batch.to_pylist() for batch in file.iter_batches(batch_size=_BATCH, columns=STORED_COLUMNS))


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
) -> _Expected:
    store = VectorStore(vectors_root, embedder)
    while True:
        missing = set(store.missing(keys))
        have = [key for key in keys if key not in missing]
        try:
            vectors = store.read_to_disk(have)
            break
        except AlmanacError as error:  # a part turned out to be damaged; its keys are missing from now on
            if set(store.missing(keys)) == missing:
                problems.add("unreadable", str(store.folder), error.message)
                return _Expected([], np.empty((0, embedder.dimension), dtype=np.float32))
    for key in missing:
        problems.add("vector_missing", f"vectors/{embedder.fingerprint}", None, key)
    return _Expected(have, vectors)


def _check_space(collection: "Collection", problems: ProblemCollector) -> None:
    space = (collection.configuration_json.get("hnsw") or {}).get("space")
    if space != "cosine":
        problems.add("unreadable", f"{CHROMA}: distance", space, "cosine")


def _stored_ids(database: Path) -> list[str]:
    """Reads the ids of all rows directly from Chroma's database."""
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as opened:
        return [row[0] for row in opened.execute("SELECT embedding_id FROM embeddings")]


def _check_ids(listed: pa.Array, count: int, chunk_ids: pa.ChunkedArray, problems: ProblemCollector) -> set[str]:
    """Returns the ids that Chroma lacks."""
    distinct = pc.count_distinct(listed).as_py()
    if not len(listed) == distinct == count:
        problems.add("row_foreign", f"{CHROMA}: count", count, distinct)
    missing, foreign = _without(chunk_ids, listed), _without(listed, chunk_ids)
    for kind, wrong in (("row_missing", missing), ("row_foreign", foreign)):
        for chunk_id in sorted(wrong):
            problems.add(kind, chunk_id)
    return missing


def _without(ids: pa.Array | pa.ChunkedArray, others: pa.Array | pa.ChunkedArray) -> set[str]:
    return set(ids.filter(pc.invert(pc.is_in(ids, value_set=others))).to_pylist())


def _check_batch(
    collection: "Collection",
    rows: list[dict[str, Any]],
    expected: _Expected,
    dimension: int,
    problems: ProblemCollector,
) -> None:
    if not rows:
        return
    got = collection.get(ids=[row["chunk_id"] for row in rows], include=["documents", "metadatas", "embeddings"])
    place = {chunk_id: number for number, chunk_id in enumerate(got["ids"])}
    documents, metadatas, embeddings = got["documents"] or [], got["metadatas"] or [], got["embeddings"]
    vectors = np.asarray(embeddings, dtype=np.float64)
    if vectors.ndim != 2 or vectors.shape[1] != dimension:
        problems.add("vector_altered", f"{CHROMA}: dimension", vectors.shape[-1], dimension)
        return
    for row in rows:
        number, chunk_id = place[row["chunk_id"]], row["chunk_id"]
        item = f"of source {row['source']}, item {row['document_id']}"
        if documents[number] != document_of(row):
            problems.add("row_altered", f"{chunk_id}: document {item}", documents[number], document_of(row))
        metadata, wanted = dict(metadatas[number] or {}), metadata_of(row)
        for key in sorted(
            {
                k
                for k in metadata.keys() | wanted.keys()
                if metadata.get(k) != wanted.get(k) or type(metadata.get(k)) is not type(wanted.get(k))
            }
        ):
            problems.add("row_altered", f"{chunk_id}: metadata.{key} {item}", metadata.get(key), wanted.get(key))
    known = [row for row in rows if row["text_sha256"] in expected]
    if known:
        cosines = cosines_of(
            expected[[row["text_sha256"] for row in known]], vectors[[place[row["chunk_id"]] for row in known]]
        )
        for row, cosine in zip(known, cosines.tolist(), strict=True):
            if not cosine >= 1 - TOLERANCE:  # NaN is no match either
                problems.add("vector_altered", row["chunk_id"], round(cosine, 6), 1.0)


def _probe(
    collection: "Collection", table: pa.Table, missing: set[str], expected: _Expected, problems: ProblemCollector
) -> None:
    """Checks that Chroma's search finds rows by their own vectors: some of those sampled, spread evenly.

    It need not find all. HNSW links the rows of a dense cluster (equal texts, pages of one template) only to one
    another, and what was reached through them is lost: of 1,200 rows of which half are nearly alike, none to 450, as
    threads happen to link them. That Chroma has each row with its vector is compared above.
    """
    pairs = zip(table.column("chunk_id").to_pylist(), table.column("text_sha256").to_pylist(), strict=True)
    candidates = sorted((chunk_id, key) for chunk_id, key in pairs if chunk_id not in missing and key in expected)
    probes = candidates[:: max(1, len(candidates) // _PROBES)][:_PROBES]
    if not probes:
        return
    answer = collection.query(query_embeddings=expected[[key for _, key in probes]], n_results=1, include=["distances"])
    nearest = [
        (ids[0], distances[0]) if ids else (None, 2.0)
        for ids, distances in zip(answer["ids"], answer["distances"] or [], strict=True)
    ]
    if all(distance > _PROBE_DISTANCE for _, distance in nearest):
        for (chunk_id, _), (hit, distance) in zip(probes, nearest, strict=True):
            problems.add("probe_failed", chunk_id, f"{hit} at distance {distance:.6f}", f"{chunk_id} at distance 0")


_INDEXED = "SELECT count(*) FROM embedding_fulltext_search_content"
_WITH_TEXT = "SELECT count(*) FROM embedding_metadata WHERE key = 'chroma:document'"
_ALIKE = """SELECT count(*) FROM embedding_fulltext_search_content AS indexed JOIN embedding_metadata AS row
    ON row.id = indexed.id AND row.key = 'chroma:document' WHERE indexed.c0 IS row.string_value"""


def _check_pages(database: Path, problems: ProblemCollector) -> None:
    """Has SQLite look through its pages: the manifest has no hash of the file, which each opening by Chroma changes."""
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as opened:
        [[said]] = opened.execute("PRAGMA quick_check(1)").fetchall()
    if said != "ok":
        problems.add("unreadable", f"{CHROMA}/{DATABASE}", said)


def _check_text_index(database: Path, problems: ProblemCollector) -> None:
    """Checks Chroma's full-text tables, a copy of the texts that only `where_document` reads and no response shows."""
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as opened:
        indexed, with_text, alike = (opened.execute(query).fetchone()[0] for query in (_INDEXED, _WITH_TEXT, _ALIKE))
    if not indexed == with_text == alike:
        problems.add("row_altered", f"{CHROMA}: text index", f"{alike} of {indexed} texts", f"{with_text} texts")
