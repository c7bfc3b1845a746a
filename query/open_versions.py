"""The open versions of a knowledge base: each is opened once, shared by all requests on it, and closed when nobody needs it any more."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cachetools import LRUCache

from almanac.index.versions.store import resolve_version
from almanac.query.retrieval.retriever import Retriever
from almanac.schemas.errors import NotFound

_NAMED = 2  # versions that were asked for by name last, beside the one that requests without a name read


class _Open:
    """One open version; `users` are the requests on it. Once it is `retired`, no new request gets it, and its last one closes it."""

    def __init__(self, name: str, retriever: Retriever) -> None:
        self.name = name
        self.retriever = retriever
        self.users = 0
        self.used_at = time.monotonic()
        self.is_retired = False

    def retire(self) -> None:
        self.is_retired = True
        self.close_if_unused()

    def close_if_unused(self) -> None:
        if self.is_retired and not self.users:
            self.retriever.opened.close()


class _Named(LRUCache[str, _Open]):
    """The versions that were asked for by name; the one that waits longest makes room for another."""

    def popitem(self) -> tuple[str, _Open]:
        name, opened = super().popitem()
        opened.retire()
        return name, opened


class VersionPool:
    """Open versions of one knowledge base. Safe to share among threads.

    A version that is no longer the live one is closed when its last request is done. One that was asked for by name waits for the next such request.
    """

    def __init__(self, folder: Path, open_version: Callable[[str], Retriever], pinned: str | None = None) -> None:
        self._folder, self._open_version, self._pinned = folder, open_version, pinned
        self._usual: _Open | None = None  # what requests read that name no version
        self._named = _Named(_NAMED)
        self._lock = threading.Lock()

    @contextmanager
    def reading(self, version: str | None = None) -> Iterator[Retriever]:
        """Holds the version asked for, else the pinned one, else the one that is live at this moment. Raises NotFound or NothingPublished."""
        opened = self._take(version)
        try:
            yield opened.retriever
        finally:
            with self._lock:
                opened.users -= 1
                opened.used_at = time.monotonic()
                opened.close_if_unused()

    def close_idle(self, idle_s: float = 0.0) -> None:
        """Closes what no request has named for so long; the live version stays open."""
        with self._lock:
            due = time.monotonic() - idle_s
            for opened in [opened for opened in self._named.values() if not opened.users and opened.used_at <= due]:
                self._retire(opened)

    def close(self) -> None:
        """Closes all; what requests still read is closed when they are done."""
        with self._lock:
            for opened in self._open():
                self._retire(opened)

    def _open(self) -> list[_Open]:
        return [*([self._usual] if self._usual is not None else []), *self._named.values()]

    def _take(self, version: str | None) -> _Open:
        while True:
            name = resolve_version(self._folder, version or self._pinned)
            try:
                with self._lock:
                    return self._share(name, is_usual=version is None)
            except NotFound:  # another one may be live by now, and this one pruned
                if version or self._pinned or resolve_version(self._folder) == name:
                    raise

    def _share(self, name: str, *, is_usual: bool) -> _Open:
        found = next((opened for opened in self._open() if opened.name == name), None)
        if found is not None and not found.retriever.opened.is_in_place:  # rebuilt meanwhile
            self._retire(found)
            found = None
        opened = found or _Open(name, self._open_version(name))
        if is_usual and opened is not self._usual:
            self._named.pop(name, None)
            if self._usual is not None:
                self._usual.retire()
            self._usual = opened
        elif opened is not self._usual:
            self._named[name] = opened  # as the one used last
        opened.users += 1
        return opened

    def _retire(self, opened: _Open) -> None:
        if opened is self._usual:
            self._usual = None
        else:
            del self._named[opened.name]
        opened.retire()
