"""Finds the pipe tables of a Markdown text, so that rows that are cut off from the header of their table are embedded
with it.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from almanac.transforms.chunking.layout import Ruler, Span

_RULE = re.compile(
    r"^[ \t]*+(?=[^\n]*\|)\|?[ \t]*+:?-++:?[ \t]*+(?:\|[ \t]*+:?-++:?[ \t]*+)*+\|?[ \t\r]*+$", re.MULTILINE
)
_ROWS = re.compile(r"(?:[^\n|]*+\|[^\n]*+(?:\n|\Z))*+")


class Table(NamedTuple):
    """A table: its header, up to the rule below it, and its rows."""

    header: Span
    rows: Span


class Tables:
    """The tables of a text whose header may be repeated: one of at most `longest` units.

    A header counts in what rows may be cut to, so that rows with their header are no longer than a chunk may be. One
    without names is not repeated. `rows` are those of all tables, each header with its rule among them.
    """

    def __init__(self, text: str, ruler: Ruler, longest: int) -> None:
        tables = list(_find_tables(text))
        self._tables = [
            table
            for table in tables
            if ruler.count(*table.header) <= longest and text[slice(*table.header)].strip("| \t\r\n")
        ]
        self._starts = [table.header.end for table in self._tables]
        self.rows = [
            row for table in tables for row in (Span(table.header.start, table.rows.start), *_lines(text, table.rows))
        ]

    def header_of(self, position: int) -> Span | None:
        """The header of the table in whose rows a position lies."""
        number = bisect_right(self._starts, position) - 1
        return self._tables[number].header if number >= 0 and position < self._tables[number].rows.end else None

    def __bool__(self) -> bool:
        return bool(self._tables)

    def __iter__(self) -> Iterator[Table]:
        return iter(self._tables)


class WithHeaders:
    """A ruler by which a part that begins among the rows of a table is longer by the table's header."""

    def __init__(self, ruler: Ruler, tables: Tables) -> None:
        self._ruler, self._tables = ruler, tables
        self._longest = max((ruler.count(*table.header) for table in tables), default=0)

    def count(self, start: int, end: int) -> int:
        return self._ruler.count(start, end) + self._more(start)

    def end_of(self, start: int, units: int) -> int:
        return self._ruler.end_of(start, max(units - self._more(start), 0))

    def start_of(self, end: int, units: int) -> int:
        start = self._ruler.start_of(end, units)
        return self._ruler.start_of(end, max(units - self._longest, 0)) if self._more(start) else start

    def _more(self, start: int) -> int:
        header = self._tables.header_of(start)
        return 0 if header is None else self._ruler.count(*header)


def _find_tables(text: str) -> Iterator[Table]:
    reached = 0
    for rule in _RULE.finditer(text) if "|" in text else ():
        if rule.start() < reached:  # a row of dashes
            continue
        start = text.rfind("\n", 0, max(rule.start() - 1, 0)) + 1
        rows = _ROWS.match(text, min(rule.end() + 1, len(text)))
        if rows is not None and rows.end() > rows.start() and "|" in text[start : rule.start()]:
            yield Table(Span(start, rule.start()), Span(*rows.span()))
            reached = rows.end()


def _lines(text: str, rows: Span) -> Iterator[Span]:
    start = rows.start
    while start < rows.end:
        end = text.find("\n", start, rows.end) + 1 or rows.end
        yield Span(start, end)
        start = end
