"""Rows that were read lately are kept, and not too many of them."""

from collections.abc import Sequence

import pytest

from almanac.index.row_memory import Row, RowMemory


class _Rows:
    """Rows of a version; `read` has the ids that were asked for."""

    def __init__(self, text: str) -> None:
        self._text, self.read = text, list[str]()

    def __call__(self, chunk_ids: Sequence[str]) -> list[Row]:
        self.read += chunk_ids
        return [{"chunk_id": chunk_id, "text": self._text} for chunk_id in chunk_ids]


def test_a_row_is_read_once_for_each_choice_of_columns() -> None:
    memory, rows = RowMemory(), _Rows("a")
    assert [row["chunk_id"] for row in memory.rows(["x", "y", "x"], ("text",), rows)] == ["x", "y", "x"]
    assert [row["chunk_id"] for row in memory.rows(["z", "y"], ("text",), rows)] == ["z", "y"]
    assert rows.read == ["x", "y", "z"]
    memory.rows(["x"], ("chunk_id", "text"), rows)
    assert rows.read == ["x", "y", "z", "x"]


@pytest.mark.parametrize("text", ["", "a" * 1_000, "a" * 300_000])
def test_rows_of_two_million_characters_are_kept_at_most(text: str) -> None:
    memory = RowMemory()
    for number in range(5_000 if len(text) < 10_000 else 50):
        memory.rows([f"{number}"], ("text",), _Rows(text))
        assert sum(len(row["text"]) + 500 for row in memory._kept.values()) <= 2_000_000
    assert memory._kept


def test_rows_that_are_too_long_to_keep_are_given_all_the_same() -> None:
    memory, rows = RowMemory(), _Rows("a" * 3_000_000)
    assert len(memory.rows(["x"], ("text",), rows)[0]["text"]) == 3_000_000
    assert not memory._kept
