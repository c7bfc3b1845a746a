"""The versions that requests read at this moment: each is opened once, shared by all requests on it, and closed when nobody needs it any more."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from almanac.index.versions.store import resolve_version
from almanac.query.retrieval.retriever import Retriever
from almanac.schemas.errors import NotFound

_KEPT = 3  # the live one, and those that were asked for by name of late


class _Held:
    """One open version; `users` are the requests on it."""

    def __init__(self, retriever: Retriever) -> None:
        self.retriever = retriever
        self.users = 0
        self.used_at = time.monotonic()


class VersionPool:
    """Open versions of one knowledge base. Safe to share among threads.

    A version that is no longer the live one is closed when its last request is done. One that was asked for by name waits for the next such request.
    """

    def __init__(self, folder: Path, open_version: Callable[[str], Retriever], pinned: str | None = None) -> None:
        self._folder, self._open_version, self._pinned = folder, open_version, pinned
        self._kept: OrderedDict[str, _Held] = OrderedDict()  # what new requests may share, the one used last at the end
        self._usual: str | None = None  # the version of requests that name none
        self._lock = threading.Lock()

    @contextmanager
    def reading(self, version: str | None = None) -> Iterator[Retriever]:
        """Holds the version asked for, else the pinned one, else the one that is live at this moment. Raises NotFound or NothingPublished."""
        held = self._take(version)
        try:
            yield held.retriever
        finally:
            with self._lock:
                held.users -= 1
                held.used_at = time.monotonic()
                if not held.users and held not in self._kept.values():
                    held.retriever.opened.close()

    def let_go(self, idle_s: float = 0.0) -> None:
        """Closes what no request named for so long; the live version stays open."""
        with self._lock:
            due = time.monotonic() - idle_s
            for name in [name for name, held in self._kept.items() if name != self._usual and not held.users and held.used_at <= due]:
                self._retire(name)

    def close(self) -> None:
        """Closes all; what requests still read is closed when they are done."""
        with self._lock:
            for name in list(self._kept):
                self._retire(name)

    def _take(self, version: str | None) -> _Held:
        while True:
            name = resolve_version(self._folder, version or self._pinned)
            try:
                with self._lock:
                    return self._shared(name, is_usual=version is None)
            except NotFound:  # another one may be live by now, and this one pruned
                if version or self._pinned or resolve_version(self._folder) == name:
                    raise

    def _shared(self, name: str, *, is_usual: bool) -> _Held:
        if name in self._kept and not self._kept[name].retriever.opened.is_in_place:
            self._retire(name)
        if name not in self._kept:
            self._kept[name] = _Held(self._open_version(name))
        if is_usual and name != self._usual:
            if self._usual is not None and self._usual in self._kept:
                self._retire(self._usual)
            self._usual = name
        held = self._kept[name]
        held.users += 1
        self._kept.move_to_end(name)
        while len(self._kept) > _KEPT:
            self._retire(next(one for one in self._kept if one != self._usual))
        return held

    def _retire(self, name: str) -> None:
        """No new request gets it."""
        held = self._kept.pop(name)
        if not held.users:
            held.retriever.opened.close()
