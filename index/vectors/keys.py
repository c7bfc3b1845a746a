"""Index of vector keys: the part and the row in which each key's vector is stored."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

from almanac.core.digests import Digests, SortedDigests, digests_of
from almanac.core.digests import RowNumbers as RowNumbers
from almanac.core.tables import read_table

_NONE = -1


def keys_in(chunks: Path) -> pa.LargeStringArray:
    """Returns the vector keys of a chunks table, one for each row. Raises as `read_table`."""
    return read_table(chunks, ["text_sha256"]).column(0).cast(pa.large_string()).combine_chunks()


class VectorKeys:
    """Keys of all vector parts in a folder, as 32 bytes each and their place. 100,000 keys in 200 parts are read in
    0.15 s.

    Parts are read when a key is asked for that those read so far have not: also parts that were written since.
    """

    def __init__(self, folder: Path, read_keys: Callable[[Path], Digests | None]) -> None:
        """`read_keys` returns the keys of a part in row order, or None for a damaged part, which is then left out."""
        self._folder, self._read_keys = folder, read_keys
        self._sorted = SortedDigests(digests_of([]))
        self._lengths: dict[Path, int] = {}  # rows of each part, in the order of their places in `_sorted`

    def find(self, keys: Digests) -> tuple[list[Path], RowNumbers, RowNumbers]:
        """Locates keys: returns the parts' paths, the part number of each key and its row in that part, both int64 (n,)
        and -1 for an unknown key.
        """
        places = self._sorted.find(keys)
        if (places == _NONE).any() and self._read_new():
            places = self._sorted.find(keys)
        starts = np.cumsum([0, *self._lengths.values()])
        numbers = np.searchsorted(starts, places, side="right") - 1  # -1 where the place is
        return list(self._lengths), numbers, np.where(places == _NONE, _NONE, places - starts[numbers])

    def drop(self, path: Path) -> None:
        """Leaves out a part that was moved aside: the others are read again."""
        if path in self._lengths:
            self._sorted, self._lengths = SortedDigests(digests_of([])), {}

    def _read_new(self) -> bool:
        """Reads the parts that were not read yet; returns whether there are any."""
        paths = sorted(path for path in self._folder.glob("*.parquet") if path not in self._lengths)
        parts = {path: keys for path in paths if (keys := self._read_keys(path)) is not None}
        if not parts:
            return False
        known = np.empty_like(self._sorted.digests)
        known[self._sorted.rows] = self._sorted.digests  # in the order of parts and rows
        self._sorted = SortedDigests(np.concatenate([known, *parts.values()]))
        self._lengths |= {path: len(keys) for path, keys in parts.items()}
        return True
