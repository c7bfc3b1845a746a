"""What commands print: one JSON document on stdout, or tables for people. Everything else goes to stderr."""

import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Any, Literal

from almanac.schemas.errors import AlmanacError

if TYPE_CHECKING:
    from pydantic import BaseModel

WIDTH = 80  # columns that every terminal is taken to have
_WORD = 20  # letters of a word that is broken only where columns are many
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


def width() -> int:
    """Columns of the terminal, WIDTH at least."""
    return max(shutil.get_terminal_size((WIDTH, 24)).columns, WIDTH)


def shortened(text: str, indented: int = 0) -> str:
    """A text on one line that fits the terminal."""
    flat, room = " ".join(text.split()), width() - indented
    return flat if len(flat) <= room else f"{flat[: room - 1]}…"


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table for people, no wider than the terminal, or than WIDTH where that is narrower; numbers stand right. No
    word is broken but those longer than a column can be, such as a URL.
    """
    from rich.box import SIMPLE_HEAD
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table

    table = Table(header_style="bold", box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    shown = [["–" if cell is None else str(cell) for cell in row] for row in rows]
    console = Console(file=stdout(), highlight=False, markup=False)
    console.width = max(console.width, WIDTH)
    longest = [
        max((cell_len(word) for cell in (column, *(row[number] for row in shown)) for word in cell.split()), default=1)
        for number, column in enumerate(columns)
    ]
    word = next(
        (most for most in range(_WORD, 1, -1) if sum(min(size, most) + _GAP for size in longest) <= console.width),
        1,
    )
    for number, column in enumerate(columns):
        numeric = bool(rows) and all(isinstance(row[number], int | float | None) for row in rows)
        justify: Literal["left", "right"] = "right" if numeric else "left"
        table.add_column(column, justify=justify, overflow="fold", min_width=min(longest[number], word))
    for row in shown:
        table.add_row(*row)
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
