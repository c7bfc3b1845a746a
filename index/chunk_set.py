"""Sets of chunks of an open version, as masks over its rows."""

from collections.abc import Iterable, Iterator, Set
from typing import TYPE_CHECKING

import numpy as np

from almanac.index.open_segment import Mask

if TYPE_CHECKING:
    from almanac.index.reader import OpenVersion


class ChunkSet(Set[str]):
    """A set of chunks of an open version, such as those that pass a filter. `mask` is over all rows of its segments:
    half a million chunks take a megabyte.

    Iterating yields the ids in the order of rows; of a large set, only ask for its length and whether it contains an
    id.
    """

    def __init__(self, version: "OpenVersion", mask: Mask) -> None:
        self.mask = mask
        self._version, self._count = version, int(np.count_nonzero(mask))

    @classmethod
    def _from_iterable(cls, it: Iterable[str]) -> Set[str]:  # type: ignore[override]  # of sets that operators make
        return frozenset(it)

    def __len__(self) -> int:
        return self._count

    def __contains__(self, chunk_id: object) -> bool:
        row = self._version.row_of(chunk_id) if isinstance(chunk_id, str) else -1
        return row >= 0 and bool(self.mask[row])

    def __iter__(self) -> Iterator[str]:
        for batch in self._version.batches(["chunk_id"], self):
            yield from batch.column(0).to_pylist()
