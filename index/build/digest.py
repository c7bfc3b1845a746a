"""Digest of a version: equal for equal content, independent of row order, batching and fetch time."""

import hashlib

import pyarrow as pa
import pyarrow.compute as pc

DIGESTED = ["chunk_id", "text_sha256", "metadata"]
_STEP = 100_000  # rows joined at a time, which limits the memory needed beside the table


def digest_of(chunks: pa.Table, fingerprint: str) -> str:
    """Returns the hex SHA-256 over the sorted chunk ids, each with its vector key (`text_sha256`) and metadata, and over the embedder's fingerprint.

    A chunk id is a hash of the chunk's text, position and metadata, which `verify` checks row by row, so the digest covers everything visible to a reader
    except `fetched_at`.

    Args:
        chunks: Table with at least the columns `DIGESTED`, in any row order.
        fingerprint: Fingerprint of the version's embedder.
    """
    digest = hashlib.sha256(f"{chunks.num_rows} {fingerprint}\n".encode())
    order = pc.sort_indices(chunks.column("chunk_id"))
    for begin in range(0, len(order), _STEP):
        columns = [_taken(chunks.column(name), order.slice(begin, _STEP)) for name in DIGESTED]
        # Unambiguous: ids and hashes contain no line break, and JSON escapes it.
        lines = pc.binary_join_element_wise(*columns, pa.scalar("\n", pa.large_string()))
        digest.update(_bytes_of(lines))
    return digest.hexdigest()


def _taken(column: pa.ChunkedArray, order: pa.Array) -> pa.Array:
    # Large strings, since a step with long metadata may exceed the 2 GiB that 32-bit offsets can address.
    taken = column.take(order).cast(pa.large_string())
    return taken.combine_chunks() if isinstance(taken, pa.ChunkedArray) else taken


def _bytes_of(lines: pa.LargeStringArray) -> memoryview:
    """Returns the concatenated bytes of all values of a string array, without copying."""
    _, offsets, values = lines.buffers()
    bounds = memoryview(offsets).cast("q")
    return memoryview(values)[bounds[lines.offset] : bounds[lines.offset + len(lines)]]
