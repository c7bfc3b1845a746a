"""Reads delimited tables (RFC 4180 and its dialects) as rows by column name, each with its line number."""

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple

_DELIMITERS = ",;\t|"
_SAMPLED_ROWS = 50
_SAMPLED_CHARACTERS = 1 << 16
_UNNAMED = re.compile(r"column_\d+")
_MAX_RECOVERIES = 100  # a quote that is never closed costs another pass over the rest of the file
_UP_TO_A_QUOTE = re.compile(r'(?:[^"]|"")*+(?=")')
# delimiters in lines inside a quote, from which on they are taken for table rows rather than prose with commas
_ROWS_BY_CHANCE = 8
_NEVER_CLOSED = "a quote is opened and never closed"
_BEHIND_MANY = "behind too many quotes that are never closed"
_REASONS = {
    "expected after": "text stands after a closing quote",
    "unexpected end": _NEVER_CLOSED,
    "new-line character": "a carriage return stands in a cell without quotes",
}


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table: its line (from 1) and its values by column, or the problem that makes it unreadable.

    Empty cells are None, or missing in columns without a name.
    """

    line: int
    values: dict[str, str | None]
    problem: str | None = None


def read_rows(text: str, delimiter: str | None = None) -> Iterator[Row]:
    """Yields the rows below the header, in order; empty ones are skipped. Raises ValueError if there is no readable
    header.

    `delimiter` None detects it.
    """
    lines = _lines(text.removeprefix("\ufeff"))
    # a directive of Excel that names the delimiter
    if lines and lines[0].lower().startswith("sep=") and len(lines[0].strip()) == 5:
        delimiter, lines[0] = lines[0][4], "\n"
    dialect = sniff_dialect("".join(lines[:2000]), delimiter or _DELIMITERS)
    header = next((record for record in _records(lines, dialect) if any(cell.strip() for cell in record.cells)), None)
    if header is None or header.problem:
        raise ValueError(f"no header row: {header.problem if header else 'the file is empty'}")
    names = _column_names(header.cells)
    for record in _records(lines, dialect, header.end, len(names)):
        if record.problem or any(cell.strip() for cell in record.cells):
            yield _row(record, names)


class Dialect(NamedTuple):
    """How a table is written. With `spaced`, cells may be preceded by blanks, and a quote after them opens a quoted
    cell.
    """

    delimiter: str
    spaced: bool = False


def sniff_dialect(sample: str, delimiters: str = _DELIMITERS) -> Dialect:
    """Detects the dialect from the beginning of a table: most rows as wide as the header, then most columns.

    Falls back to the first of `delimiters` if none gives two columns.
    """
    lines = _lines(sample[:_SAMPLED_CHARACTERS])
    if len(sample) > _SAMPLED_CHARACTERS:
        lines = lines[:-1]
    best, best_score = Dialect(delimiters[0]), (0.0, 0)
    for delimiter in delimiters:
        for spaced in (True, False) if re.search(f'{re.escape(delimiter)} +"', sample) else (False,):
            widths = [
                len(record.cells)
                for record in islice(_records(lines, Dialect(delimiter, spaced)), _SAMPLED_ROWS)
                if not record.problem
            ]
            widths = [width for width in widths if width]
            if not widths or widths[0] < 2:
                continue
            score = (Counter(widths)[widths[0]] / len(widths), widths[0])
            if score > best_score:
                best, best_score = Dialect(delimiter, spaced), score
    return best


@dataclass(frozen=True, slots=True)
class _Record:
    """Cells or a problem, with the numbers (from 1) of the first and the last line."""

    line: int
    end: int
    cells: Sequence[str] = ()
    problem: str | None = None


def _lines(text: str) -> list[str]:
    """Lines with a `\\n` at their end; `\\r\\n` and, where the header ends in one, a lone `\\r` count too. Other
    Unicode line ends may be part of a cell.
    """
    if "\r" in text.partition("\n")[0].removesuffix("\r"):
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return [f"{line}\n" for line in text.split("\n")]


def _records(lines: Sequence[str], dialect: Dialect, start: int = 0, width: int = 0) -> Iterator[_Record]:
    """Yields the records of a table from line `start` on; `width` is its number of columns, 0 if not known.

    A quote that is never closed costs only its own line: reading resumes on the next one, whether the table ends before
    another quote, or the next quote opens a cell, or it closes one that is full of rows.
    """
    recoveries = 0
    csv.field_size_limit(1 << 30)
    while start < len(lines):
        reader = _reader(islice(lines, start, None), dialect)
        first = start
        while True:
            line = first + reader.line_num
            try:
                record = _Record(line + 1, 0, next(reader))
            except StopIteration:
                return
            except csv.Error as error:
                record = _Record(line + 1, 0, problem=_reason(error))
                is_open = _is_never_closed(lines, line, first + reader.line_num, str(error), dialect.delimiter)
            else:
                is_open = _holds_rows(lines[line + 1 : first + reader.line_num - 1], dialect, width)
            end = first + reader.line_num
            if not is_open:
                yield replace(record, end=end)
                continue
            yield _Record(line + 1, line + 1, problem=_NEVER_CLOSED)
            if recoveries == _MAX_RECOVERIES:
                yield from (
                    _Record(n + 1, n + 1, problem=_BEHIND_MANY) for n in range(line + 1, end) if lines[n].strip()
                )
                continue
            recoveries += 1
            start = line + 1
            break


def _reader(lines: Iterable[str], dialect: Dialect) -> Any:
    return csv.reader(lines, delimiter=dialect.delimiter, skipinitialspace=dialect.spaced, strict=True)


def _holds_rows(inner: Sequence[str], dialect: Dialect, width: int) -> bool:
    """Whether the lines inside a quoted cell are rows of the table: nine in ten have its width, and too many delimiters
    for prose.
    """
    if len(inner) * (width - 1) < _ROWS_BY_CHANCE:
        return False
    rows = [line for line in inner if line.strip()]
    return sum(_width(line, dialect) == width for line in rows) * 10 >= len(rows) * 9 > 0


def _width(line: str, dialect: Dialect) -> int:
    try:
        return len(next(_reader([line], dialect)))
    except csv.Error:
        return 0


def _is_never_closed(lines: Sequence[str], begin: int, end: int, error: str, delimiter: str) -> bool:
    """Whether a failed record swallowed the lines after its first one, up to the end of the table or to the quote that
    opens another cell.
    """
    if "unexpected end" in error:
        return True
    if end - begin < 2 or "expected after" not in error or (quote := _UP_TO_A_QUOTE.match(lines[end - 1])) is None:
        return False
    before = quote[0].rstrip(" ")
    return not before or before.endswith(delimiter)


def _reason(error: csv.Error) -> str:
    return next((reason for words, reason in _REASONS.items() if words in str(error)), str(error))


def _column_names(cells: Sequence[str]) -> list[str]:
    """Unique column names: the header's, `column_3` where it has none, `price_2` for a repeated one."""
    names: dict[str, None] = {}
    again: dict[str, int] = {}
    for number, cell in enumerate(cells, start=1):
        name = base = " ".join(cell.split()) or f"column_{number}"
        while name in names:
            again[base] = again.get(base, 1) + 1
            name = f"{base}_{again[base]}"
        names[name] = None
    return list(names)


def _row(record: _Record, names: Sequence[str]) -> Row:
    cells = list(record.cells)
    while len(cells) > len(names) and not cells[-1].strip():  # the line ends with a delimiter
        cells.pop()
    if cells and all(_UNNAMED.fullmatch(name) for name in names[len(cells) :]):  # the header ends with a delimiter
        cells += [""] * (len(names) - len(cells))
    if record.problem or len(cells) != len(names):
        problem = record.problem or f"cells: {len(cells)}, columns: {len(names)}"
        return Row(record.line, {}, f"line {record.line}: {problem}")
    named = ((name, cell if cell.strip() else None) for name, cell in zip(names, cells, strict=True))
    return Row(record.line, {name: cell for name, cell in named if cell is not None or not _UNNAMED.fullmatch(name)})
