"""What commands print: one JSON document on stdout, or tables for people. Everything else goes to stderr."""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Any

from almanac.schemas.errors import AlmanacError

if TYPE_CHECKING:
    from pydantic import BaseModel

_WORD = 20  # letters of a word that is never broken
_GAP = 2  # between columns
_stdout: IO[str] | None = None


def reserve_stdout() -> None:
    """From now on only `print_json` and `stdout` write to the real stdout; an engine that prints ends up on stderr."""
    global _stdout
    if _stdout is None:
        sys.stdout.flush()
        _stdout = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)


def stdout() -> IO[str]:
    """The stream that belongs to the command's result."""
    return _stdout or sys.stdout


def print_json(document: "BaseModel | dict[str, Any]") -> None:
    """The command's one JSON document."""
    content = document if isinstance(document, dict) else document.model_dump(by_alias=True, mode="json")
    with _even_if_nobody_reads():
        stdout().write(
            json.dumps(content, ensure_ascii=False, indent=1, default=str)
            .encode("utf-8", "backslashreplace")
            .decode("utf-8")
            + "\n"
        )
        stdout().flush()


def say(text: str = "") -> None:
    """A line for people, as it is."""
    with _even_if_nobody_reads():
        stdout().write(f"{text}\n")
        stdout().flush()


@contextmanager
def _even_if_nobody_reads() -> Iterator[None]:
    """Where the reader has closed the pipe, what is printed is lost from here on, and the command ends with its own
    exit code.
    """
    try:
        yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stdout().fileno())


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table for people; numbers stand right. No word is broken but one longer than a column should be, such as a URL,
    even where the terminal is narrow.
    """
    from rich.box import SIMPLE_HEAD
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table

    table = Table(header_style="bold", box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    shown = [["–" if cell is None else str(cell) for cell in row] for row in rows]
    narrowest = 0
    for number, column in enumerate(columns):
        numeric = bool(rows) and all(isinstance(row[number], int | float | None) for row in rows)
        longest = max(
            (cell_len(word) for cell in (column, *(row[number] for row in shown)) for word in cell.split()), default=1
        )
        table.add_column(column, justify="right" if numeric else "left", overflow="fold", min_width=min(longest, _WORD))
        narrowest += min(longest, _WORD) + _GAP
    for row in shown:
        table.add_row(*row)
    console = Console(file=stdout(), highlight=False, markup=False)
    console.width = max(console.width, narrowest - _GAP + 1)
    with _even_if_nobody_reads():
        console.print(title, style="bold")  # a title of the table itself would be as narrow as that
        console.print(table)
        stdout().flush()


def print_error(error: AlmanacError, *, as_json: bool) -> None:
    """The error as it stands, on stderr; with --json its document, which is the run's report where it ended one."""
    if as_json:
        with suppress(OSError):  # the disk behind stdout is full, which may be the error
            print_json(error.report or error.as_json())
    sys.stderr.write(f"almanac: {error.kind.replace('_', ' ')}\n{error}\n")
