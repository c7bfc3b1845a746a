"""Pool of open versions of one knowledge base: each is opened once, shared by all requests that read it, and closed when it is no longer needed."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cachetools import Cache, LRUCache

from almanac.index.versions.store import resolve_version
from almanac.query.retrieval.retriever import Retriever
from almanac.schemas.errors import NotFound

_NAMED = 2  # versions requested by name that stay open, beside the one that requests without a name read


class _Open:
    """One open version with `users`, the number of requests that read it. After `retire` no new request gets it, and the last running one closes it."""

    def __init__(self, name: str, retriever: Retriever) -> None:
        self.name = name
        self.retriever = retriever
        self.users = 0
        self.used_at = time.monotonic()
        self.is_retired = False

    def retire(self) -> None:
        """Takes the version out of use; it closes now, or after its last running request."""
        self.is_retired = True
        self.close_if_unused()

    def close_if_unused(self) -> None:
        if self.is_retired and not self.users:
            self.retriever.opened.close()


class _Named(LRUCache[str, _Open]):
    """Versions requested by name, by least recent use; an evicted version is retired."""

    def every(self) -> list[_Open]:
        """All of them, without counting as a use of any."""
        return [Cache.__getitem__(self, name) for name in self]

    def popitem(self) -> tuple[str, _Open]:
        name, opened = super().popitem()
        opened.retire()
        return name, opened


class VersionPool:
    """Pool of open versions of one knowledge base. Safe to share among threads.

    When another version becomes live, the next request opens it, and the former one closes after its last request. A version requested by name stays open for
    further requests, until `close_idle` or a third such version closes it.

    Args:
        folder: Index folder of the knowledge base.
        open_version: Opens the version of a name. It is called under the pool's lock, so that no version is opened twice.
        pinned: Version for requests that name none. Default: the live version.
    """

    def __init__(self, folder: Path, open_version: Callable[[str], Retriever], pinned: str | None = None) -> None:
        self._folder, self._open_version, self._pinned = folder, open_version, pinned
        self._usual: _Open | None = None  # for requests that name no version
        self._named = _Named(_NAMED)
        self._lock = threading.Lock()

    @contextmanager
    def reading(self, version: str | None = None) -> Iterator[Retriever]:
        """Gives the retriever of `version`, else of the pinned version, else of the version that is live now, and keeps it open until the end of the block.

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

    def close_idle(self, idle_s: float = 0.0) -> None:
        """Closes versions requested by name and unused for at least `idle_s` seconds; the one that requests without a name read stays open."""
        with self._lock:
            due = time.monotonic() - idle_s
            for opened in [opened for opened in self._named.every() if not opened.users and opened.used_at <= due]:
                self._retire(opened)

    def close(self) -> None:
        """Closes all versions; those with running requests close after the last of them."""
        with self._lock:
            for opened in self._open():
                self._retire(opened)

    def _open(self) -> list[_Open]:
        return [*([self._usual] if self._usual is not None else []), *self._named.every()]

    def _take(self, version: str | None) -> _Open:
        while True:
            name = resolve_version(self._folder, version or self._pinned)
            try:
                with self._lock:
                    return self._share(name, is_usual=version is None)
            except NotFound:  # pruned between the two steps; try again if another version is live by now
                if version or self._pinned or resolve_version(self._folder) == name:
                    raise

    def _share(self, name: str, *, is_usual: bool) -> _Open:
        found = self._usual if self._usual is not None and self._usual.name == name else self._named.get(name)
        if found is not None and not found.retriever.opened.is_in_place:  # `rebuild` or `forget` has replaced its folder
            self._retire(found)
            found = None
        opened = found or _Open(name, self._open_version(name))
        if is_usual and opened is not self._usual:
            self._named.pop(name, None)
            if self._usual is not None:
                self._usual.retire()
            self._usual = opened
        elif opened is not self._usual:
            self._named[name] = opened  # also marks it as most recently used
        opened.users += 1
        return opened

    def _retire(self, opened: _Open) -> None:
        if opened is self._usual:
            self._usual = None
        else:
            del self._named[opened.name]
        opened.retire()
