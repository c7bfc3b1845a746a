"""Digest of a version: equal for equal content, independent of row order, batching and fetch time."""

import hashlib
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from almanac.core.digests import SortedDigests, digests_of
from almanac.core.reordered import reordered
from almanac.core.tables import CHUNKS
from almanac.index.segments.tables import VersionTables
from almanac.index.vectors.keys import RowNumbers

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
    order = pc.sort_indices(chunks.column("chunk_id"))
    in_order = (pa.table({name: _taken(chunks.column(name), order.slice(begin, _STEP)) for name in DIGESTED}) for begin in range(0, len(order), _STEP))
    return _digest(chunks.num_rows, in_order, fingerprint)


def digest_of_version(tables: VersionTables, fingerprint: str) -> str:
    """Returns the digest of a version over all of its segments, without holding its metadata in memory: 30 bytes a chunk, and a file without a name.

    Raises DamagedVersion where a table cannot be read.
    """
    ids = [digests_of(batch.column(0), 16) for batch in tables.batches(CHUNKS, ["chunk_id"], rows=_STEP)]
    places = SortedDigests(np.concatenate([digests_of([], 16), *ids])).ranks()  # ids are sorted as their bytes are
    del ids

    def placed() -> Iterator[tuple[pa.Table, RowNumbers]]:
        begin = 0
        for batch in tables.batches(CHUNKS, DIGESTED, rows=_STEP):
            yield batch, places[begin : begin + len(batch)]
            begin += len(batch)

    return _digest(len(places), reordered(placed(), len(places), _STEP), fingerprint)


def _digest(rows: int, in_order: Iterable[pa.Table], fingerprint: str) -> str:
    digest = hashlib.sha256(f"{rows} {fingerprint}\n".encode())
    for table in in_order:
        columns = [_large(table.column(name)) for name in DIGESTED]
        # Unambiguous: ids and hashes contain no line break, and JSON escapes it.
        digest.update(_bytes_of(pc.binary_join_element_wise(*columns, pa.scalar("\n", pa.large_string()))))
    return digest.hexdigest()


def _taken(column: pa.ChunkedArray, order: pa.Array) -> pa.Array:
    # Large strings, since a step with long metadata may exceed the 2 GiB that 32-bit offsets can address.
    return _large(column.take(order))


def _large(column: pa.ChunkedArray) -> pa.Array:
    large = column.cast(pa.large_string())
    return large.combine_chunks() if isinstance(large, pa.ChunkedArray) else large


def _bytes_of(lines: pa.LargeStringArray) -> memoryview:
    """Returns the concatenated bytes of all values of a string array, without copying."""
    _, offsets, values = lines.buffers()
    bounds = memoryview(offsets).cast("q")
    return memoryview(values)[bounds[lines.offset] : bounds[lines.offset + len(lines)]]
