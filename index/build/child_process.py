"""Runs a step in a child process that ends with its parent. The child sends one JSON object per line on stdout.

A process can be started ahead: it imports what steps need, and forks a child for each job
(`index.build.forking_child`).
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

from almanac.core.lifetime import how_it_ended, job_of_parent, tell_job
from almanac.schemas import errors
from almanac.schemas.errors import AlmanacError, OperationalError, StorageError

Message = dict[str, Any]
FORKING = "almanac.index.build.forking_child"
ENDED = "ended"  # key of the message that tells how a forked child ended
_TAIL = 2000  # characters of stderr in the error


class Ahead:
    """Context manager with a process that is started ahead, imports what several steps need once, and forks a child for
    each job. It ends with the block.

    Start it in a thread that lives as long as the block: a child ends with the thread that has started it. It does one
    job at a time; steps that find it busy get a child of their own.
    """

    def __init__(self) -> None:
        self._child: _Child | None = None
        self._taken = threading.Lock()

    def start(self, *modules: str) -> None:
        """Starts the process, unless there is one: it imports these modules and what they need, and waits."""
        if self._child is None:
            self._child = _Child(FORKING, *modules)

    def take(self) -> "_Child | None":
        """Returns the process if it waits for a job; give it back afterwards."""
        if self._child is None or not self._taken.acquire(blocking=False):
            return None
        if self._child.is_over:
            self._taken.release()
            return None
        return self._child

    def give_back(self) -> None:
        self._taken.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._child is not None:
            self._child.kill()
            with self._taken:  # a step of another thread that still reads from it hears that it has ended
                self._child.end()


def run_child(
    module: str,
    job: str,
    on_message: Callable[[Message], None],
    *,
    on_signal: Callable[[str], None] | None = None,
    ahead: Ahead | None = None,
) -> None:
    """Runs `python -m module`, sends it the job and passes on its messages as they arrive. The counterpart in the child
    is `serve_parent`.

    The child is killed when this process ends in any way, and when `on_message` raises.

    Args:
        module: Full name of the module to run.
        job: One line of JSON.
        on_message: Called with each message of the child.
        on_signal: Called with the signal's name, such as `SIGSEGV`, when one ended the child; without it, that raises
            OperationalError.
        ahead: A process that was started ahead with this module, which forks the child.

    Raises the AlmanacError that the child raised, or OperationalError with the end of its stderr.
    """
    forking = ahead.take() if ahead else None
    if ahead is None or forking is None:
        child = _Child(module)
        try:
            child.run(module, job, on_message, on_signal)
        finally:
            child.end()
        return
    try:
        forking.run(module, json.dumps({"module": module, "job": job}), on_message, on_signal)
    except BaseException:
        forking.end()  # whatever it forked ends with it
        raise
    finally:
        ahead.give_back()


class _Child:
    """A child process that waits for its job, or for jobs for children of its own."""

    def __init__(self, module: str, *arguments: str) -> None:
        self._stderr = tempfile.TemporaryFile("w+b")  # noqa: SIM115  # `end` closes it
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", module, *arguments],
            stdin=subprocess.PIPE,  # kept open: end of file signals the parent's death to the child
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
            encoding="utf-8",
            start_new_session=True,
            # HNSW writes uninitialised memory into its files, which might contain a text that was taken down. This
            # makes glibc overwrite freed memory, also of small pieces, which it would keep in a cache as they are.
            env={**os.environ, "GLIBC_TUNABLES": "glibc.malloc.perturb=165:glibc.malloc.tcache_count=0"},
        )

    @property
    def is_over(self) -> bool:
        """Whether `end` was called."""
        return self._stderr.closed

    def run(
        self, module: str, job: str, on_message: Callable[[Message], None], on_signal: Callable[[str], None] | None
    ) -> None:
        """Has the job done. Arguments and errors as in `run_child`."""
        error, code = self._converse(job, on_message)
        if error is not None:
            raise _revive(error)
        if code < 0 and on_signal:
            on_signal(signal.Signals(-code).name)
        elif code == -signal.SIGBUS:  # a page of a mapped file that the disk does not have
            hint = "the disk is full or failing: free space or mend it, then run again"
            raise StorageError(f"{module} ended with signal SIGBUS", where=module, hint=hint)
        elif code != 0:
            hint = (
                "run again; if it is killed again, look for who does: a machine without free memory kills"
                if code < 0
                else "a defect: please report it"
            )
            raise OperationalError(
                f"{module} ended with {how_it_ended(code)}: {self._tail() or 'nothing on stderr'}",
                where=module,
                hint=hint,
            )

    def _converse(self, job: str, on_message: Callable[[Message], None]) -> tuple[Message | None, int]:
        """Sends the job and passes on messages; returns the error that the child told and the code with which it
        ended.
        """
        process, error = self._process, None
        assert process.stdout is not None
        tell_job(process, job)
        for line in process.stdout:
            try:
                message = json.loads(line)
            except ValueError:  # what a child was saying as it was killed, which its code tells
                continue
            if ENDED in message:
                return error, int(message[ENDED])
            error = message.get("error", error)
            if "error" not in message:
                on_message(message)
        return error, process.wait()

    def _tail(self) -> str:
        """The end of what was written to stderr, from where it is read without moving the place at which children
        write.
        """
        written = os.fstat(self._stderr.fileno()).st_size
        return (
            os.pread(self._stderr.fileno(), 4 * _TAIL, max(0, written - 4 * _TAIL))
            .decode(errors="replace")[-_TAIL:]
            .strip()
        )

    def kill(self) -> None:
        """Kills the process where it still runs. Its children hear of it by their parent's death, or by the end of
        their stdin.
        """
        if self._process.poll() is None:
            self._process.kill()
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):
                self._process.stdin.close()
            self._process.stdin = None

    def end(self) -> None:
        """Kills the process where it still runs, waits until its children have ended, too, and frees its pipes.
        Harmless after the first time.
        """
        if self.is_over:
            return
        self.kill()
        self._process.communicate()
        self._stderr.close()


def serve_parent(work: Callable[[str, Callable[[Message], None]], None]) -> None:
    """Runs in the child: calls `work(job, send)` with the job of `run_child`. On failure it reports the error and exits
    the process.
    """
    from almanac.core.settings import quiet_engines

    quiet_engines()
    pipe = keep_stdout()
    job = job_of_parent()
    if code := do_job(work, job, pipe):
        sys.exit(code)


def keep_stdout() -> int:
    """Returns a descriptor of the pipe to the parent, which carries only messages: libraries print to stdout, and that
    is redirected to stderr.
    """
    pipe = os.dup(1)
    os.dup2(2, 1)
    return pipe


def do_job(work: Callable[[str, Callable[[Message], None]], None], job: str, pipe: int) -> int:
    """Calls `work(job, send)`, reports an error to the parent, and returns the exit code of the process."""
    with os.fdopen(pipe, "w", encoding="utf-8") as messages:

        def send(message: Message) -> None:
            print(json.dumps(message), file=messages, flush=True)

        try:
            work(job, send)
        except AlmanacError as error:
            send({**error.as_json()})
            return error.exit_code
        except Exception:
            traceback.print_exc()
            return 1
    return 0


def _revive(error: Message) -> AlmanacError:
    classes = {
        cls("").kind: cls for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, AlmanacError)
    }
    return classes.get(error["kind"], OperationalError)(error["message"], where=error["where"], hint=error["hint"])
