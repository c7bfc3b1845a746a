"""The digest of a version: equal for equal content, whatever the order, the batches or the day it was fetched."""

import hashlib

import pyarrow as pa
import pyarrow.compute as pc

DIGESTED = ["chunk_id", "text_sha256", "metadata"]
_STEP = 100_000  # rows sorted apart and joined at a time: what is held beside the table


def digest_of(chunks: pa.Table, fingerprint: str) -> str:
    """SHA-256 over the chunk ids in order, each with its metadata and its vector's key (text_sha256 and embedder fingerprint).

    A chunk id is the hash of its text, place and metadata, which `verify` proves row by row, so nothing that a reader can see is left
    out but `fetched_at`. `chunks` has at least these columns of CHUNK_SCHEMA, in any order of rows.
    """
    digest = hashlib.sha256(f"{chunks.num_rows} {fingerprint}\n".encode())
    order = pc.sort_indices(chunks.column("chunk_id"))
    for begin in range(0, len(order), _STEP):
        columns = [_taken(chunks.column(name), order.slice(begin, _STEP)) for name in DIGESTED]
        # Ids and hashes hold no line break, and JSON escapes it.
        lines = pc.binary_join_element_wise(*columns, pa.scalar("\n", pa.large_string()))
        digest.update(_bytes_of(lines))
    return digest.hexdigest()


def _taken(column: pa.ChunkedArray, order: pa.Array) -> pa.Array:
    # Large strings: a step of long metadata may pass the 2 GiB that the offsets of plain ones reach.
    taken = column.take(order).cast(pa.large_string())
    return taken.combine_chunks() if isinstance(taken, pa.ChunkedArray) else taken


def _bytes_of(lines: pa.LargeStringArray) -> memoryview:
    """All values of a string array, one behind the other."""
    _, offsets, values = lines.buffers()
    bounds = memoryview(offsets).cast("q")
    return memoryview(values)[bounds[lines.offset] : bounds[lines.offset + len(lines)]]
