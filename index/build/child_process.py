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
from collections.abc import Callable, Iterable
from contextlib import nullcontext, suppress
from itertools import chain
from typing import Any, Self

from almanac.core.lifetime import how_it_ended, tell_job
from almanac.schemas import errors
from almanac.schemas.errors import AlmanacError, OperationalError, StorageError

Message = dict[str, Any]
FORKING = "almanac.index.build.forking_child"
ENDED = "ended"  # key of the message that tells how a forked child ended
MORE, LAST = "more", "last"  # lines to a child: go on with what there is now; nothing more will come
_TAIL = 2000  # characters of stderr in the error


class ForkServer:
    """Context manager with a process that imports what several jobs need once, and forks a child for each. It ends with
    the block.

    Start it in a thread that lives as long as the block: a child ends with the thread that has started it. It does one
    job at a time; a job that finds it busy gets a process of its own.
    """

    def __init__(self) -> None:
        self._child: _Forking | None = None
        self._taken = threading.Lock()

    def start(self, *modules: str) -> None:
        """Starts the process, unless there is one: it imports these modules and what they need, and waits."""
        if self._child is None:
            self._child = _Forking(*modules)

    def stop(self) -> None:
        """Ends the process, whatever it is at; another one can be started."""
        if self._child is not None:
            self._child.kill()
            with self._taken:  # a job of another thread that still reads from it hears that it has ended
                self._child.end()
            self._child = None

    def take(self) -> "_Forking | None":
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
        self.stop()


def run_child(
    module: str,
    job: str,
    on_message: Callable[[Message], None],
    *,
    on_signal: Callable[[str], None] | None = None,
    more: Iterable[object] | None = None,
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
        more: Yields whenever there is more to do for the child, and ends when that was all. Read by a thread. Until
            then, this process has work of its own, which goes first on the processors.
        fork_server: A process that was started ahead with this module.

    Raises the AlmanacError that the child raised, or OperationalError with the end of its stderr.
    """
    forking = fork_server.take() if fork_server else None
    with nullcontext() if forking else ForkServer() as own:
        if own is not None:
            own.start(module)
            fork_server, forking = own, own.take()
        assert fork_server is not None and forking is not None
        try:
            forking.run(module, job, on_message, on_signal, more)
        except BaseException:
            forking.end()  # whatever it forked ends with it
            raise
        finally:
            fork_server.give_back()


class _Forking:
    """A process that waits for jobs for children of its own."""

    def __init__(self, *modules: str) -> None:
        self._stderr = tempfile.TemporaryFile("w+b")  # noqa: SIM115  # `end` closes it
        self._is_stopped = False
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

    @property
    def is_over(self) -> bool:
        """Whether `end` was called."""
        return self._stderr.closed

    def run(
        self,
        module: str,
        job: str,
        on_message: Callable[[Message], None],
        on_signal: Callable[[str], None] | None,
        more: Iterable[object] | None,
    ) -> None:
        """Has the job done. Arguments and errors as in `run_child`."""
        error, code = self._converse(
            json.dumps({"module": module, "job": job, "aside": more is not None}), on_message, more
        )
        if error is not None:
            raise _revive(error)
        if code < 0 and self._is_stopped:  # which is nothing that it did
            raise OperationalError(f"{module} was stopped", where=module, hint="run again: it goes on from there")
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

    def _converse(
        self, job: str, on_message: Callable[[Message], None], more: Iterable[object] | None
    ) -> tuple[Message | None, int]:
        """Sends the job and passes on messages; returns the error that the child told and the code with which it
        ended.
        """
        process, error = self._process, None
        assert process.stdout is not None
        tell_job(process, job)

        def tell() -> None:
            for line in chain((MORE for _ in more or ()), (LAST,)):
                with suppress(OSError, ValueError, AssertionError):  # it has ended
                    tell_job(process, line)

        if more is None:
            tell()
        else:
            threading.Thread(target=tell, daemon=True, name="tell-more").start()
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
        self._is_stopped = True
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


def _revive(error: Message) -> AlmanacError:
    classes = {
        cls("").kind: cls for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, AlmanacError)
    }
    return classes.get(error["kind"], OperationalError)(error["message"], where=error["where"], hint=error["hint"])
