"""How processes end: by a signal as by Ctrl-C, and children with their parent, however it ends. Children receive their
job on stdin.
"""

import os
import runpy
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

_PR_SET_PDEATHSIG = 1
_ENDINGS = (signal.SIGTERM, signal.SIGHUP)  # of a service manager, `kill`, a scheduler; of a terminal that is closed
_ONCE_S = 5.0  # within which a further one is taken for the same
_AGAIN_S = 0.1  # after which a signal is sent again that nobody has heeded


@contextmanager
def interrupted_by_signals() -> Iterator[None]:
    """Makes SIGTERM and SIGHUP raise KeyboardInterrupt inside the block, as Ctrl-C does.

    A signal that is ignored (`nohup`), or that somebody else handles, is left as it is; so are all where this is not
    the main thread.

    Python passes over what is raised in a callback of the garbage collector or of a weak reference, such as those of
    its imports: a signal that comes just then is sent again. Else the command would go on, with the import lock taken
    for ever where that was being taken.
    """
    if not _is_main():
        yield
        return
    since = -_ONCE_S

    def interrupt(_kind: int, _frame: FrameType | None) -> None:
        nonlocal since
        if time.monotonic() - since >= _ONCE_S:
            since = time.monotonic()
            raise KeyboardInterrupt

    def send_again(passed_over: "sys.UnraisableHookArgs") -> None:
        nonlocal since
        if passed_over.exc_type is not KeyboardInterrupt or not _is_main():
            hook(passed_over)
            return
        since = -_ONCE_S
        again.append(threading.Timer(_AGAIN_S, os.kill, (os.getpid(), next(iter(ours), signal.SIGINT))))
        again[-1].daemon = True
        again[-1].start()

    again: list[threading.Timer] = []
    ours = [ending for ending in _ENDINGS if signal.getsignal(ending) is signal.SIG_DFL]
    hook = sys.unraisablehook
    for ending in ours:
        signal.signal(ending, interrupt)
    sys.unraisablehook = send_again
    try:
        yield
    finally:
        sys.unraisablehook = hook
        for timer in again:
            timer.cancel()
        for ending in ours:
            signal.signal(ending, signal.SIG_DFL)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Holds Ctrl-C, SIGTERM and SIGHUP back until the end of the block, for what is short and has to be whole. Only
    where this is the main thread.
    """
    if not _is_main():
        yield
        return
    held: list[int] = []
    before = {
        signal_number: signal.signal(signal_number, lambda kind, _: held.append(kind))
        for signal_number in (signal.SIGINT, *_ENDINGS)
        if callable(signal.getsignal(signal_number))
    }
    try:
        yield
    finally:
        for signal_number, handler in before.items():
            signal.signal(signal_number, handler)
        if held:
            signal.raise_signal(signal.Signals(held[-1]))


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()


def tell_job(process: "subprocess.Popen[Any]", job: str) -> None:
    """Writes the job, one line of JSON, to a child's stdin, which stays open.

    It is not passed in a file, because it may contain secrets and a kill would leave the file behind.
    """
    assert process.stdin is not None
    # The child may have died already; its output shows the reason.
    with suppress(BrokenPipeError), os.fdopen(os.dup(process.stdin.fileno()), "wb") as pipe:
        pipe.write(f"{job}\n".encode())


def job_of_parent() -> str:
    """Reads the job in the child; the counterpart of `tell_job`. From here on the child ends with its parent. Exits if
    no complete line arrives.
    """
    die_with_parent()
    job = sys.stdin.buffer.readline().decode()
    if not job.endswith("\n"):
        sys.exit(1)
    watch_stdin()
    return job


def end_with_parent() -> None:
    """Makes this process end with its parent: by SIGKILL from the kernel (Linux), and by watching stdin where that is
    unavailable or was set too late.

    The parent must keep the child's stdin open as a pipe without writing to it any more.
    """
    die_with_parent()
    watch_stdin()


def die_with_parent() -> None:
    """Has the kernel kill this process when the thread that has started it ends (Linux)."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def watch_stdin() -> None:
    """Ends this process when its stdin ends, by a thread."""

    def watch() -> None:
        while os.read(0, 4096):
            pass
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="parent-watch").start()


def process_start(pid: int) -> str | None:
    """Returns the start time of a process in clock ticks since boot, None when it does not exist. On other systems than
    Linux, "alive" instead of a time.
    """
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return None
    except PermissionError:
        pass
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "alive"
    return None if fields[0] == "Z" else fields[19]


def how_it_ended(code: int) -> str:
    """How a child ended, by its return code: `exit code 1`, or `signal SIGSEGV`."""
    return f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"


if __name__ == "__main__":
    # `python -m almanac.core.lifetime MODULE …` is `python -m MODULE …` that ends with its parent.
    end_with_parent()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
