"""The process that gives the rows of a source: a program as declared, or this package's own for a function or a query.

It prints a JSON object a line. Our own also prints lists: `["columns", names]`, `["cursor", value]`,
`["there", ids]` and `["failed", error, message, hint]`.
"""

import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Self

from pydantic import BaseModel, ConfigDict

from almanac.core.lifetime import how_it_ended, tell_job
from almanac.schemas.declaration.credentials import REVEALED
from almanac.schemas.declaration.row_sources import CommandSource, SqlSource
from almanac.schemas.declaration.source import RowSource
from almanac.schemas.errors import CredentialRefused, DeclarationError, OperationalError, Unreachable, UsageError

# what our own process may have failed with
FAILURES = {
    kind.__name__: kind for kind in (CredentialRefused, DeclarationError, OperationalError, Unreachable, UsageError)
}
_CHILD = "almanac.spiders.rows.row_child"
_AT_ONCE = 1 << 16
_SHOWN = 2000  # bytes of stderr
_PATIENCE_S = 5.0


class RowJob(BaseModel):
    """What the process is to do. `since` is the cursor's last value as it was printed; None for all rows."""

    model_config = ConfigDict(frozen=True)

    source: dict[str, Any]
    folder: str
    since: Any = None


class RowProgram:
    """Context manager over the running process; leaving it early ends the process. `is_own`: it may print lists.

    Args:
        source: The source.
        folder: The declaration's, in which it runs.
        since: As in `RowJob`.
    """

    def __init__(self, source: RowSource, folder: Path, since: Any = None) -> None:
        self._source, self.where, self.is_own = source, f"source {source.name}", not isinstance(source, CommandSource)
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # closed by __exit__
        self._ends_at = time.monotonic() + source.limits.seconds
        job = RowJob(
            source=source.model_dump(mode="json", by_alias=True, exclude_unset=True, context=REVEALED),
            folder=str(folder),
            since=since,
        )
        self._process = subprocess.Popen(
            [sys.executable, "-m", _CHILD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,  # so that what it starts ends with it
        )
        tell_job(self._process, job.model_dump_json())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_PATIENCE_S)
        with suppress(ProcessLookupError):  # what it has started and left behind goes, too
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._errors):
            if pipe is not None:
                pipe.close()

    def lines(self) -> Iterator[bytes | None]:
        """Yields what it prints, line by line, without empty ones; None for a line that is larger than a row may be,
        unless it is a list of our own process. Raises OperationalError where it takes too long.
        """
        rest, is_cut = b"", False
        for piece in self._pieces():
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                if is_cut or self._is_too_large(line):
                    is_cut = False
                    yield None
                elif line.strip():
                    yield line
            if self._is_too_large(rest):
                rest, is_cut = b"", True
        if is_cut or rest.strip():
            yield None if is_cut else rest

    def _is_too_large(self, line: bytes) -> bool:
        return len(line) > self._source.limits.bytes_per_row and not (self.is_own and line.startswith(b"["))

    def _pieces(self) -> Iterator[bytes]:
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._process.stdout, selectors.EVENT_READ)
            while True:
                if not waiting.select(self._left_s):
                    raise self._too_slow()
                piece = os.read(self._process.stdout.fileno(), _AT_ONCE)
                if not piece:
                    return
                yield piece

    def require_success(self) -> None:
        """Raises OperationalError where the process has failed, or does not end; called once all lines are read."""
        try:
            code = self._process.wait(self._left_s)
        except subprocess.TimeoutExpired as error:
            raise self._too_slow() from error
        if code:
            stderr = self._read_stderr()
            named = {SqlSource: "the query", CommandSource: "the program"}.get(type(self._source), "the function")
            hint = f"the whole of what it wrote: {stderr}" if stderr.count("\n") else "no row of this reading is taken"
            raise OperationalError(
                f"{named} ended with {how_it_ended(code)}{f': {_last(stderr)}' if stderr else ''}",
                where=self.where,
                hint=hint,
            )

    @property
    def _left_s(self) -> float:
        return max(0.0, self._ends_at - time.monotonic())

    def _too_slow(self) -> OperationalError:
        return OperationalError(
            f"it has not given all rows, and ended, within {self._source.limits.seconds} s",
            where=self.where,
            hint="raise limits.seconds; sql: declare a cursor, so that a run asks for what changed",
        )

    def _read_stderr(self) -> str:
        self._errors.seek(max(0, self._errors.seek(0, os.SEEK_END) - _SHOWN))
        return self._errors.read().decode("utf-8", "replace").strip()


def _last(text: str) -> str:
    return text.rpartition("\n")[2].strip()
