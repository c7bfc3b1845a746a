"""Tables in text files (RFC 4180 and its dialects): rows by the names of their columns, each with the line that it begins on."""

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

_DELIMITERS = ",;\t|"
_SAMPLED_ROWS = 50
_SAMPLED_CHARACTERS = 1 << 16
_UNNAMED = re.compile(r"column_\d+")
_MAX_RECOVERIES = 100  # a quote that is never closed costs another pass over the rest of the file


@dataclass(frozen=True, slots=True)
class Row:
    """A row: its values by column, None where a cell is empty (nothing, in a column without a name); or the problem that keeps it from being one."""

    line: int
    values: dict[str, str | None]
    problem: str | None = None


def read_rows(text: str, delimiter: str | None = None) -> Iterator[Row]:
    """Every row below the header, in order; ValueError where there is no header. Rows without any value are skipped."""
    lines = _lines(text.removeprefix("\ufeff"))
    if lines and lines[0].lower().startswith("sep=") and len(lines[0].strip()) == 5:  # Excel's way to name the delimiter
        delimiter, lines[0] = lines[0][4], "\n"
    records = _records(lines, delimiter or sniff_delimiter("".join(lines[:2000])))
    header = next((record for record in records if any(cell.strip() for cell in record.cells)), None)
    if header is None or header.problem:
        raise ValueError(f"no header row: {header.problem if header else 'the file is empty'}")
    names = _column_names(header.cells)
    for record in records:
        if record.problem or any(cell.strip() for cell in record.cells):
            yield _row(record, names)


def sniff_delimiter(sample: str) -> str:
    """The delimiter that cuts the beginning of a table into the most columns, as many in each row as in its header; a comma if none does."""
    lines = _lines(sample[:_SAMPLED_CHARACTERS])
    if len(sample) > _SAMPLED_CHARACTERS:
        lines = lines[:-1]
    best, best_score = ",", (0.0, 0)
    for delimiter in _DELIMITERS:
        widths = [len(record.cells) for record in islice(_records(lines, delimiter), _SAMPLED_ROWS) if record.cells and not record.problem]
        if not widths or widths[0] < 2:
            continue
        score = (Counter(widths)[widths[0]] / len(widths), widths[0])
        if score > best_score:
            best, best_score = delimiter, score
    return best


@dataclass(frozen=True, slots=True)
class _Record:
    line: int
    cells: Sequence[str]
    problem: str | None = None


def _lines(text: str) -> list[str]:
    """Lines with their ends: \\n, \\r\\n or, where the header ends so, \\r. What else Unicode calls a line's end may stand in a cell."""
    if "\r" in text.partition("\n")[0].removesuffix("\r"):
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return [f"{line}\n" for line in text.split("\n")]


def _records(lines: Sequence[str], delimiter: str) -> Iterator[_Record]:
    """Records of a table. A quote that is never closed spoils its own line only: reading goes on with the line after it."""
    start, recoveries = 0, 0
    csv.field_size_limit(1 << 30)
    while start < len(lines):
        reader = csv.reader(islice(lines, start, None), delimiter=delimiter, strict=True)
        first = start
        while True:
            line = first + reader.line_num
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                if "unexpected end of data" not in str(error) or recoveries == _MAX_RECOVERIES:
                    yield _Record(line + 1, (), _reason(error))
                    continue
                yield _Record(line + 1, (), "a quote is opened and never closed")
                recoveries += 1
                start = line + 1
                break
            yield _Record(line + 1, cells)


def _reason(error: csv.Error) -> str:
    return "text stands after a closing quote" if "expected after" in str(error) else str(error)


def _column_names(cells: Sequence[str]) -> list[str]:
    """A name for each column: what the header says, `column_3` where it says nothing, `price_2` where it says the same again."""
    names: list[str] = []
    for number, cell in enumerate(cells, start=1):
        name = base = " ".join(cell.split()) or f"column_{number}"
        again = 1
        while name in names:
            again += 1
            name = f"{base}_{again}"
        names.append(name)
    return names


def _row(record: _Record, names: Sequence[str]) -> Row:
    cells = list(record.cells)
    while len(cells) > len(names) and not cells[-1].strip():  # a delimiter at the end of the line
        cells.pop()
    if record.problem or len(cells) != len(names):
        problem = record.problem or f"cells: {len(cells)}, columns: {len(names)}"
        return Row(record.line, {}, f"line {record.line}: {problem}")
    named = ((name, cell if cell.strip() else None) for name, cell in zip(names, cells, strict=True))
    return Row(record.line, {name: cell for name, cell in named if cell is not None or not _UNNAMED.fullmatch(name)})
