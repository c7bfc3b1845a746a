"""Tables of Markdown, read back and compared."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?|[-+]?\.\d+")


class Table(NamedTuple):
    """A table: names of its columns, and rows of cells without emphasis."""

    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]


class Watched(NamedTuple):
    """A column whose numbers are compared; more than this share for the worse counts, of the number of before."""

    column: str
    noise: float
    more: bool = False  # more is better


def tables_in(text: str) -> list[Table]:
    """Returns the tables of a page of Markdown, in order."""
    tables: list[Table] = []
    lines = text.splitlines()
    for number, line in enumerate(lines[1:], 1):
        if re.fullmatch(r"\|(\s*:?-+:?\s*\|)+", line.strip()):
            rows = []
            for row in lines[number + 1 :]:
                if not row.startswith("|"):
                    break
                rows.append(_cells(row))
            tables.append(Table(_cells(lines[number - 1]), rows))
    return tables


def worse_rows(
    now: Sequence[Table], before: Sequence[Table], keys: Sequence[str], watched: Watched
) -> Iterator[tuple[str, float, float]]:
    """Yields a row's key, its number of before and its number now, where that is worse. Rows that only one side has are
    passed over.
    """
    old = dict(_numbers(before, keys, watched.column))
    for key, after in _numbers(now, keys, watched.column):
        if key in old and (old[key] - after if watched.more else after - old[key]) > watched.noise * abs(old[key]):
            yield ", ".join(key), old[key], after


def rows_of_both(now: Sequence[Table], before: Sequence[Table], keys: Sequence[str], column: str) -> int:
    """Returns how many rows have a number in this column on both sides."""
    return len(dict(_numbers(now, keys, column)).keys() & dict(_numbers(before, keys, column)).keys())


def _numbers(tables: Sequence[Table], keys: Sequence[str], column: str) -> Iterator[tuple[tuple[str, ...], float]]:
    for columns, rows in tables:
        if not {*keys, column} <= set(columns):
            continue
        for row in rows:
            cells = dict(zip(columns, row, strict=False))
            if number := _NUMBER.search(cells[column]):
                yield tuple(cells[key] for key in keys), float(number[0].replace(",", ""))


def _cells(line: str) -> tuple[str, ...]:
    return tuple(cell.strip().strip("*") for cell in line.strip().strip("|").split("|"))
