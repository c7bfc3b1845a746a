"""What is derived from the rows of a workspace, kept for the workspaces that were asked last: a caller may name any
number of them.
"""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from cachetools import LRUCache

from almanac.core.given_up import require_wanted
from almanac.core.keyed_locks import KeyedLocks

_Kept = TypeVar("_Kept")

_VERSIONS = 3  # times the rows of the version: all rows together, each workspace's own, and what workspaces share
_MOST = 1000  # workspaces, if each has only a few rows


class WorkspaceCache(Generic[_Kept]):
    """LRU cache by workspace, None for all rows, of values that grow with the rows of a workspace. Safe to share among
    threads.

    The rows of the workspaces in it are at most three times those of the version, so memory is bounded by the version's
    size, whatever callers name. What is made of no rows is not kept.

    Args:
        rows: Rows of the version.
    """

    def __init__(self, rows: int) -> None:
        self._least = max(rows * _VERSIONS // _MOST, 1)
        self._kept: LRUCache[str | None, tuple[int, _Kept]] = LRUCache(
            max(rows * _VERSIONS, 1), getsizeof=lambda kept: kept[0]
        )
        self._lock, self._making = threading.Lock(), KeyedLocks()

    def of(self, workspace: str | None, make: Callable[[], _Kept], rows_in: Callable[[str | None], int]) -> _Kept:
        """The value of a workspace; made where it is not kept, while others that ask for the same one wait.

        `rows_in` gives the number of rows of a workspace. Neither function is kept: they refer to whoever has this
        cache, and the circle would keep both until garbage is collected.
        """
        if (found := self._found(workspace)) is not None:
            return found[1]
        with self._making.of(workspace):
            if (found := self._found(workspace)) is not None:  # another thread has made it
                return found[1]
            require_wanted()
            made, rows = make(), rows_in(workspace)
            if rows:
                with self._lock:
                    self._kept[workspace] = (max(rows, self._least), made)
        return made

    def _found(self, workspace: str | None) -> tuple[int, _Kept] | None:
        with self._lock:
            return self._kept.get(workspace)
