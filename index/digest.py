"""The digest of a version: equal for equal content, whatever the order, the batches or the day it was fetched."""

import hashlib

import pyarrow as pa
import pyarrow.compute as pc

from schemas.items import canonical_json, sha256

_IN_DIGEST = ["chunk_id", "document_id", "source", "url", "title", "kind", "ordinal", "start", "end", "text", "embedded_text", "text_sha256", "metadata"]
_STEP = 10_000  # rows turned into Python objects at a time


def digest_of(chunks: pa.Table, fingerprint: str) -> str:
    """SHA-256 over the chunk ids in order, each with its text hashes, metadata and vector key (text_sha256 and embedder fingerprint).

    `fetched_at` is left out. `chunks` has the columns of CHUNK_SCHEMA, in any order of rows.
    """
    digest = hashlib.sha256()
    table = chunks.select(_IN_DIGEST)
    order = pc.sort_indices(table.column("chunk_id"))
    for begin in range(0, len(order), _STEP):
        for row in table.take(order.slice(begin, _STEP)).to_pylist():
            row["text"], row["embedded_text"] = sha256(row["text"]), sha256(row["embedded_text"])
            digest.update(canonical_json([*row.values(), fingerprint]).encode("utf-8", "surrogatepass"))
            digest.update(b"\n")
    return digest.hexdigest()
