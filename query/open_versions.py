"""Pool of open versions of one knowledge base: each is opened once, shared by all requests that read it, and closed
when it is no longer needed.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from almanac.core.logs import get_logger
from almanac.query.retrieval.retriever import Retriever
from almanac.schemas.errors import NotFound

_log = get_logger("almanac.query")
_NAMED = 2  # versions requested by name that stay open, beside the one that requests without a name read


@dataclass(eq=False)
class _Open:
    """One open version with `users`, the number of requests that read it. After `retire` no new request gets it, and
    the last running one closes it.
    """

    name: str
    retriever: Retriever
    users: int = 0
    used_at: float = field(default_factory=time.monotonic)
    is_retired: bool = False

    def retire(self) -> None:
        self.is_retired = True
        self.close_if_unused()

    def close_if_unused(self) -> None:
        if self.is_retired and not self.users:
            self.retriever.opened.close()


class VersionPool:
    """Pool of open versions of one knowledge base. Safe to share among threads.

    When another version becomes live, the next request opens it, and the former one closes after its last request;
    after `hold`, requests go on with the one that is open until `switch`. A version requested by name stays open for
    further requests, until `close_idle` or a third such version closes it.

    `resolve` gives the version to read for the name that a request has, or None, as `resolve_version` does;
    `open_version` is called by one request at a time, so that no version is opened twice, while those of open versions
    go on. `pinned` is the version for requests that name none, by default the live one.
    """

    def __init__(
        self, resolve: Callable[[str | None], str], open_version: Callable[[str], Retriever], pinned: str | None = None
    ) -> None:
        self._resolve, self._open_version, self._pinned = resolve, open_version, pinned
        self._is_held = False
        self._usual: _Open | None = None  # for requests that name no version
        self._named: dict[str, _Open] = {}  # requested by name, the least recently used first
        self._lock = threading.Lock()
        self._opening = threading.Lock()  # taken before `_lock`

    @contextmanager
    def reading(self, version: str | None = None) -> Iterator[Retriever]:
        """Gives the retriever of `version`, else of the pinned version, else of the version that is live now, and keeps
        it open until the end of the block.

        Raises NotFound, NothingPublished, DamagedVersion, and the errors of `open_version`.
        """
        opened = self._take(version)
        try:
            yield opened.retriever
        finally:
            with self._lock:
                opened.users -= 1
                opened.used_at = time.monotonic()
                opened.close_if_unused()

    def hold(self) -> None:
        """From now on, requests that name no version read the one that is open for them, whatever becomes live, until
        `switch`.
        """
        self._is_held = True

    def switch(self, warm: Callable[[Retriever], None]) -> None:
        """Opens and warms what is live by now, while requests go on, and only then gives it to those that begin. Does
        nothing where none has asked yet.

        Raises the errors of `reading` and of `warm`; requests stay with what they had.
        """
        before = self._usual
        if before is None:
            return
        name = self._resolve(self._pinned)
        if before.name == name and before.retriever.opened.is_in_place:
            return
        opened = _Open(name, self._open_version(name))
        try:
            warm(opened.retriever)
        except BaseException:
            opened.retire()
            raise
        with self._lock:
            if self._usual is before:
                self._usual = opened
                before.retire()
            else:  # closed meanwhile
                opened.retire()

    @property
    def usual(self) -> str | None:
        """Name of the version that is open for requests that name none; None where none is."""
        opened = self._usual
        return opened.name if opened is not None else None

    def give_way(self) -> None:
        """Takes the versions out of use whose files somebody waits to write, or has written; each closes with its last
        running request.
        """
        with self._lock:
            for opened in [opened for opened in self._open() if opened.retriever.opened.is_wanted]:
                finding = "a file of an open version is being written: it is opened anew by the next request"
                _log.warning(finding, version=opened.name)
                self._retire(opened)

    def close_idle(self, idle_s: float = 0.0) -> None:
        """Closes versions requested by name and unused for at least `idle_s` seconds; the one that requests without a
        name read stays open.
        """
        with self._lock:
            due = time.monotonic() - idle_s
            for opened in [opened for opened in self._named.values() if not opened.users and opened.used_at <= due]:
                self._retire(opened)

    def close(self) -> None:
        """Closes all versions; those with running requests close after the last of them."""
        with self._lock:
            for opened in self._open():
                self._retire(opened)

    def _open(self) -> list[_Open]:
        return [*([self._usual] if self._usual is not None else []), *self._named.values()]

    def _take(self, version: str | None) -> _Open:
        while True:
            if self._is_held and version is None and (held := self._take_held()):
                return held
            name = self._resolve(version or self._pinned)
            try:
                return self._share(name, is_usual=version is None)
            except NotFound:  # pruned between the two steps; try again if another version is live by now
                if version or self._pinned or self._resolve(None) == name:
                    raise

    def _take_held(self) -> _Open | None:
        with self._lock:
            if self._usual is not None:
                self._usual.users += 1
            return self._usual

    def _share(self, name: str, *, is_usual: bool) -> _Open:
        if opened := self._shared(name, is_usual=is_usual):
            return opened
        with self._opening:
            if opened := self._shared(name, is_usual=is_usual):  # another request has opened it
                return opened
            opened = _Open(name, self._open_version(name))
            with self._lock:
                return self._used(opened, is_usual=is_usual)

    def _shared(self, name: str, *, is_usual: bool) -> _Open | None:
        with self._lock:
            opened = self._usual if self._usual is not None and self._usual.name == name else self._named.get(name)
            # `rebuild` or `forget` has replaced its folder, or somebody writes into it.
            if opened is not None and (not opened.retriever.opened.is_in_place or opened.retriever.opened.is_wanted):
                self._retire(opened)
                return None
            return opened and self._used(opened, is_usual=is_usual)

    def _used(self, opened: _Open, *, is_usual: bool) -> _Open:
        """Counts a request, and keeps the version open. Under the lock."""
        self._named.pop(opened.name, None)
        if is_usual and opened is not self._usual:
            if self._usual is not None:
                self._usual.retire()
            self._usual = opened
        elif opened is not self._usual:
            self._named[opened.name] = opened  # as the most recently used
            if len(self._named) > _NAMED:
                self._retire(next(iter(self._named.values())))
        opened.users += 1
        return opened

    def _retire(self, opened: _Open) -> None:
        if opened is self._usual:
            self._usual = None
        else:
            del self._named[opened.name]
        opened.retire()
