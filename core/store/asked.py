"""Versions that requests ask for and the cache lacks: each is fetched once, in a thread of its own, so that a request
need not wait longer than it is wanted.

The fetch goes on when those who asked have left: whoever asks again finds what is there by then. One that has not begun
by then does not begin.
"""

import copy
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from almanac.core.given_up import GivenUp, require_wanted
from almanac.schemas.errors import AlmanacError

_LOOK_S = 0.1  # between two looks whether a request is still wanted


@dataclass
class _Asked:
    waiting: int = 0
    ended: threading.Event = field(default_factory=threading.Event)
    error: Exception | None = None


class AskedVersions:
    """Safe to share among threads.

    Args:
        fetch: Fetches a version; before it begins, it may wait as long as the second argument says that somebody waits,
            and raises GivenUp where nobody does.
    """

    def __init__(self, fetch: Callable[[str, Callable[[], bool]], object]) -> None:
        self._fetch = fetch
        self._lock = threading.Lock()
        self._asked: dict[str, _Asked] = {}

    def get(self, version: str, require_open: Callable[[], None]) -> None:
        """Waits until a version is fetched. Raises the error of fetching it, that of `require_open`, and GivenUp once
        the request is not wanted.
        """
        while True:
            asked = self._join(version)
            try:
                while not asked.ended.wait(_LOOK_S):
                    require_open()
                    require_wanted()
            finally:
                with self._lock:
                    asked.waiting -= 1
            if isinstance(asked.error, GivenUp):  # when this request came, the fetch had just been given up
                continue
            if asked.error is not None:  # which other threads raise, too
                raise copy.copy(asked.error) if isinstance(asked.error, AlmanacError) else asked.error
            return

    def _join(self, version: str) -> _Asked:
        with self._lock:
            asked = self._asked.get(version)
            if asked is None:
                asked = self._asked[version] = _Asked()
                threading.Thread(target=self._do, args=(version, asked), name=f"fetch-{version}", daemon=True).start()
            asked.waiting += 1
            return asked

    def _do(self, version: str, asked: _Asked) -> None:
        try:
            self._fetch(version, lambda: asked.waiting > 0)
        except Exception as error:
            asked.error = error
        finally:
            with self._lock:
                del self._asked[version]
            asked.ended.set()
