"""One writer for each knowledge base, by a lock of the operating system: when its holder dies, however, it is free."""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from schemas.durable import write_file
from schemas.errors import RunLocked

_LOCK = "LOCK"
_HOLDER = "LOCK.holder"


@contextmanager
def writer_lock(index_dir: Path, holder: str) -> Iterator[None]:
    """Holds the knowledge base for `holder`, a run's id. Raises RunLocked at once when somebody else does."""
    index_dir.mkdir(parents=True, exist_ok=True)
    lock = FileLock(index_dir / _LOCK, blocking=False, thread_local=False, preserve_lock_file=True)
    try:
        lock.acquire()
    except Timeout as error:
        raise _locked(index_dir) from error
    try:
        since = datetime.now(UTC).isoformat(timespec="seconds")
        entry = {"pid": os.getpid(), "holder": holder, "host": socket.gethostname(), "since": since, "process_start": _process_start(os.getpid())}
        write_file(index_dir / _HOLDER, json.dumps(entry) + "\n")
        yield
    finally:
        (index_dir / _HOLDER).unlink(missing_ok=True)
        lock.release()


def lock_holder(index_dir: Path) -> dict[str, Any] | None:
    """Who writes this knowledge base now: {pid, holder, host, since}; None when nobody does. It does not take the lock."""
    try:
        entry: dict[str, Any] = json.loads((index_dir / _HOLDER).read_text())
        started = entry.pop("process_start")
        if entry["host"] == socket.gethostname() and _process_start(entry["pid"]) != started:
            return None  # it died without a word; its pid may be somebody else's by now
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError):
        return None
    return entry


def require_free(index_dir: Path) -> None:
    """Raises RunLocked where somebody writes now: a cheap look before the lock is taken in earnest."""
    if lock_holder(index_dir):
        raise _locked(index_dir)


def _locked(index_dir: Path) -> RunLocked:
    entry = lock_holder(index_dir)
    who = f"run {entry['holder']} (pid {entry['pid']} on {entry['host']}, since {entry['since']})" if entry else "another process"
    return RunLocked(
        f"'{index_dir.name}' is being written by {who}", where=str(index_dir / _LOCK), hint=f"wait for it; almanac status {index_dir.name} shows it"
    )


def _process_start(pid: int) -> str | None:
    """When the process started, in clock ticks since boot; None when there is no such process. Elsewhere than on Linux: "alive"."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "alive"
    return None if fields[0] == "Z" else fields[19]
