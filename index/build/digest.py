"""Digest of a version: equal for equal content, independent of row order, batching and fetch time."""

import hashlib
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from almanac.core.digests import RowNumbers
from almanac.core.tables import Batches, in_order

DIGESTED = ["chunk_id", "text_sha256", "metadata"]
_STEP = 10_000  # rows hashed at a time


def digest_of(chunks: pa.Table | Batches, fingerprint: str) -> str:
    """Returns the hex SHA-256 over the sorted chunk ids, each with its vector key (`text_sha256`) and metadata, and
    over the embedder's fingerprint.

    A chunk id is a hash of the chunk's text, position and metadata, which `verify` checks row by row, so the digest
    covers everything visible to a reader except `fetched_at`.

    Args:
        chunks: Table with at least the columns `DIGESTED`, in any row order; or what reads such a table in batches, of
            which only the ids are held in memory.
        fingerprint: Fingerprint of the version's embedder.
    """
    ids = [batch.column("chunk_id").cast(pa.large_string()) for batch in _batches(chunks, ["chunk_id"])]
    order = pc.sort_indices(
        pa.chunked_array([chunk for column in ids for chunk in column.chunks], pa.large_string())
    ).to_numpy()
    del ids
    places = np.empty(len(order), dtype=np.int64)
    places[order] = np.arange(len(order))
    digest = hashlib.sha256(f"{len(order)} {fingerprint}\n".encode())
    for rows in in_order(lambda: _placed(chunks, places), len(order), _STEP):
        # Unambiguous: ids and hashes contain no line break, and JSON escapes it.
        columns = [rows.column(name).combine_chunks() for name in DIGESTED]
        digest.update(_bytes_of(pc.binary_join_element_wise(*columns, pa.scalar("\n", pa.large_string()))))
    return digest.hexdigest()


def _batches(chunks: pa.Table | Batches, columns: list[str]) -> Iterator[pa.Table]:
    if isinstance(chunks, pa.Table):
        yield from (pa.Table.from_batches([batch]) for batch in chunks.select(columns).to_batches(max_chunksize=_STEP))
    else:
        yield from chunks(columns)


def _placed(chunks: pa.Table | Batches, places: RowNumbers) -> Iterator[tuple[pa.Table, RowNumbers]]:
    begin = 0
    for batch in _batches(chunks, DIGESTED):
        yield batch.select(DIGESTED), places[begin : begin + len(batch)]
        begin += len(batch)


def _bytes_of(lines: pa.LargeStringArray) -> memoryview:
    """Returns the concatenated bytes of all values of a string array, without copying."""
    _, offsets, values = lines.buffers()
    bounds = memoryview(offsets).cast("q")
    return memoryview(values)[bounds[lines.offset] : bounds[lines.offset + len(lines)]]
