"""Verification of what lies beside Chroma: the manifest's files, the chunks and the digest."""

import hashlib
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from index.digest import digest_of
from index.findings import Findings
from schemas.items import ChunkRow
from schemas.manifest import EmbedderInfo, Manifest
from schemas.tables import CHUNK_SCHEMA, CHUNKS


def check_files(version_dir: Path, manifest: Manifest, findings: Findings) -> None:
    """Each file of the manifest: there, of its size, of its hash."""
    for stored in manifest.files:
        path = version_dir / stored.path
        if not path.is_file():
            findings.add("file_missing", stored.path, None, stored.sha256)
            continue
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != stored.sha256:
            findings.add("file_altered", stored.path, found, stored.sha256)


def check_chunks(version_dir: Path, manifest: Manifest | None, embedder: EmbedderInfo, findings: Findings) -> pa.Table | None:
    """The chunks, each against its own hashes, and all against the manifest; None when they cannot be read."""
    path = version_dir / CHUNKS
    if not path.is_file():
        if manifest is None or CHUNKS not in {stored.path for stored in manifest.files}:
            findings.add("file_missing", CHUNKS)
        return None
    try:
        table = pq.read_table(path)
        if not table.schema.equals(CHUNK_SCHEMA):
            raise pa.ArrowInvalid(f"columns are {table.schema.names}")
        for row in (row for batch in table.to_batches(max_chunksize=1000) for row in batch.to_pylist()):
            chunk = ChunkRow(
                **{key: value for key, value in row.items() if key not in ("chunk_id", "text_sha256", "metadata")}, metadata=json.loads(row["metadata"])
            )
            if chunk.text_sha256 != row["text_sha256"]:
                findings.add("row_altered", f"{CHUNKS}: {row['chunk_id']}: text_sha256", row["text_sha256"], chunk.text_sha256)
            if chunk.chunk_id != row["chunk_id"]:
                findings.add("row_altered", f"{CHUNKS}: {row['chunk_id']}: chunk_id", row["chunk_id"], chunk.chunk_id)
        if manifest is not None:
            _check_digest(table, manifest, embedder, findings)
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        findings.add("unreadable", CHUNKS, error)
        return None
    return table


def _check_digest(table: pa.Table, manifest: Manifest, embedder: EmbedderInfo, findings: Findings) -> None:
    if manifest.embedder != embedder:
        findings.add("digest_differs", "embedder", embedder.fingerprint, manifest.embedder.fingerprint)
    if table.num_rows != manifest.counts.chunks:
        findings.add("digest_differs", "counts.chunks", table.num_rows, manifest.counts.chunks)
    digest = digest_of(table, manifest.embedder.fingerprint)
    if digest != manifest.digest:
        findings.add("digest_differs", "digest", digest, manifest.digest)
