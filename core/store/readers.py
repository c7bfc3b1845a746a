"""Readers of a knowledge base in a store: they follow CURRENT, have what is published in the cache before anybody asks,
and do without the store meanwhile.

CURRENT is asked for every 2 s, by a request that costs nothing while it is the same. What it names is fetched; whoever
answers is told then, and switches when it is ready. Processes that share a cache fetch once.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from almanac.core.given_up import GivenUp, require_wanted
from almanac.core.logs import get_logger
from almanac.core.settings import DataDir, cache_bytes
from almanac.core.store.asked import AskedVersions
from almanac.core.store.bounds import mark_used
from almanac.core.store.fetching import fetch_versions, note_reached, noted, reached_at, set_aside_altered
from almanac.core.store.head import Head, Seen, head_key, parse_head, read_head
from almanac.core.store.layout import folders_of, is_whole
from almanac.core.store.objects import Objects
from almanac.core.store.working_copy import Stopped, WorkingCopy
from almanac.schemas.errors import AlmanacError, NotFound, NothingPublished, Retriable, StorageError, StoreAway

_LOOK_S = 2.0  # seconds between two looks at CURRENT
_AGAIN_S, _LONGEST_S = 2.0, 60.0  # until a version that could not be fetched is tried again, doubled each time
_TURN_S = 0.1  # between two looks whether a version that waits for its turn is still asked for
_CLEAN_S = 30.0  # until what a reader had open when it should have gone is looked for again
_log = get_logger("almanac.store")


@dataclass(frozen=True, slots=True)
class StoreState:
    """How a reader stands to its store.

    `away_since` is when the store answered last, in ISO 8601, None while it answers. `behind` is the version that is
    published and is not answered from yet.
    """

    away_since: str | None = None
    behind: str | None = None


def version_here(data: DataDir, kb: str) -> str | None:
    """Returns the version that was live in the store when this cache heard of it last; None where it never heard of
    one.
    """
    head = noted(data.of(kb).root)
    return head.version if head else None


def live_in_store(data: DataDir, kb: str) -> str | None:
    """Returns the live version by CURRENT of a store, while it is away by the cache; None before the first one. Raises
    StoreAway where the cache has none.
    """
    try:
        return read_head(Objects(data.url, is_brief=True), kb).head.version
    except StoreAway:
        version = version_here(data, kb)
        if version is None or not is_whole(data.of(kb).root, kb, version):
            raise
        return version


def last_reached(data: DataDir, kb: str) -> str | None:
    """Returns when the store answered a reader of this cache last, in ISO 8601; None where that is not known."""
    at = reached_at(data.of(kb).root)
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


class StoreReader:
    """What a reader has of one knowledge base in a store. Safe to share among threads.

    Args:
        data: The data directory, in an object store.
        kb: Name of the knowledge base.
        pinned: Version that is read instead of the live one.
    """

    def __init__(self, data: DataDir, kb: str, pinned: str | None = None) -> None:
        self._data, self._kb, self._pinned = data, kb, pinned
        self._root = data.of(kb).root
        self._brief = Objects(data.url, is_brief=True)
        self._one_at_a_time, self._ended = threading.Lock(), threading.Event()
        self._closings = 0
        self._asked = AskedVersions(self._fetch_asked)
        self._copy: WorkingCopy | None = None  # while something is fetched
        self._etag: str | None = None  # of CURRENT as it was seen last
        self._published: Head | None = None  # CURRENT as it was seen last
        # tree that a version was the same in when it could not be opened for a reason
        self._as_published: dict[tuple[str, str], str] = {}
        self._taken_over: Head | None = None  # CURRENT of which everything is in use
        self._due_at: float | None = 0.0  # when to fetch, by the monotonic clock; None: CURRENT is as it was
        self._delay_s = _AGAIN_S
        self._clean_at: float | None = None
        self._away_since: str | None = None
        self._told = ""

    @property
    def version(self) -> str | None:
        """The live version as this cache knows it; None before the first one."""
        return version_here(self._data, self._kb)

    def state(self) -> StoreState:
        published, taken_over = self._published, self._taken_over
        is_behind = (
            published is not None and not self._pinned and (taken_over is None or _live(published) != _live(taken_over))
        )
        return StoreState(self._away_since, published.version if published is not None and is_behind else None)

    def resolve(self, version: str | None = None) -> str:
        """Returns the version to read, which the cache has: the one that is named, else the pinned or the live one.
        Fetches it where the cache lacks it.

        Raises NotFound for a version that the store has not, NothingPublished before the first one, StoreAway and other
        StorageErrors where it has to be fetched and cannot be, Retriable where the reader is closed meanwhile. Who is
        not waited for any more (`core.given_up`) leaves, and the fetch goes on.
        """
        wanted = version or self._pinned or self.version
        if wanted is None:
            raise NothingPublished(
                f"nothing is published for '{self._kb}' yet", where=self._data.url, hint="almanac run KB"
            )
        if not is_whole(self._root, self._kb, wanted):
            closings = self._closings
            self._asked.get(wanted, lambda: self._require_open(closings))
        mark_used(folders_of(self._root, self._kb, wanted))
        return wanted

    def set_aside(self, version: str, reason: str) -> None:
        """Takes out of the cache what it has of a version in another content than the store has: `resolve` fetches it
        anew.

        Not while the store is away, nor where this machine wrote last: then what is here may be all there is. What is
        no other than in the store is not read again for the same reason, until something else is published. Raises as
        `resolve`.
        """
        closings = self._closings
        while not self._one_at_a_time.acquire(timeout=_TURN_S):
            self._require_open(closings)
            require_wanted()
        copy = None
        try:
            copy = WorkingCopy(Objects(self._data.url), self._kb, self._root)
            with copy.checking_out() as has_writer:
                head = read_head(self._brief, self._kb).head
                if (
                    not has_writer
                    and self._as_published.get((version, reason)) != head.root
                    and not set_aside_altered(copy, head, [version])
                ):
                    self._as_published[version, reason] = head.root
        except (StoreAway, NotFound):  # `resolve` says so, where it is needed
            pass
        finally:
            if copy is not None:
                copy.close()
            self._one_at_a_time.release()

    def begin(self) -> None:
        """Fetches what is published now. While the store is away, what the cache has will do, with a warning.

        Raises StoreAway where the cache has nothing whole, and the other errors of a store.
        """
        try:
            seen = self._fetch(None)
            self._etag, self._published, self._taken_over, self._due_at = seen.etag, seen.head, seen.head, None
        except StoreAway as error:
            version = self._pinned or self.version
            if version is None or not is_whole(self._root, self._kb, version):
                raise
            self._note_away(error)

    def follow(self, on_change: Callable[[], None]) -> None:
        """Follows CURRENT in a thread until `close`. `on_change` is called, there, when something new is in the cache;
        where it raises, it is called again.
        """
        threading.Thread(target=self._follow, args=(on_change,), name=f"follow-{self._kb}", daemon=True).start()

    def close(self) -> None:
        """Ends `follow`, also while it fetches, and what requests wait for."""
        self._ended.set()
        self._closings += 1
        if copy := self._copy:
            copy.stop()

    def _follow(self, on_change: Callable[[], None]) -> None:
        while not self._ended.wait(_LOOK_S if self._due_at is None else 0.0):
            try:
                self._look(on_change)
            except Exception as error:  # a defect: answers go on, from what there is
                if not self._ended.is_set():
                    self._tell("not_followed", error)
            if self._due_at is not None:
                self._ended.wait(_LOOK_S)

    def _look(self, on_change: Callable[[], None]) -> None:
        """Looks at CURRENT once, and takes over what is new there."""
        try:
            found = self._brief.read(head_key(self._kb), unless=self._etag)
        except AlmanacError as error:
            self._note_away(error)
            return
        self._note_back()
        if found is not None:
            self._published = parse_head(self._brief, self._kb, found).head
            self._etag, self._due_at, self._delay_s = found.etag, 0.0, _AGAIN_S
        now = time.monotonic()
        if self._due_at is not None and now >= self._due_at:
            self._take_over(on_change)
        elif self._clean_at is not None and now >= self._clean_at:
            self._fetch(None)

    def _take_over(self, on_change: Callable[[], None]) -> None:
        try:
            fetched = self._fetch(None).head
            on_change()
        except (AlmanacError, OSError) as error:  # OSError: a full disk
            if self._ended.is_set():
                return
            self._due_at = time.monotonic() + self._delay_s
            self._delay_s = min(2 * self._delay_s, _LONGEST_S)
            self._tell("not_taken_over", error)
            return
        self._taken_over, self._due_at, self._told = fetched, None, ""
        if self._clean_at is not None:  # what was open until now
            self._fetch(None)

    def _fetch_asked(self, version: str, is_waited_for: Callable[[], bool]) -> None:
        """Fetches a version that a request waits for, in its turn, unless the cache has it by then. Raises GivenUp
        where nobody waits before that.
        """
        closings = self._closings
        while not self._one_at_a_time.acquire(timeout=_TURN_S):
            self._require_open(closings)
            if not is_waited_for():
                raise GivenUp
        try:
            if not is_whole(self._root, self._kb, version):
                self._fetch_alone(version, closings)
        finally:
            self._one_at_a_time.release()

    def _fetch(self, version: str | None) -> Seen:
        """Fetches a version, else what requests read that name none; returns the CURRENT that it is of."""
        closings = self._closings
        with self._one_at_a_time:
            return self._fetch_alone(version, closings)

    def _fetch_alone(self, version: str | None, closings: int) -> Seen:
        """As `_fetch`, by whoever has the turn. Raises Retriable where the reader has been closed since `closings`."""
        copy = self._copy = WorkingCopy(Objects(self._data.url), self._kb, self._root)
        try:
            self._require_open(closings)
            with copy.checking_out() as has_writer:
                seen = read_head(self._brief, self._kb)
                try:
                    is_left = self._fetch_of(copy, seen.head, version, has_writer=has_writer)
                except StoreAway:
                    raise
                except StorageError:
                    before, seen = seen, read_head(self._brief, self._kb)
                    if seen.etag == before.etag:
                        raise
                    # a takedown has removed what was being fetched
                    is_left = self._fetch_of(copy, seen.head, version, has_writer=has_writer)
            self._clean_at = time.monotonic() + _CLEAN_S if is_left else None
            note_reached(self._root)
            return seen
        except Stopped as stopped:
            raise _closed() from stopped
        finally:
            self._copy = None
            copy.close()

    def _require_open(self, closings: int) -> None:
        if self._closings != closings:
            raise _closed()

    def _fetch_of(self, copy: WorkingCopy, head: Head, version: str | None, *, has_writer: bool) -> bool:
        return fetch_versions(copy, head, [version or self._pinned], additive=has_writer, limit=cache_bytes())

    def _note_away(self, error: AlmanacError) -> None:
        if self._away_since is None:
            self._away_since = last_reached(self._data, self._kb) or datetime.now(UTC).isoformat(timespec="seconds")
            _log.warning(
                "store_away",
                kb=self._kb,
                since=self._away_since,
                answering=self._pinned or self.version,
                error=str(error),
            )

    def _note_back(self) -> None:
        note_reached(self._root)
        if self._away_since is not None:
            _log.info("store_back", kb=self._kb, was_away_since=self._away_since)
            self._away_since = None

    def _tell(self, event: str, error: Exception) -> None:
        """Logs an error, unless it is the last one that was logged: each look meets it again."""
        if self._told != str(error):
            self._told = str(error)
            with suppress(ValueError):  # the log's file was closed: the process ends
                _log.warning(
                    event,
                    kb=self._kb,
                    published=self._published and self._published.version,
                    answering=self._pinned or self.version,
                    error=str(error),
                )


def _closed() -> Retriable:
    return Retriable("the knowledge base was closed while a version was being fetched", hint="ask again")


def _live(head: Head) -> tuple[str | None, str | None]:
    """What readers read of a head: a takedown makes the version anew under its name."""
    return head.version, head.version_tree
