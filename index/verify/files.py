"""Verification of files: the manifest, the files it lists, the chunks table and the digest."""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from almanac.core.tables import CHUNK_SCHEMA, CHUNKS, open_table, read_table
from almanac.index.build.digest import DIGESTED, digest_of
from almanac.index.segments.segment_store import SEGMENT, SEGMENT_HASH
from almanac.index.verify.problem_collector import ProblemCollector
from almanac.index.versions.version_store import MANIFEST, MANIFEST_HASH
from almanac.schemas.hashing import file_sha256
from almanac.schemas.items import ChunkRow
from almanac.schemas.manifest import EmbedderInfo, Sealed, Segment

_BATCH = 1000
_UNREADABLE = (pa.ArrowException, OSError, ValueError, TypeError, KeyError)


def check_files(version_dir: Path, manifest: Sealed, problems: ProblemCollector) -> list[str]:
    """Checks the manifest against its hash file, if it is written already, and each listed file's presence and hash.
    Returns the listed files that differ.
    """
    differing = []
    name, hash_name = (SEGMENT, SEGMENT_HASH) if isinstance(manifest, Segment) else (MANIFEST, MANIFEST_HASH)
    if (version_dir / name).is_file():
        _check_manifest(version_dir, name, hash_name, manifest, problems)
    for stored in manifest.files:
        path = version_dir / stored.path
        if not path.is_file():
            problems.add("file_missing", stored.path, None, stored.sha256)
        elif not os.access(path, os.R_OK):
            problems.add("unreadable", stored.path, f"it may not be read by user {os.geteuid()}", stored.sha256)
        elif (digest := file_sha256(path)) != stored.sha256:
            problems.add("file_altered", stored.path, digest, stored.sha256)
        else:
            continue
        differing.append(stored.path)
    return differing


def _check_manifest(version_dir: Path, name: str, hash_name: str, manifest: Sealed, problems: ProblemCollector) -> None:
    path = version_dir / hash_name
    if not path.is_file():
        problems.add("file_missing", hash_name)
        return
    line, wanted = hash_line(version_dir / name), path.read_bytes().decode(errors="replace")
    if line != wanted:
        problems.add("file_altered", name, line.split()[0], wanted.split()[0] if wanted.split() else wanted)
    elif type(manifest).model_validate_json((version_dir / name).read_bytes()) != manifest:
        problems.add("file_altered", name, "another manifest", manifest.called)


def hash_line(path: Path) -> str:
    """Returns the line that `sha256sum` prints for a file."""
    return f"{file_sha256(path)}  {path.name}\n"


def check_chunks(
    version_dir: Path, manifest: Sealed | None, embedder: EmbedderInfo, problems: ProblemCollector
) -> pa.Table | None:
    """Checks each chunk against its own hashes and the table against the manifest; returns its columns `DIGESTED`, or
    None when it cannot be read.
    """
    path = version_dir / CHUNKS
    if not path.is_file():
        if manifest is None or CHUNKS not in {stored.path for stored in manifest.files}:
            problems.add("file_missing", CHUNKS)
        return None
    try:
        with open_table(path) as file:
            if not file.schema_arrow.equals(CHUNK_SCHEMA):
                raise pa.ArrowInvalid(f"columns are {file.schema_arrow.names}")
            for batch in file.iter_batches(batch_size=_BATCH):
                _check_hashes(batch.to_pylist(), problems)
        table = read_table(path, DIGESTED)
        if manifest is not None:
            _check_digest(table, manifest, embedder, problems)
    except _UNREADABLE as error:
        problems.add("unreadable", CHUNKS, error)
        return None
    return table


def _check_hashes(rows: Iterable[dict[str, Any]], problems: ProblemCollector) -> None:
    """Checks that the `text_sha256` and `chunk_id` of each row match its content."""
    for row in rows:
        own = {key: value for key, value in row.items() if key not in ("chunk_id", "text_sha256", "metadata")}
        chunk = ChunkRow(**own, metadata=json.loads(row["metadata"]))
        for name in ("text_sha256", "chunk_id"):
            if getattr(chunk, name) != row[name]:
                problems.add("row_altered", f"{CHUNKS}: {row['chunk_id']}: {name}", row[name], getattr(chunk, name))


def _check_digest(table: pa.Table, manifest: Sealed, embedder: EmbedderInfo, problems: ProblemCollector) -> None:
    """Compares embedder, number of chunks and digest with the manifest."""
    if manifest.embedder != embedder:
        problems.add("digest_differs", "embedder", embedder.fingerprint, manifest.embedder.fingerprint)
    if table.num_rows != manifest.counts.chunks:
        problems.add("digest_differs", "counts.chunks", table.num_rows, manifest.counts.chunks)
    digest = digest_of(table, manifest.embedder.fingerprint)
    if digest != manifest.digest:
        problems.add("digest_differs", "digest", digest, manifest.digest)
