"""Runs a step in a child process that ends with its parent. The child sends one JSON object per line on stdout."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from typing import Any

from almanac.core.lifetime import job_of_parent, tell_job
from almanac.schemas import errors
from almanac.schemas.errors import AlmanacError, OperationalError, StorageError

Message = dict[str, Any]
_TAIL = 2000  # characters of stderr in the error


def run_child(module: str, job: str, on_message: Callable[[Message], None], *, on_signal: Callable[[str], None] | None = None) -> None:
    """Runs `python -m module`, sends it the job and passes on its messages as they arrive. The counterpart in the child is `serve_parent`.

    The child is killed when this process ends in any way, and when `on_message` raises.

    Args:
        module: Full name of the module to run.
        job: One line of JSON.
        on_message: Called with each message of the child.
        on_signal: Called with the signal's name, such as `SIGSEGV`, when one ended the child; without it, that raises OperationalError.

    Raises the AlmanacError that the child raised, or OperationalError with the end of its stderr.
    """
    with tempfile.TemporaryFile("w+b") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", module],
            stdin=subprocess.PIPE,  # kept open: end of file signals the parent's death to the child
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            encoding="utf-8",
            start_new_session=True,
            # HNSW writes uninitialised memory into its files, which might contain a text that was taken down. This makes glibc overwrite freed memory.
            env={**os.environ, "MALLOC_PERTURB_": "165"},
        )
        error: Message | None = None
        assert process.stdout is not None
        try:
            tell_job(process, job)
            for line in process.stdout:
                message = json.loads(line)
                error = message.get("error", error)
                if "error" not in message:
                    on_message(message)
            process.wait()
        finally:
            if process.poll() is None:
                process.kill()
            process.communicate()
        if error is not None:
            raise _revive(error)
        if process.returncode < 0 and on_signal:
            on_signal(signal.Signals(-process.returncode).name)
        elif process.returncode == -signal.SIGBUS:  # a page of a mapped file that the disk does not have
            raise StorageError(f"{module} ended with signal SIGBUS", where=module, hint="the disk is full or failing: free space or mend it, then run again")
        elif process.returncode != 0:
            stderr.seek(0)
            tail = stderr.read().decode(errors="replace")[-_TAIL:].strip()
            raise OperationalError(f"{module} ended with {_how(process.returncode)}: {tail or 'nothing on stderr'}", where=module, hint="run again")


def serve_parent(work: Callable[[str, Callable[[Message], None]], None]) -> None:
    """Runs in the child: calls `work(job, send)` with the job of `run_child`. On failure it reports the error and exits the process."""
    job = job_of_parent()
    from almanac.core.settings import quiet_engines

    quiet_engines()
    # Libraries print to stdout, which is therefore redirected to stderr; the pipe to the parent carries only messages.
    pipe = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

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
