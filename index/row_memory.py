"""Rows of chunks that were read lately: questions meet the same ones, and each column of a row takes some microseconds to read."""

from collections.abc import Callable, Sequence
from typing import Any

_CHARACTERS = 2_000_000  # that are kept, of the texts in rows
_OF_ROW = 500  # characters that take as much memory as a row without texts

Row = dict[str, Any]


class RowMemory:
    """Keeps rows by chunk id and columns, as many as take the memory of two million characters; then it forgets all. Safe to share among threads."""

    def __init__(self) -> None:
        self._kept: dict[tuple[tuple[str, ...], str], Row] = {}
        self._characters = 0

    def rows(self, chunk_ids: Sequence[str], names: tuple[str, ...], read: Callable[[Sequence[str]], list[Row]]) -> list[Row]:
        """Returns columns of chunks, in the order of `chunk_ids`; `read` gives those that are not kept. The rows are those kept, not to be changed."""
        kept = self._kept  # another thread may forget all meanwhile
        rows = [kept.get((names, one)) for one in chunk_ids]
        new = list(dict.fromkeys(one for one, row in zip(chunk_ids, rows, strict=True) if row is None))
        if not new:
            return [row for row in rows if row is not None]
        found = dict(zip(new, read(new), strict=True))
        size = _OF_ROW * len(found) + sum(len(value) for row in found.values() for value in row.values() if isinstance(value, str))
        if self._characters + size > _CHARACTERS:
            self._kept, self._characters = {}, 0
        if size <= _CHARACTERS:
            self._kept.update(((names, one), row) for one, row in found.items())
            self._characters += size
        return [found[one] if row is None else row for one, row in zip(chunk_ids, rows, strict=True)]
