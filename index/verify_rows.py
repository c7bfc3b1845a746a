"""Verification of Chroma against the chunks and the kept vectors: no row more, none less, each as it should be."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from index.embedder import Vectors
from index.engine import open_client, open_collection, require_database
from index.exact import hnsw_bears
from index.findings import Findings
from index.rows import CHROMA, document_of, metadata_of
from index.vectors import VectorStore
from schemas.errors import AlmanacError
from schemas.manifest import EmbedderInfo, Manifest

if TYPE_CHECKING:
    from chromadb.api.models.Collection import Collection


TOLERANCE = 1e-5  # of a cosine: Chroma normalises again, and the same text in another batch differs in its last bits
_PROBE_DISTANCE = 1e-4  # HNSW sums in single precision
_BATCH = 1000
_PROBES = 16


def check_rows(version_dir: Path, manifest: Manifest | None, table: pa.Table, vectors_root: Path, embedder: EmbedderInfo, findings: Findings) -> None:
    """Compares every row of Chroma with `table`, and every vector with the vector parts; then asks for a few by their vector."""
    expected = _expected_vectors(table, vectors_root, embedder, findings)
    try:
        require_database(version_dir)
        with open_client(version_dir) as client:
            names = [collection.name for collection in client.list_collections()]
            wanted = manifest.collection if manifest else names[0] if names else ""
            if names != [wanted]:
                findings.add("unreadable", f"{CHROMA}: collections", names, [wanted] if wanted else "one collection")
                return
            collection = open_collection(client, wanted)
            _check_space(collection, findings)
            present = _check_ids(collection, table, findings)
            for begin in range(0, table.num_rows, _BATCH):
                rows = [row for row in table.slice(begin, _BATCH).to_pylist() if row["chunk_id"] in present]
                _check_batch(collection, rows, expected, embedder.dimension, findings)
            _probe(collection, table, present, expected, findings)
    except Exception as error:  # Chroma raises what its Rust core raises; whatever it is, the version cannot be read
        where = error.where if isinstance(error, AlmanacError) and error.where else CHROMA
        findings.add("unreadable", where, error.message if isinstance(error, AlmanacError) else error)


class _Expected:
    """Kept vectors by key; rows whose vector is missing are reported once and left out."""

    def __init__(self, keys: list[str], vectors: Vectors) -> None:
        self._place = {key: place for place, key in enumerate(keys)}
        self._vectors = vectors

    def __contains__(self, key: str) -> bool:
        return key in self._place

    def __getitem__(self, keys: list[str]) -> Vectors:
        return self._vectors[[self._place[key] for key in keys]]


def _expected_vectors(table: pa.Table, vectors_root: Path, embedder: EmbedderInfo, findings: Findings) -> _Expected:
    store = VectorStore(vectors_root, embedder)
    wanted = list(dict.fromkeys(table.column("text_sha256").to_pylist()))
    while True:
        missing = set(store.missing(wanted))
        have = [key for key in wanted if key not in missing]
        try:
            vectors = store.read_to_disk(have)
            break
        except AlmanacError as error:  # a part turned out to be damaged; its keys are missing from now on
            if set(store.missing(wanted)) == missing:
                findings.add("unreadable", str(store.folder), error.message)
                return _Expected([], np.empty((0, embedder.dimension), dtype=np.float32))
    for key in missing:
        findings.add("vector_missing", f"vectors/{embedder.fingerprint}", None, key)
    return _Expected(have, vectors)


def _check_space(collection: "Collection", findings: Findings) -> None:
    space = (collection.configuration_json.get("hnsw") or {}).get("space")
    if space != "cosine":
        findings.add("unreadable", f"{CHROMA}: distance", space, "cosine")


def _check_ids(collection: "Collection", table: pa.Table, findings: Findings) -> set[str]:
    found = set(collection.get(include=[])["ids"])
    wanted = set(table.column("chunk_id").to_pylist())
    for chunk_id in sorted(wanted - found):
        findings.add("row_missing", chunk_id)
    for chunk_id in sorted(found - wanted):
        findings.add("row_foreign", chunk_id)
    return wanted & found


def _check_batch(collection: "Collection", rows: list[dict[str, Any]], expected: _Expected, dimension: int, findings: Findings) -> None:
    if not rows:
        return
    got = collection.get(ids=[row["chunk_id"] for row in rows], include=["documents", "metadatas", "embeddings"])
    place = {chunk_id: number for number, chunk_id in enumerate(got["ids"])}
    documents, metadatas, embeddings = got["documents"] or [], got["metadatas"] or [], got["embeddings"]
    vectors = np.asarray(embeddings, dtype=np.float64)
    if vectors.ndim != 2 or vectors.shape[1] != dimension:
        findings.add("vector_altered", f"{CHROMA}: dimension", vectors.shape[-1], dimension)
        return
    for row in rows:
        number, chunk_id = place[row["chunk_id"]], row["chunk_id"]
        if documents[number] != document_of(row):
            findings.add("row_altered", f"{chunk_id}: document", documents[number], document_of(row))
        metadata, wanted = dict(metadatas[number] or {}), metadata_of(row)
        for key in sorted({k for k in metadata.keys() | wanted.keys() if metadata.get(k) != wanted.get(k) or type(metadata.get(k)) is not type(wanted.get(k))}):
            findings.add("row_altered", f"{chunk_id}: metadata.{key}", metadata.get(key), wanted.get(key))
    known = [row for row in rows if row["text_sha256"] in expected]
    if known:
        ours = expected[[row["text_sha256"] for row in known]].astype(np.float64)
        theirs = vectors[[place[row["chunk_id"]] for row in known]]
        with np.errstate(invalid="ignore", divide="ignore"):
            cosines = np.einsum("ij,ij->i", ours, theirs) / (np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1))
        for row, cosine in zip(known, cosines.tolist(), strict=True):
            if not cosine >= 1 - TOLERANCE:  # NaN is no match either
                findings.add("vector_altered", row["chunk_id"], round(cosine, 6), 1.0)


def _probe(collection: "Collection", table: pa.Table, present: set[str], expected: _Expected, findings: Findings) -> None:
    """Rows spread evenly over the version have to find themselves, or a row with the same vector."""
    key_of = dict(zip(table.column("chunk_id").to_pylist(), table.column("text_sha256").to_pylist(), strict=True))
    candidates = sorted(chunk_id for chunk_id in present if key_of[chunk_id] in expected)
    probes = candidates[:: max(1, len(candidates) // _PROBES)][:_PROBES]
    if not probes or not hnsw_bears(key_of.values()):
        return
    vectors = expected[[key_of[chunk_id] for chunk_id in probes]]
    answer = collection.query(query_embeddings=vectors, n_results=1, include=["distances"])
    for number, chunk_id in enumerate(probes):
        ids, distances = answer["ids"][number], (answer["distances"] or [])[number]
        hit, distance = (ids[0], distances[0]) if ids else (None, 2.0)
        # At distance 0 the hit is the row itself or one with an equal vector: texts that repeat in several documents.
        if distance <= _PROBE_DISTANCE:
            continue
        # HNSW is approximate and may miss a row that it holds; asked for that row alone, it has to give it.
        alone = (collection.query(query_embeddings=vectors[number : number + 1], ids=[chunk_id], n_results=1, include=["distances"])["distances"] or [[]])[0]
        if not alone or alone[0] > _PROBE_DISTANCE:
            findings.add("probe_failed", chunk_id, f"{hit} at distance {distance:.6f}", f"{chunk_id} at distance 0")
