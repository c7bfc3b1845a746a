"""A lock for each key: what several threads need of one thing is made by one of them, while they make other things."""

import threading
from collections.abc import Hashable
from weakref import WeakValueDictionary


class KeyedLocks:
    """Locks by key, each of which is kept as long as somebody has it: there may be any number of keys. Safe to share
    among threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._locks: WeakValueDictionary[Hashable, threading.Lock] = WeakValueDictionary()

    def lock_of(self, key: Hashable) -> threading.Lock:
        """The lock of a key."""
        with self._lock:
            return self._locks.setdefault(key, threading.Lock())
