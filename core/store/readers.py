"""Readers of a knowledge base in a store: they follow CURRENT, have what is published in the cache before anybody asks,
and do without the store meanwhile.

CURRENT is asked for every 2 s, by a request that costs nothing while it is the same. What it names is fetched; whoever
answers is told then, and switches when it is ready. Processes that share a cache fetch once.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from almanac.core.clock import utc_now
from almanac.core.given_up import require_wanted
from almanac.core.logs import get_logger
from almanac.core.settings import DataDir
from almanac.core.store.fetching import PUBLISHED, fetch_versions, mark_used
from almanac.core.store.objects import Objects
from almanac.core.store.pointer import Head, Seen, changed_head, read_head
from almanac.core.store.working_copy import Stopped, WorkingCopy, folders_of
from almanac.schemas.errors import AlmanacError, NotFound, NothingPublished, Retriable, StorageError, StoreAway

_LOOK_S = 2.0  # seconds between two looks at CURRENT
_AGAIN_S = 30.0  # until what could not be fetched, or removed because it is open, is tried again
_TURN_S = 0.1  # between two looks whether a request still waits
_log = get_logger("almanac.store")


class StoreState(NamedTuple):
    """How a reader stands to its store.

    `away_since` is when the store answered last, in ISO 8601, None while it answers. `behind` is the version that is
    published and is not answered from yet.
    """

    away_since: str | None = None
    behind: str | None = None


class Heard(NamedTuple):
    """What a cache heard of a store last: the live version, None before the first one, and when, in ISO 8601."""

    version: str | None = None
    at: str | None = None


def heard_of(data: DataDir, kb: str) -> Heard:
    """Returns what this machine heard of a knowledge base in a store last, without asking for it."""
    path = data.for_kb(kb).root / PUBLISHED
    try:
        version, at = Head.model_validate_json(path.read_bytes()).version, path.stat().st_mtime
    except (FileNotFoundError, ValueError):
        return Heard()
    return Heard(version, datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds"))


def live_in_store(data: DataDir, kb: str) -> str | None:
    """Returns the live version by CURRENT of a store, while it is away by the cache; None before the first one. Raises
    StoreAway where the cache has none.
    """
    try:
        return read_head(Objects(data.url, is_brief=True), kb).head.version
    except StoreAway:
        version = heard_of(data, kb).version
        if version is None or not folders_of(data.for_kb(kb).root, kb, version):
            raise
        return version


class StoreReader:
    """What a reader has of one knowledge base in a store. Safe to share among threads.

    Args:
        data: The data directory, in an object store.
        kb: Name of the knowledge base.
        pinned: Version that is read instead of the live one.
    """

    def __init__(self, data: DataDir, kb: str, pinned: str | None = None) -> None:
        self._data, self._kb, self._pinned, self._root = data, kb, pinned, data.for_kb(kb).root
        self._objects = Objects(data.url, is_brief=True)
        self._lock, self._ended = threading.Lock(), threading.Event()
        self._worker: ThreadPoolExecutor | None = None  # of one thread: one fetch after the other
        self._works: dict[str, Future[Any]] = {}
        self._mended: set[tuple[str, str, str | None]] = set()
        self._seen = Seen(Head(), None, 0.0)  # CURRENT as it was seen last
        self._taken_over: Head | None = None  # CURRENT of which everything is in use
        self._due_at: float | None = 0.0  # when to fetch, by the monotonic clock; None: all is as CURRENT says
        self._away_since: str | None = None

    @property
    def version(self) -> str | None:
        """The live version as this cache knows it; None before the first one."""
        return heard_of(self._data, self._kb).version

    def state(self) -> StoreState:
        seen, taken_over = self._seen, self._taken_over
        is_behind = seen.etag and not self._pinned and (taken_over is None or _live(seen.head) != _live(taken_over))
        return StoreState(self._away_since, seen.head.version if is_behind else None)

    def resolve(self, version: str | None = None) -> str:
        """Returns the version to read, which the cache has: the one that is named, else the pinned or the live one.
        Fetches it where the cache lacks it.

        Raises NotFound for a version that the store has not, NothingPublished before the first one, StoreAway and other
        StorageErrors where it has to be fetched and cannot be, Retriable where the reader is closed meanwhile. Who is
        not waited for any more (`core.given_up`) leaves, and the fetch goes on.
        """
        wanted = version or self._pinned or self.version
        if wanted is None:
            finding = f"nothing is published for '{self._kb}' yet"
            raise NothingPublished(finding, where=self._data.url, hint="almanac run KB")
        if not self._folders(wanted):
            self._in_turn(wanted, lambda ended: self._folders(wanted) or self._fetch(ended, wanted))
        mark_used(self._folders(wanted))
        return wanted

    def mend(self, version: str, reason: str) -> None:
        """Compares all that the cache has of a version with the store, and fetches what differs.

        Not while the store is away, nor where this machine wrote last: then what is here may be all there is. Once for
        a reason, until something else is published. Raises as `resolve`.
        """
        case = version, reason, self._seen.head.index
        if case not in self._mended:
            self._mended.add(case)
            with suppress(StoreAway, NotFound):  # `resolve` says so, where it is needed
                self._in_turn(f"mend {version}", lambda ended: self._fetch(ended, version, is_read=True))

    def begin(self) -> None:
        """Fetches what is published now. While the store is away, what the cache has will do, with a warning.

        Raises StoreAway where the cache has nothing whole, and the other errors of a store.
        """
        try:
            self._take(lambda: None)
        except StoreAway as error:
            version = self._pinned or self.version
            if version is None or not self._folders(version):
                raise
            self._note_away(error)

    def follow(self, on_change: Callable[[], None]) -> None:
        """Follows CURRENT in a thread until `close`. `on_change` is called, there, when something new is in the cache;
        where it raises, it is called again.
        """
        threading.Thread(target=self._follow, args=(on_change, self._ended), name="follow-store", daemon=True).start()

    def close(self) -> None:
        """Ends `follow`, also while it fetches, and what requests wait for. A later request begins anew."""
        with self._lock:
            self._ended.set()
            if self._worker is not None:
                self._worker.shutdown(wait=False, cancel_futures=True)
                self._worker = None

    def _follow(self, on_change: Callable[[], None], ended: threading.Event) -> None:
        while not ended.is_set():
            try:
                self._look(on_change)
            except Exception as error:  # of the store, a full disk, a defect: answers go on, from what there is
                self._due_at = time.monotonic() + _AGAIN_S
                if not ended.is_set():
                    published, answering = self._seen.head.version, self._pinned or self.version
                    facts = {"kb": self._kb, "published": published, "answering": answering, "error": str(error)}
                    _log.warning("not_taken_over", **facts)
            ended.wait(_LOOK_S)

    def _look(self, on_change: Callable[[], None]) -> None:
        """Looks at CURRENT once, and takes over what is new there."""
        try:
            seen = changed_head(self._objects, self._kb, self._seen.etag)
        except AlmanacError as error:
            self._note_away(error)
            return
        mark_used([self._root / PUBLISHED])
        if self._away_since is not None:
            _log.info("store_back", kb=self._kb, was_away_since=self._away_since)
            self._away_since = None
        if seen is not None:
            if seen.head.index != self._seen.head.index:
                self._due_at = 0.0
            self._seen = seen
        if self._due_at is not None and time.monotonic() >= self._due_at:
            self._take(on_change)

    def _take(self, on_change: Callable[[], None]) -> None:
        seen, is_left = self._in_turn("", self._fetch)
        on_change()
        self._seen, self._taken_over = seen, seen.head
        if is_left:  # what was open until now
            is_left = self._in_turn("", self._fetch)[1]
        self._due_at = time.monotonic() + _AGAIN_S if is_left else None

    def _in_turn(self, name: str, work: Callable[[threading.Event], Any]) -> Any:
        """Does something after what is being fetched; who asks for what another thread asks for waits for the same."""
        with self._lock:
            if self._ended.is_set():
                self._ended = threading.Event()
            if self._worker is None:
                self._worker = ThreadPoolExecutor(1, thread_name_prefix="fetch")
            if name not in self._works or self._works[name].done():
                self._works[name] = self._worker.submit(work, self._ended)
            future = self._works[name]
        try:
            while not future.done():
                wait([future], _TURN_S)
                require_wanted()
            return future.result()
        except (CancelledError, Stopped) as error:
            finding = "the knowledge base was closed while a version was being fetched"
            raise Retriable(finding, hint="ask again") from error
        finally:
            if future.done():
                self._works.pop(name, None)

    def _fetch(self, ended: threading.Event, version: str | None = None, *, is_read: bool = False) -> tuple[Seen, bool]:
        """Fetches a version, else what requests read that name none; returns the CURRENT that it is of, and whether a
        reader still has open what should be gone.
        """
        with closing(WorkingCopy(self._objects, self._kb, self._root, ended)) as copy, copy.changing() as has_writer:
            seen, versions = read_head(self._objects, self._kb), [version or self._pinned]
            while True:
                try:
                    return seen, fetch_versions(copy, seen.head, versions, has_writer=has_writer, is_read=is_read)
                except StorageError as error:
                    before, seen = seen, read_head(self._objects, self._kb)
                    if isinstance(error, StoreAway) or seen.head.index == before.head.index:
                        raise
                    # else a takedown has removed what was being fetched

    def _folders(self, version: str) -> list[Path]:
        return folders_of(self._root, self._kb, version)

    def _note_away(self, error: AlmanacError) -> None:
        if self._away_since is None:
            heard = heard_of(self._data, self._kb)
            self._away_since = heard.at or utc_now()
            answering = self._pinned or heard.version
            _log.warning("store_away", kb=self._kb, since=self._away_since, answering=answering, error=str(error))


def _live(head: Head) -> tuple[str | None, str | None]:
    """What is read by who names no version: a takedown makes the version anew under its name."""
    return head.version, head.version_list
