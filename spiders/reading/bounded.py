"""Reads documents (PDF, office formats, EPUB, mail) in a child process, under limits of processor time, memory and
elements.

One child reads many files. It is killed when a file exceeds a limit, and replaced after some hundred files or once it
has grown.
"""

import atexit
import json
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import psutil  # type: ignore[import-untyped]  # ships no types

from almanac.core.extras import how_to_install, missing_package
from almanac.schemas.declaration.reading_limits import ReadingLimits
from almanac.spiders.reading.document import Document, Interrupted, Unreadable, document_of

_CHILD = "almanac.spiders.reading.reading_child"
_FILES = 500  # that a child reads before it is replaced
_GROWN = 512 << 20  # bytes of resident memory after a file, from which on it is replaced
_WATCHED_S = 0.02
_PATIENCE = 4  # a file may take this many times its processor time by the clock: other processes want the machine, too


def read_document(
    body: bytes,
    file_format: str,
    limits: ReadingLimits = ReadingLimits(),  # noqa: B008  # frozen
    language: str = "",
) -> Document:
    """Reads a document.

    Args:
        body: The file.
        file_format: `pdf`, `docx`, `pptx`, `xlsx`, `epub` or `eml`.
        limits: What reading it may take.
        language: In whose notation numbers of a sheet are written; `auto` goes by its text, and a language that is not
            known is taken for English.

    Raises Unreadable with the reason: damaged, encrypted, without text, another format, or which limit it exceeded and
    what it had reached; Interrupted where the file may not be to blame, or what reads it is not installed.
    """
    if file_format != "pdf" and (missing := missing_package("office")) is not None:
        raise Interrupted(f"{file_format.upper()} needs the extra 'office', and {missing}: {how_to_install('office')}")
    with _lock:
        return _reader.read(_Job(body, file_format, limits, language))


def close_reader() -> None:
    """Ends the child, if there is one. The next file starts another."""
    with _lock:
        _reader.close()


@dataclass(frozen=True, slots=True)
class _Job:
    """A file, and how it is to be read."""

    body: bytes
    file_format: str
    limits: ReadingLimits
    language: str

    @property
    def header(self) -> dict[str, Any]:
        """What the child is told in front of the file."""
        sizes = {
            "size": len(self.body),
            "elements": self.limits.elements_per_file,
            "memory": self.limits.memory_per_file,
        }
        return {"format": self.file_format, "language": self.language, **sizes}


class _Reader:
    """The child of this process."""

    def __init__(self) -> None:
        self._child: _Child | None = None

    def read(self, job: _Job) -> Document:
        try:
            answer = self._ask(job)
        # killed from outside, or with the thread that started it: a file that crashes its reader does so twice
        except _Ended:
            answer = self._ask_again(job)
        if answer.get("memory"):
            self.close()
            raise Unreadable(_over_memory(job.limits.memory_per_file, "it could get no more"))
        if "reason" in answer:
            raise Unreadable(answer["reason"])
        return document_of(answer["document"])

    def _ask_again(self, job: _Job) -> dict[str, Any]:
        try:
            return self._ask(job)
        except _Ended as error:
            kind = Interrupted if error.code == -signal.SIGKILL else Unreadable  # a system without memory kills, too
            raise kind(str(error)) from error

    def _ask(self, job: _Job) -> dict[str, Any]:
        if self._child is None or not self._child.is_fit:
            self.close()
            self._child = _Child()
        try:
            return self._child.ask(job)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._child is not None:
            self._child.end()
            self._child = None


class _Ended(Exception):
    """The child ended without an answer."""

    def __init__(self, code: int, reached: str) -> None:
        super().__init__(
            f"its reader crashed ({f'signal {-code}' if code < 0 else f'exit code {code}'}) after {reached}"
        )
        self.code = code


