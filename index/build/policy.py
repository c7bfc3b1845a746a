"""Which segments a refresh merges, and into how many the rows of new segments are divided.

A refresh writes its additions as a new segment. Merging keeps segments few, since each costs a search of its own, and
deletions bounded, since deleted rows still cost memory, disk and time. What is merged is written anew, so that both are
done seldom: with 1 % of a million chunks changed a night, a chunk is written anew after 12 nights, after 12 times as
long, and when a quarter of its segment is deleted.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq

_MOST_DELETED = 0.25  # share of a segment's rows; with more, it is merged
_MOST_ALIKE = 12  # segments of one order of magnitude; with more, they are merged, and with them the smaller ones
_LARGEST = 2  # times the chunks of a version that is one segment
# of the columns of a segment's chunks, beyond which another one is begun: far below the 2 GiB of an Arrow column
MOST_BYTES = 256 << 20

_MOST_BYTES_ALONE = 1 << 30  # of all columns of the chunks of a version that is a single segment


class Size(NamedTuple):
    """A segment of the parent version: its chunks, and those that stay live."""

    name: str
    chunks: int
    live: int


def fits_one_segment(chunks: Path, limit: int) -> bool:
    """Whether a version of these chunks is a single segment: few enough, none of whose columns comes near the 2 GiB of
    an Arrow column.
    """
    stored = pq.read_metadata(chunks)
    size = sum(stored.row_group(group).total_byte_size for group in range(stored.num_row_groups))
    return bool(stored.num_rows <= limit and size <= _MOST_BYTES_ALONE)


def to_merge(segments: Sequence[Size], added: int, limit: int) -> set[str]:
    """Returns the names of the segments to merge with what is added.

    Args:
        segments: The segments, with the chunks that the new version has of them.
        added: Chunks that are new.
        limit: `index.segment`. Segments of so many chunks or more are merged for their deletions only.
    """
    merged = {segment.name for segment in segments if segment.chunks - segment.live > _MOST_DELETED * segment.chunks}
    while True:
        rest = [segment for segment in segments if segment.name not in merged]
        new = added + sum(segment.live for segment in segments if segment.name in merged)
        sizes = [*(segment.chunks for segment in rest), *([new] if new else [])]
        small = [_magnitude(size) for size in sizes if size < limit]
        crowded = max((magnitude for magnitude in small if small.count(magnitude) > _MOST_ALIKE), default=None)
        if crowded is None:
            return merged
        merged |= {segment.name for segment in rest if segment.chunks < limit and _magnitude(segment.chunks) <= crowded}


def rows_each(rows: int, limit: int) -> int:
    """Returns the number of rows of each new segment for so many rows: at most twice `limit`, in equal shares, and at
    least two segments above `limit`.
    """
    segments = max(-(-rows // (_LARGEST * limit)), 2 if rows > limit else 1)
    return max(1, -(-rows // segments))


def _magnitude(rows: int) -> int:
    return len(str(rows))
