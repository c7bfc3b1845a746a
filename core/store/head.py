"""The head of a knowledge base in a store: CURRENT, which says what it holds, and LOCK, which says who may write.

`heads/<kb>/CURRENT` moves by conditional write only, and names the token of its writer. Whoever takes the lock gets a
token that nobody had before, and enters it in CURRENT at once: so a writer that was paused while another took the lock
over finds CURRENT changed, and cannot publish.
"""

import os
import secrets
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from almanac.core.clock import utc_now
from almanac.core.lifetime import process_start
from almanac.core.logs import get_logger
from almanac.core.machine import machine_id
from almanac.core.store.objects import Found, Objects, require_conditional_writes
from almanac.schemas.errors import AlmanacError, RunLocked, StorageError

_RENEW_S = 20.0
_EXPIRES_S = 90.0
_FORMAT = 1
_log = get_logger("almanac.store")


class Head(BaseModel):
    """CURRENT: the root tree (empty before the first push), the live version with the trees of its folder and segments,
    and who wrote it.

    `nonce` makes each content unique: by it a writer knows its own write again when the reply was lost. `erases`: since
    a takedown began, unneeded objects have not been removed yet, and the writer who ends next has to.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: int = _FORMAT
    root: str = ""
    version: str | None = None
    version_tree: str | None = None
    segments: dict[str, str] = {}
    token: int = 0
    at: str = ""
    nonce: str = ""
    erases: bool = False


class _Lock(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    token: int
    holder: str
    host: str
    machine: str
    pid: int
    process_start: str | None
    since: str
    released: bool = False
    nonce: str = ""


@dataclass(frozen=True, slots=True)
class Seen:
    """CURRENT as it was read, with its ETag; None where there is none yet."""

    head: Head
    etag: str | None


def read_head(objects: Objects, kb: str) -> Seen:
    """Returns CURRENT of a knowledge base. Raises StorageError where it cannot be read or has another format."""
    found = objects.read(head_key(kb))
    return parse_head(objects, kb, found) if found is not None else Seen(Head(), None)


def head_key(kb: str) -> str:
    return _key(kb, "CURRENT")


def parse_head(objects: Objects, kb: str, found: Found) -> Seen:
    """Returns CURRENT of what was read. Raises StorageError where it is none, or has another format."""
    key = head_key(kb)
    try:
        head = Head.model_validate_json(found.content)
    except ValidationError as error:
        raise StorageError(
            f"CURRENT cannot be read: {error}",
            where=f"{objects.url}/{key}",
            hint="another almanac wrote it, or something else",
        ) from error
    if head.format != _FORMAT:
        raise StorageError(
            f"CURRENT has format {head.format}, and this almanac reads {_FORMAT}",
            where=f"{objects.url}/{key}",
            hint="install a newer almanac",
        )
    return Seen(head, found.etag)


def _key(kb: str, name: str) -> str:
    return f"heads/{kb}/{name}"


class Writer:
    """The right to write a knowledge base. `seen` is CURRENT, as this writer has written it last."""

    def __init__(self, objects: Objects, kb: str, lock: _Lock, etag: str) -> None:
        self._objects, self._kb, self._lock, self._etag = objects, kb, lock, etag
        self._lost, self._ended, self._writing = False, threading.Event(), threading.Lock()
        self.seen = Seen(Head(), None)

    @property
    def token(self) -> int:
        return self._lock.token

    def claim(self, *, erases: bool) -> None:
        """Enters the token in CURRENT, so that no writer before this one can move it; with `erases`, also that unneeded
        objects are to be removed.
        """
        while True:
            self.seen = read_head(self._objects, self._kb)
            if self.seen.head.token > self.token:
                raise self.lost()
            if self.seen.etag is None:  # the first write to this store
                require_conditional_writes(self._objects, f"heads/{self._kb}", secrets.token_hex(8))
            if self._move(self.seen.head.model_copy(update={"erases": erases or self.seen.head.erases})):
                return

    def point_to(self, head: Head) -> None:
        """Moves CURRENT. Raises RunLocked where another writer took over."""
        if self._lost or not self._move(head):
            raise self.lost()

    def require_held(self) -> None:
        """Raises RunLocked where another writer took over."""
        if self._lost or read_head(self._objects, self._kb).etag != self.seen.etag:
            raise self.lost()

    def _move(self, head: Head) -> bool:
        written = head.model_copy(update={"token": self.token, "at": utc_now(), "nonce": secrets.token_hex(8)})
        etag = self._objects.write(
            head_key(self._kb), written.model_dump_json(indent=1).encode(), replacing=self.seen.etag
        )
        if etag is not None:
            self.seen = Seen(written, etag)
        return etag is not None

    def lost(self) -> RunLocked:
        return RunLocked(
            f"{self._lock.holder} lost the lock of '{self._kb}' and stops; nothing more of it is published",
            where=f"{self._objects.url}/{_key(self._kb, 'LOCK')}",
            hint="another writer took over, because this one did not renew its lock for a while; run again",
        )

    def renew_until_ended(self) -> None:
        """Renews the lock until `release`, in a thread. While the store is away, it goes on trying: the lock holds as
        long as nobody else takes it.
        """
        while not self._ended.wait(_RENEW_S):
            try:
                if not self._rewrite(released=False) and not self._ended.is_set():
                    self._lost = True
                    return
            except AlmanacError as error:
                _log.warning("lock_not_renewed", kb=self._kb, error=error.message)

    def release(self) -> None:
        """Gives the lock back. Where the store is away, it expires by itself."""
        self._ended.set()
        try:
            self._rewrite(released=True)
        except AlmanacError as error:
            _log.warning("lock_not_released", kb=self._kb, error=error.message, expires_s=_EXPIRES_S)

    def _rewrite(self, *, released: bool) -> bool:
        with self._writing:
            if self._ended.is_set() and not released:  # by a renewal that comes late
                return False
            lock = self._lock.model_copy(update={"released": released, "nonce": secrets.token_hex(8)})
            etag = self._objects.write(
                _key(self._kb, "LOCK"), lock.model_dump_json(indent=1).encode(), replacing=self._etag
            )
            self._etag = etag or self._etag
            return etag is not None


@contextmanager
def writing(objects: Objects, kb: str, holder: str, *, erases: bool = False) -> Iterator[Writer]:
    """Takes the lock of a knowledge base in a store, and CURRENT with it, for the duration of the block. Raises
    RunLocked where another writer has it.
    """
    writer = _take(objects, kb, holder)
    threading.Thread(target=writer.renew_until_ended, name="renew-lock", daemon=True).start()
    try:
        writer.claim(erases=erases)
        yield writer
    finally:
        writer.release()


def _take(objects: Objects, kb: str, holder: str) -> Writer:
    key = _key(kb, "LOCK")
    pid, nonce = os.getpid(), secrets.token_hex(8)
    where: dict[str, Any] = {
        "host": socket.gethostname(),
        "machine": machine_id(),
        "pid": pid,
        "process_start": process_start(pid),
    }
    mine = _Lock(token=1, holder=holder, since=utc_now(), nonce=nonce, **where)
    found = objects.read(key)
    etag = None
    if found is not None:
        etag, before = found.etag, _parse(found.content)
        if before is not None:
            if not before.released and found.age_s < _EXPIRES_S and not _is_dead(before):
                raise _locked(objects, kb, before, found.age_s)
            mine = mine.model_copy(update={"token": before.token + 1})
        else:  # damaged by hand: CURRENT knows the last token as well
            mine = mine.model_copy(update={"token": read_head(objects, kb).head.token + 1})
    else:
        mine = mine.model_copy(update={"token": read_head(objects, kb).head.token + 1})
    taken = objects.write(key, mine.model_dump_json(indent=1).encode(), replacing=etag)
    if taken is None:
        raise locked_by(objects, kb)
    return Writer(objects, kb, mine, taken)


def holder_of(objects: Objects, kb: str) -> dict[str, Any] | None:
    """Returns who writes a knowledge base now, as {pid, holder, host, since}; None where nobody does."""
    found = objects.read(_key(kb, "LOCK"))
    lock = _parse(found.content) if found else None
    if found is None or lock is None or lock.released or found.age_s >= _EXPIRES_S or _is_dead(lock):
        return None
    return {"pid": lock.pid, "holder": lock.holder, "host": lock.host, "since": lock.since}


def locked_by(objects: Objects, kb: str) -> RunLocked:
    """The error for a lock that another process has."""
    found = objects.read(_key(kb, "LOCK"))
    return _locked(objects, kb, _parse(found.content) if found else None, found.age_s if found else 0.0)


def _parse(content: bytes) -> _Lock | None:
    try:
        return _Lock.model_validate_json(content)
    except ValidationError:
        return None


def _locked(objects: Objects, kb: str, lock: _Lock | None, age_s: float) -> RunLocked:
    who = f"{lock.holder} (pid {lock.pid} on {lock.host}, since {lock.since})" if lock else "another process"
    free_s = max(0, round(_EXPIRES_S - age_s))
    return RunLocked(
        f"'{kb}' is being written by {who}",
        where=f"{objects.url}/{_key(kb, 'LOCK')}",
        hint=f"wait for it; if it has died, its lock expires in {free_s} s",
    )


def _is_dead(lock: _Lock) -> bool:
    """Whether the holder is a process of this machine that has ended; of another machine or container that cannot be
    known.
    """
    return lock.machine == machine_id() and process_start(lock.pid) != lock.process_start
