"""Rows of chunks that were read lately: questions meet the same ones, and each column of a row takes some microseconds
to read.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from cachetools import LRUCache

Row = dict[str, Any]

_CHARACTERS = 2_000_000  # that are kept, of the texts in rows
_OF_ROW = 500  # characters that take as much memory as a row without texts


class RowMemory:
    """LRU cache of rows by chunk id and columns, of as many as take the memory of two million characters. Safe to share
    among threads.
    """

    def __init__(self) -> None:
        self._kept: LRUCache[tuple[tuple[str, ...], str], Row] = LRUCache(_CHARACTERS, getsizeof=_size)
        self._lock = threading.Lock()

    def rows(
        self, chunk_ids: Sequence[str], names: tuple[str, ...], read: Callable[[Sequence[str]], list[Row]]
    ) -> list[Row]:
        """Returns columns of chunks, in the order of `chunk_ids`; `read` gives those that are not kept. The rows are
        those kept, not to be changed.
        """
        with self._lock:
            found = {one: row for one in chunk_ids if (row := self._kept.get((names, one))) is not None}
        if new := list(dict.fromkeys(one for one in chunk_ids if one not in found)):
            read_now = dict(zip(new, read(new), strict=True))
            found.update(read_now)
            with self._lock:
                for one, row in read_now.items():
                    with suppress(ValueError):  # it is larger than the cache
                        self._kept[names, one] = row
        return [found[one] for one in chunk_ids]


def _size(row: Row) -> int:
    return _OF_ROW + sum(len(value) for value in row.values() if isinstance(value, str))
