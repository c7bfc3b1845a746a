"""Writer lock: one writer per knowledge base, by an operating-system lock (flock), which is released when its holder
dies in any way.

`LOCK` is the locked file and is never removed; `LOCK.holder` describes the holder for messages and does not decide
anything. If either file is removed or replaced by hand, the holder loses the lock, which it detects before it
publishes.

No library: filelock and portalocker take the same system lock, but cannot say who holds it, nor whether it is still
held. The proofs that no writer publishes without the lock rest on both.
"""

import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from almanac.core.clock import utc_now
from almanac.core.durable import TEMPORARY, sweep, write_file
from almanac.core.lifetime import process_start
from almanac.core.machine import machine_id
from almanac.schemas.errors import RunLocked

_LOCK = "LOCK"
_HOLDER = "LOCK.holder"
_PATIENCE_S = 0.3  # `lock_holder` takes the lock for microseconds, which must not make a writer fail
_KEYS = ("pid", "holder", "host", "since")


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write a knowledge base. It can be lost while in use: call `require_held` before anything that
    matters is written.
    """

    index_dir: Path
    descriptor: int
    entry: dict[str, Any]

    def is_held(self) -> bool:
        """Whether this lease still has the lock. A missing or damaged holder file does not count against it."""
        holder = _read_holder(self.index_dir)
        return _is_file(self.descriptor, self.index_dir / _LOCK) and holder in (None, self.entry)

    def require_held(self) -> None:
        """Raises RunLocked where the lock was lost; nothing may be written after that."""
        if not self.is_held():
            raise RunLocked(
                f"{self.entry['holder']} lost the lock of '{self.index_dir.name}' and stops",
                where=str(self.index_dir / _LOCK),
                hint=(
                    f"somebody removed or replaced the lock meanwhile; almanac status {self.index_dir.name} says "
                    "who writes now; then run again"
                ),
            )


@contextmanager
def writer_lock(index_dir: Path, holder: str) -> Iterator[Lease]:
    """Takes the writer lock for the duration of the block. Raises RunLocked within 0.3 s when another process has it.

    `holder` identifies the writer in messages: a run's id or a command's name. Temporary files of dead writers are
    removed first.
    """
    index_dir.mkdir(parents=True, exist_ok=True)
    descriptor = _acquire(index_dir)
    try:
        sweep(index_dir.glob(TEMPORARY))  # left by writers that died
        entry = {
            "pid": os.getpid(),
            "holder": holder,
            "host": socket.gethostname(),
            "since": utc_now(),
            "process_start": process_start(os.getpid()),
            "machine": machine_id(),
        }
        write_file(index_dir / _HOLDER, json.dumps(entry) + "\n")
        lease = Lease(index_dir, descriptor, entry)
        try:
            yield lease
        finally:
            if lease.is_held():
                (index_dir / _HOLDER).unlink(missing_ok=True)
    finally:
        os.close(descriptor)  # releases the lock


def lock_holder(index_dir: Path) -> dict[str, Any] | None:
    """Returns the current writer of a knowledge base as {pid, holder, host, since}, or None when there is none. Values
    are None where they are unknown.
    """
    try:
        descriptor = os.open(index_dir / _LOCK, os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        if _try_lock(descriptor, fcntl.LOCK_SH):
            return None
    finally:
        os.close(descriptor)
    holder = _read_holder(index_dir)
    alive = holder is not None and (
        holder.get("machine") != machine_id() or process_start(holder["pid"]) == holder["process_start"]
    )
    return {key: holder[key] if holder and alive else None for key in _KEYS}


def require_free(index_dir: Path) -> None:
    """Raises RunLocked when the knowledge base is being written. A cheap early check that does not take the lock."""
    if lock_holder(index_dir):
        raise _locked(index_dir)


def _acquire(index_dir: Path) -> int:
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        descriptor = os.open(index_dir / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        taken = _try_lock(descriptor, fcntl.LOCK_EX)
        if taken and _is_file(descriptor, index_dir / _LOCK):
            return descriptor
        os.close(descriptor)
        if not taken and time.monotonic() > deadline:
            raise _locked(index_dir)
        time.sleep(0.01)


def _try_lock(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_file(descriptor: int, path: Path) -> bool:
    """Whether `descriptor` refers to the file that is at `path` now."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _read_holder(index_dir: Path) -> dict[str, Any] | None:
    """Reads the holder file; None where it is missing or damaged."""
    try:
        entry = json.loads((index_dir / _HOLDER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    whole = (
        isinstance(entry, dict)
        and entry.keys() >= {*_KEYS, "process_start"}
        and isinstance(entry["pid"], int)
        and entry["pid"] > 0
    )
    return entry if whole else None


def _locked(index_dir: Path) -> RunLocked:
    entry = lock_holder(index_dir)
    who = "another process"
    if entry and entry["holder"]:
        name = f"run {entry['holder']}" if entry["holder"][:1].isdigit() else entry["holder"]
        who = f"{name} (pid {entry['pid']} on {entry['host']}, since {entry['since']})"
    return RunLocked(
        f"'{index_dir.name}' is being written by {who}",
        where=str(index_dir / _LOCK),
        hint=f"wait for it; almanac status {index_dir.name} shows it",
    )
