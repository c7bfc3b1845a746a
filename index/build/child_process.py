"""Children in which a run's parent process has jobs done: one process imports what all of them need, once, and forks a
child for each job (`index.build.forking_child`). A child sends one JSON object per line on stdout, and ends with its
parent.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

from almanac.core.lifetime import how_it_ended, tell_job
from almanac.schemas import errors
from almanac.schemas.errors import AlmanacError, OperationalError, StorageError

Message = dict[str, Any]
FORKING = "almanac.index.build.forking_child"
ENDED = "ended"  # key of the message that tells how a forked child ended
ALL = "all"  # line to a child: what it waits for is there
_TAIL = 2000  # characters of stderr in the error


class ForkServer:
    """Context manager with a process that imports what several jobs need once, and forks a child for each. It ends with
    the block.

    Start it in a thread that lives as long as the block: a child ends with the thread that has started it. It does one
    job at a time; a job that finds it busy gets a process of its own.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._taken = threading.Lock()
        self._is_stopped = False

    def start(self, *modules: str) -> None:
        """Starts the process, unless there is one: it imports these modules and what they need, and waits."""
        if self._process is not None:
            return
        self._is_stopped = False
        self._stderr = tempfile.TemporaryFile("w+b")  # noqa: SIM115  # `end` closes it
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", FORKING, *modules],
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

    def take(self) -> bool:
        """Whether the process waits for a job, and is the caller's until `run` has ended."""
        is_taken = self._taken.acquire(blocking=False)
        if is_taken and self._process is None:
            self._taken.release()
            return False
        return is_taken

    def run(
        self,
        module: str,
        job: str,
        on_message: Callable[[Message], None],
        on_signal: Callable[[str], None] | None,
        until: threading.Event | None,
    ) -> None:
        """Has the process do a job, after `take`. Arguments and errors as in `run_child`."""
        try:
            error, code = self._converse(
                json.dumps({"module": module, "job": job, "aside": until is not None}), on_message, until
            )
            if error is not None:
                raise _revive(error)
            if code < 0 and on_signal and not self._is_stopped:
                on_signal(signal.Signals(-code).name)
            elif code != 0:
                raise self._failure(module, code)
        except BaseException:
            self._end()  # whatever it forked ends with it
            raise
        finally:
            self._taken.release()

    def stop(self) -> None:
        """Ends the process, whatever it is at; another one can be started."""
        self._is_stopped = True
        self._kill()
        with self._taken:  # a job of another thread that still reads from it hears that it has ended
            self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _converse(
        self, job: str, on_message: Callable[[Message], None], until: threading.Event | None
    ) -> tuple[Message | None, int]:
        """Sends the job and passes on messages; returns the error that the child told and the code with which it
        ended.
        """
        process, error = self._process, None
        assert process is not None and process.stdout is not None
        tell_job(process, job)

        def tell() -> None:
            if until is not None:
                until.wait()
            with suppress(OSError, ValueError, AssertionError):  # it has ended
                tell_job(process, ALL)

        if until is None:
            tell()
        else:
            threading.Thread(target=tell, daemon=True, name="tell-all").start()
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

    def _failure(self, module: str, code: int) -> AlmanacError:
        """The error for a child that did not end with 0."""
        if code < 0 and self._is_stopped:  # which is nothing that it did
            return OperationalError(f"{module} was stopped", where=module, hint="run again: it goes on from there")
        if code == -signal.SIGBUS:  # a page of a mapped file that the disk does not have
            hint = "the disk is full or failing: free space or mend it, then run again"
            return StorageError(f"{module} ended with signal SIGBUS", where=module, hint=hint)
        # read without moving the place at which children write
        written = os.fstat(self._stderr.fileno()).st_size
        end = os.pread(self._stderr.fileno(), 4 * _TAIL, max(0, written - 4 * _TAIL)).decode(errors="replace")
        hint = (
            "run again; if it is killed again, look for who does: a machine without free memory kills"
            if code < 0
            else "a defect: please report it"
        )
        return OperationalError(
            f"{module} ended with {how_it_ended(code)}: {end[-_TAIL:].strip() or 'nothing on stderr'}",
            where=module,
            hint=hint,
        )

    def _kill(self) -> None:
        """Kills the process where it still runs. Its children hear of it by their parent's death, or by the end of
        their stdin.
        """
        process = self._process
        if process is None:
            return
        process.kill()
        if process.stdin is not None:
            with suppress(BrokenPipeError):
                process.stdin.close()
            process.stdin = None

    def _end(self) -> None:
        """Kills the process, waits until its children have ended, too, and frees its pipes."""
        self._kill()
        if self._process is not None:
            self._process.communicate()
            self._stderr.close()
            self._process = None


def run_child(
    module: str,
    job: str,
    on_message: Callable[[Message], None],
    *,
    on_signal: Callable[[str], None] | None = None,
    until: threading.Event | None = None,
    fork_server: ForkServer | None = None,
) -> None:
    """Calls `work(job, send, more)` of a module in a child process, and passes on its messages as they arrive.

    The child is killed when this process ends in any way, and when `on_message` raises.

    Args:
        module: Full name of the module, which also has `prepare()`, for what it imports.
        job: One line of JSON.
        on_message: Called with each message of the child.
        on_signal: Called with the signal's name, such as `SIGSEGV`, when one ended the child; without it, that raises
            OperationalError.
        until: Set once all is there that the child works on; None where it is. Until then, this process has work of
            its own, which goes first on the processors.
        fork_server: A process that was started ahead with this module.

    Raises the AlmanacError that the child raised, or OperationalError with the end of its stderr.
    """
    if fork_server is not None and fork_server.take():
        fork_server.run(module, job, on_message, on_signal, until)
        return
    with ForkServer() as own:
        own.start(module)
        own.take()
        own.run(module, job, on_message, on_signal, until)


def _revive(error: Message) -> AlmanacError:
    classes = {
        cls("").kind: cls for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, AlmanacError)
    }
    return classes.get(error["kind"], OperationalError)(error["message"], where=error["where"], hint=error["hint"])
