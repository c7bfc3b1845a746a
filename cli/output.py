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
        stdout().write(json.dumps(content, ensure_ascii=False, indent=1, default=str).encode("utf-8", "backslashreplace").decode("utf-8") + "\n")
        stdout().flush()


def say(text: str = "") -> None:
    """A line for people, as it is."""
    with _even_if_nobody_reads():
        stdout().write(f"{text}\n")
        stdout().flush()


@contextmanager
def _even_if_nobody_reads() -> Iterator[None]:
    """Where the reader has closed the pipe, what is printed is lost from here on, and the command ends with its own exit code."""
    try:
        yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stdout().fileno())


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table for people; numbers stand right."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    for number, column in enumerate(columns):
        numeric = bool(rows) and all(isinstance(row[number], int | float | None) for row in rows)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*("–" if cell is None else str(cell) for cell in row))
    with _even_if_nobody_reads():
        Console(file=stdout(), highlight=False, markup=False).print(table)
        stdout().flush()


def print_error(error: AlmanacError, *, as_json: bool) -> None:
    """The error as it stands, on stderr; with --json its document, which is the run's report where it ended one."""
    if as_json:
        with suppress(OSError):  # the disk behind stdout is full, which may be the error
            print_json(error.report or error.as_json())
    sys.stderr.write(f"almanac: {error.kind.replace('_', ' ')}\n{error}\n")
