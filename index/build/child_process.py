"""Runs a step in a child process that ends with its parent. The child sends one JSON object per line on stdout.

A child can be started ahead: while it waits for its job, it imports what the step needs.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from typing import Any, Self

from almanac.core.lifetime import job_of_parent, tell_job
from almanac.schemas import errors
from almanac.schemas.errors import AlmanacError, OperationalError, StorageError

Message = dict[str, Any]
_AHEAD = "ahead"  # argument of a child that is started ahead
_TAIL = 2000  # characters of stderr in the error


class Ahead:
    """Context manager with children that are started ahead, one of each module; those that nothing has used are ended.

    Start them in a thread that lives as long as the block: a child ends with the thread that has started it.
    """

    def __init__(self) -> None:
        self._children: dict[str, _Child] = {}

    def start(self, module: str) -> None:
        """Starts a child, which imports what its step needs and waits."""
        self._children[module] = _Child(module, _AHEAD)

    def take(self, module: str) -> "_Child | None":
        """Returns the child of a module, once."""
        return self._children.pop(module, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        while self._children:
            self._children.popitem()[1].end()


def run_child(
    module: str, job: str, on_message: Callable[[Message], None], *, on_signal: Callable[[str], None] | None = None, ahead: Ahead | None = None
) -> None:
    """Runs `python -m module`, sends it the job and passes on its messages as they arrive. The counterpart in the child is `serve_parent`.

    The child is killed when this process ends in any way, and when `on_message` raises.

    Args:
        module: Full name of the module to run.
        job: One line of JSON.
        on_message: Called with each message of the child.
        on_signal: Called with the signal's name, such as `SIGSEGV`, when one ended the child; without it, that raises OperationalError.
        ahead: Children that were started ahead, of which one is used.

    Raises the AlmanacError that the child raised, or OperationalError with the end of its stderr.
    """
    child = ahead.take(module) if ahead else None
    (child or _Child(module)).run(job, on_message, on_signal)


class _Child:
    """A child process that waits for its job."""

    def __init__(self, module: str, *arguments: str) -> None:
        self.module = module
        self._stderr = tempfile.TemporaryFile("w+b")  # noqa: SIM115  # `end` closes it
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", module, *arguments],
            stdin=subprocess.PIPE,  # kept open: end of file signals the parent's death to the child
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
            encoding="utf-8",
            start_new_session=True,
            # HNSW writes uninitialised memory into its files, which might contain a text that was taken down. This makes glibc overwrite freed memory.
            env={**os.environ, "MALLOC_PERTURB_": "165"},
        )

    def run(self, job: str, on_message: Callable[[Message], None], on_signal: Callable[[str], None] | None) -> None:
        """Does the job, then ends. Arguments and errors as in `run_child`."""
        process, error = self._process, None
        assert process.stdout is not None
        try:
            tell_job(process, job)
            for line in process.stdout:
                message = json.loads(line)
                error = message.get("error", error)
                if "error" not in message:
                    on_message(message)
            process.wait()
            self._stderr.seek(0)
            tail = self._stderr.read().decode(errors="replace")[-_TAIL:].strip()
        finally:
            self.end()
        if error is not None:
            raise _revive(error)
        if process.returncode < 0 and on_signal:
            on_signal(signal.Signals(-process.returncode).name)
        elif process.returncode == -signal.SIGBUS:  # a page of a mapped file that the disk does not have
            hint = "the disk is full or failing: free space or mend it, then run again"
            raise StorageError(f"{self.module} ended with signal SIGBUS", where=self.module, hint=hint)
        elif process.returncode != 0:
            raise OperationalError(f"{self.module} ended with {_how(process.returncode)}: {tail or 'nothing on stderr'}", where=self.module, hint="run again")

    def end(self) -> None:
        """Kills the process where it still runs, and frees its pipes."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()
        self._stderr.close()


def serve_parent(work: Callable[[str, Callable[[Message], None]], None], *, prepare: Callable[[], object] | None = None) -> None:
    """Runs in the child: calls `work(job, send)` with the job of `run_child`. On failure it reports the error and exits the process.

    `prepare()` imports what `work` needs; a child that is started ahead calls it before it has a job.
    """
    from almanac.core.settings import quiet_engines

    quiet_engines()
    # Libraries print to stdout, which is therefore redirected to stderr; the pipe to the parent carries only messages.
    pipe = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    if prepare is not None and _AHEAD in sys.argv[1:]:
        prepare()
    job = job_of_parent()

    def send(message: Message) -> None:
        print(json.dumps(message), file=pipe, flush=True)

    try:
        work(job, send)
    except AlmanacError as error:
        send({**error.as_json()})
        sys.exit(error.exit_code)
    except Exception:
        traceback.print_exc()
        sys.exit(1)


def _revive(error: Message) -> AlmanacError:
    classes = {cls("").kind: cls for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, AlmanacError)}
    return classes.get(error["kind"], OperationalError)(error["message"], where=error["where"], hint=error["hint"])


def _how(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
