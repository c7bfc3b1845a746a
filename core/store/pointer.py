"""The pointer of a knowledge base in a store: `heads/<kb>/CURRENT`, which says what it holds and who may write it.

It moves by conditional write only, and has the token of its writer. Whoever becomes the writer enters a token that
nobody had before: so a writer that was paused while another took over finds CURRENT changed, and cannot publish.
"""

import os
import secrets
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from almanac.core.clock import utc_now
from almanac.core.lifetime import process_start
from almanac.core.logs import get_logger
from almanac.core.machine import machine_id
from almanac.core.store.objects import Objects
from almanac.schemas.errors import AlmanacError, RunLocked, StorageError

_RENEW_S = 20.0
_EXPIRES_S = 90.0
_log = get_logger("almanac.store")


class Holder(BaseModel):
    """Who writes; `process_start` tells a process from a later one with its number."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    holder: str
    host: str
    machine: str
    pid: int
    process_start: str | None
    since: str

    def __str__(self) -> str:
        return f"{self.holder} (pid {self.pid} on {self.host}, since {self.since})"


class Head(BaseModel):
    """CURRENT: the list of each area, the live version with the list of its files, and who writes, None for nobody.

    `nonce` makes each content unique: by it a writer knows its own write again when the reply was lost. `erases`: since
    a takedown began, unneeded objects have not been removed yet, and the writer who ends next has to.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[2] = 2
    areas: dict[str, str] = {}
    version: str | None = None
    version_list: str | None = None
    token: int = 0
    held: Holder | None = None
    at: str = ""
    nonce: str = ""
    erases: bool = False

    @property
    def index(self) -> str | None:
        """The list of what readers may read, all versions."""
        return self.areas.get("index")


class Seen(NamedTuple):
    """CURRENT as it was read, with its ETag, None where there is none yet, and its age by the store's clock."""

    head: Head
    etag: str | None
    age_s: float

    @property
    def writer(self) -> Holder | None:
        """Who writes now: whose lock has neither expired nor belongs to a process of this machine that has ended."""
        held = self.head.held
        if held is None or self.age_s >= _EXPIRES_S:
            return None
        has_ended = held.machine == machine_id() and process_start(held.pid) != held.process_start
        return None if has_ended else held


def read_head(objects: Objects, kb: str) -> Seen:
    """Returns CURRENT of a knowledge base. Raises StorageError where it cannot be read or has another format."""
    return changed_head(objects, kb, None) or Seen(Head(), None, 0.0)


def changed_head(objects: Objects, kb: str, etag: str | None) -> Seen | None:
    """Returns CURRENT as `read_head`; None where it is still the one with that ETag, or there is none."""
    stored = objects.read(_key(kb), unless=etag)
    try:
        return stored and Seen(Head.model_validate_json(stored.content), stored.etag, stored.age_s)
    except ValidationError as error:
        hint = "another release of almanac wrote it, or something else"
        raise StorageError(f"CURRENT cannot be read: {error}", where=f"{objects.url}/{_key(kb)}", hint=hint) from error


def _key(kb: str) -> str:
    return f"heads/{kb}/CURRENT"


class Writer:
    """The right to write a knowledge base. `head` is CURRENT, as this writer has written it last."""

    def __init__(self, objects: Objects, kb: str, seen: Seen) -> None:
        self._objects, self._kb, self._seen = objects, kb, seen
        self._one_at_a_time, self._ended = threading.Lock(), threading.Event()

    @property
    def head(self) -> Head:
        return self._seen.head

    def move(self, **changes: Any) -> None:
        """Moves CURRENT, and renews the lock with it. Raises RunLocked where another writer took over."""
        with self._one_at_a_time:
            head = self.head.model_copy(update={**changes, "at": utc_now(), "nonce": secrets.token_hex(8)})
            content = head.model_dump_json(indent=1).encode()
            etag = self._objects.write(_key(self._kb), content, replacing=self._seen.etag)
            if etag is None:
                raise self._lost()
            self._seen = Seen(head, etag, 0.0)

    def require_held(self) -> None:
        """Raises RunLocked where another writer took over."""
        if read_head(self._objects, self._kb).head.token != self.head.token:
            raise self._lost()

    def _lost(self) -> RunLocked:
        return RunLocked(
            f"{self.head.held or 'this writer'} lost the lock of '{self._kb}' and stops; nothing more is published",
            where=f"{self._objects.url}/{_key(self._kb)}",
            hint="another writer took over, because this one did not renew its lock for a while; run again",
        )

    def renew_until_ended(self) -> None:
        """Renews the lock until `release`, in a thread. While the store is away, it goes on trying: the lock holds as
        long as nobody else takes it.
        """
        while not self._ended.wait(_RENEW_S):
            try:
                self.move()
            except RunLocked:  # which the next push meets, too
                return
            except AlmanacError as error:
                _log.warning("lock_not_renewed", kb=self._kb, error=error.message)

    def release(self) -> None:
        """Gives the lock back, if it was not lost. Where the store is away, it expires by itself."""
        self._ended.set()
        try:
            with suppress(RunLocked):
                self.move(held=None)
        except AlmanacError as error:
            _log.warning("lock_not_released", kb=self._kb, error=error.message, expires_s=_EXPIRES_S)


@contextmanager
def taking_lock(objects: Objects, kb: str, holder: str, *, erases: bool = False) -> Iterator[Writer]:
    """Makes this process the writer of a knowledge base for the duration of the block; with `erases`, unneeded objects
    are to be removed. Raises RunLocked where there is another writer.
    """
    seen, pid = read_head(objects, kb), os.getpid()
    if seen.writer:
        raise locked_by(objects, kb)
    if seen.etag is None:
        objects.require_conditional_writes(f"heads/{kb}")
    who = {"holder": holder, "host": socket.gethostname(), "machine": machine_id(), "since": utc_now()}
    held = Holder(**who, pid=pid, process_start=process_start(pid))
    writer = Writer(objects, kb, seen)
    try:
        writer.move(token=seen.head.token + 1, held=held, erases=erases or seen.head.erases)
    except RunLocked:
        raise locked_by(objects, kb) from None
    threading.Thread(target=writer.renew_until_ended, name="renew-lock", daemon=True).start()
    try:
        yield writer
    finally:
        writer.release()


def holder_of(objects: Objects, kb: str) -> dict[str, Any] | None:
    """Returns who writes a knowledge base now, as {pid, holder, host, since}; None where nobody does."""
    held = read_head(objects, kb).writer
    return held.model_dump(include={"pid", "holder", "host", "since"}) if held else None


def locked_by(objects: Objects, kb: str) -> RunLocked:
    """The error for a lock that another process has."""
    seen = read_head(objects, kb)
    return RunLocked(
        f"'{kb}' is being written by {seen.head.held or 'another process'}",
        where=f"{objects.url}/{_key(kb)}",
        hint=f"wait for it; if it has died, its lock expires in {max(0, round(_EXPIRES_S - seen.age_s))} s",
    )
