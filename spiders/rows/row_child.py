"""The child process of `row_program`: runs the declared program in its place, or prints the rows of a function or a
query as JSON lines.
"""

import importlib
import os
import resource
import sys
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, NoReturn

from almanac.core.lifetime import die_with_parent, watch_stdin
from almanac.schemas.declaration.row_sources import CommandSource, RowsSource, SqlSource
from almanac.schemas.errors import AlmanacError, DeclarationError
from almanac.spiders.rows.dlt_state import kept_state
from almanac.spiders.rows.plain_values import as_line
from almanac.spiders.rows.row_program import FAILURES, RowJob

_GROUP = "almanac.sources"
_KINDS: dict[str, type[RowsSource] | type[SqlSource] | type[CommandSource]] = {
    "rows": RowsSource,
    "sql": SqlSource,
    "command": CommandSource,
}


def main() -> None:
    """Does the job that the parent tells."""
    die_with_parent()
    job = RowJob.model_validate_json(sys.stdin.buffer.readline())
    source = _KINDS[job.source["kind"]].model_validate(job.source)
    os.chdir(job.folder)
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_DATA, (source.limits.memory, source.limits.memory))
    if isinstance(source, CommandSource):
        _become(source.command)
    watch_stdin()
    lines = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the function prints is no row
    try:
        rows = _called(source, job.since) if isinstance(source, RowsSource) else _queried(source, job.since)
        for row in rows:
            lines.write(as_line(row) + b"\n")
        lines.flush()
    except AlmanacError as error:
        lines.write(as_line(["failed", _nearest(error), error.message, error.hint or ""]) + b"\n")
        lines.flush()


def _nearest(error: AlmanacError) -> str:
    return next(kind.__name__ for kind in type(error).__mro__ if kind.__name__ in FAILURES)


def _become(command: list[str]) -> NoReturn:
    """Runs the program in place of this process, so that what ends this one ends it."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"{command[0]} cannot be run: {error.strerror}")


def _called(source: RowsSource, since: Any) -> Iterator[Any]:
    sys.path.insert(0, str(Path.cwd()))
    function = _function(source.from_)
    with kept_state(None if source.is_complete else since) as state:
        rows = function(**source.with_) if callable(function) else function
        if not isinstance(rows, Iterable):
            raise DeclarationError(
                f"from: {source.from_} gives a {type(rows).__name__}, and rows are iterated", where="from"
            )
        for row in rows:
            # a list is one of rows; what it has is none of our own words to the parent
            yield from (
                (str(entry) if isinstance(entry, list) else entry for entry in row) if isinstance(row, list) else [row]
            )
        if not source.is_complete:
            yield ["cursor", state()]


def _function(name: str) -> Any:
    """What `package.module:name` or an entry point names. Raises DeclarationError where it is not there."""
    module, _, attribute = name.partition(":")
    try:
        if not attribute:
            entry_points = {entry_point.name: entry_point for entry_point in metadata.entry_points(group=_GROUP)}
            if name not in entry_points:
                there = ", ".join(sorted(entry_points)) or "none"
                hint = f"write package.module:function; installed are: {there}"
                raise DeclarationError(f"from: no package brings a source called {name}", where="from", hint=hint)
            return entry_points[name].load()
        function: Any = importlib.import_module(module)
        for part in attribute.split("."):
            function = getattr(function, part)
        return function
    except (ImportError, AttributeError) as error:
        hint = "modules beside the declaration are found, too; what they import has to be installed"
        raise DeclarationError(f"from: {name} cannot be imported: {error}", where="from", hint=hint) from error


def _queried(source: SqlSource, since: Any) -> Iterator[Any]:
    from almanac.spiders.rows.sql_rows import sql_rows

    return sql_rows(source, since)


if __name__ == "__main__":
    main()