class _Child:
    def __init__(self) -> None:
        jobs_out, jobs_in = os.pipe()
        results_out, results_in = os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", _CHILD, str(jobs_out), str(results_in)],
            stdin=subprocess.PIPE,  # kept open: end of file signals the parent's death
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(jobs_out, results_in),
            start_new_session=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )
        os.close(jobs_out)
        os.close(results_in)
        os.set_blocking(jobs_in, False)
        os.set_blocking(results_out, False)
        self._jobs, self._results = jobs_in, results_out
        self._watched = psutil.Process(self._process.pid)
        self._files = 0

    @property
    def is_fit(self) -> bool:
        """Whether it may read another file. A child ends with the thread that started it."""
        with suppress(psutil.Error):
            return self._process.poll() is None and self._files < _FILES and self._watched.memory_info().rss < _GROWN
        return False

    def ask(self, job: _Job) -> dict[str, Any]:
        """Sends a file and waits for the answer, within the limits. Raises Unreadable if one is exceeded, _Ended if the
        child ends.
        """
        self._files += 1
        watch = _Watch(self._watched, job.limits)
        unsent = memoryview(json.dumps(job.header).encode() + b"\n" + job.body)
        received = bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(self._results, selectors.EVENT_READ)
            selector.register(self._jobs, selectors.EVENT_WRITE)
            while True:
                for key, _ in selector.select(_WATCHED_S):
                    if key.fd == self._jobs:
                        with suppress(BlockingIOError, BrokenPipeError):
                            unsent = unsent[os.write(self._jobs, unsent[: 1 << 20]) :]
                        if not unsent:
                            selector.unregister(self._jobs)
                    else:
                        piece = os.read(self._results, 1 << 20)
                        received += piece
                        if not piece:
                            raise _Ended(self._process.wait(), watch.reached)
                        size, _, answer = received.partition(b"\n")
                        if len(answer) == int(size or -1):
                            answered: dict[str, Any] = json.loads(answer)
                            return answered
                watch.check()

    def end(self) -> None:
        """Kills the process and frees its pipes."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()
        os.close(self._jobs)
        os.close(self._results)


class _Watch:
    """Watches what one file takes. Processor time counts, so that a busy machine rejects no file that a quiet one
    reads.
    """

    def __init__(self, process: psutil.Process, limits: ReadingLimits) -> None:
        self._process, self._limits = process, limits
        self._since, self._before = time.monotonic(), self._processor_s()
        self._peak = 0
        self._next = 0.0

    def check(self) -> None:
        """Raises Unreadable if a limit is exceeded. Looks no more often than every 20 ms."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _WATCHED_S
        with suppress(psutil.Error):
            self._peak = max(self._peak, self._process.memory_info().rss)
        if self._peak > self._limits.memory_per_file:
            raise Unreadable(
                _over_memory(self._limits.memory_per_file, f"{self._peak >> 20} MiB after {now - self._since:.1f} s")
            )
        used, allowed = self._processor_s() - self._before, self._limits.seconds_per_file
        if used <= allowed and now - self._since > _PATIENCE * allowed:
            reason = (
                f"not read within {_PATIENCE * allowed} s by the clock, as {allowed} s of processor time allow: "
                "limits.seconds_per_file"
            )
            raise Interrupted(f"{reason}; stopped at {self.reached}; the next run reads it again")
        if used > allowed:
            raise Unreadable(
                f"takes more than {allowed} s of processor time: limits.seconds_per_file; stopped at {self.reached}"
            )

    @property
    def reached(self) -> str:
        return (
            f"{self._processor_s() - self._before:.1f} s of processor time, {time.monotonic() - self._since:.1f} "
            f"s, {self._peak >> 20} MiB"
        )

    def _processor_s(self) -> float:
        with suppress(psutil.Error):
            times = self._process.cpu_times()
            return float(times.user + times.system)
        return 0.0


def _over_memory(limit: int, reached: str) -> str:
    return f"takes more than {limit >> 20} MiB of memory: limits.memory_per_file; stopped at {reached}"


def _forget() -> None:
    """In a forked process, the child is not its own: its pipes belong to the parent."""
    global _reader, _lock
    _reader, _lock = _Reader(), threading.Lock()


_lock = threading.Lock()
_reader = _Reader()
os.register_at_fork(after_in_child=_forget)
atexit.register(close_reader)
