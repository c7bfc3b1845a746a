"""Embeds together what is asked at the same time by several threads: a pass over eight questions costs three quarters
of eight passes.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from almanac.core.turns import for_several

_Vectors = npt.NDArray[np.float32]
_MOST = 8  # askers whose texts go into one pass, the others wait for the next one: of more, each costs as much


@dataclass(eq=False, slots=True)
class _Asker:
    texts: Sequence[str]
    # either served, or the one who makes the next pass
    may_go_on: threading.Event = field(default_factory=threading.Event)
    vectors: _Vectors | None = None
    error: BaseException | None = None


class EmbedTogether:
    """Calls `encode` from one thread at a time, with the texts of all threads that asked while the last call was
    running. Who asks alone waits for nobody.

    Args:
        encode: Gives the vectors of texts, float32 (n, dimension), in their order. What it raises, all threads of that
            call raise.
    """

    def __init__(self, encode: Callable[[Sequence[str]], _Vectors]) -> None:
        self._encode = encode
        self._lock = threading.Lock()
        self._waiting: list[_Asker] = []
        self._leader: _Asker | None = None  # who makes the pass that runs, or the one that comes now

    def __call__(self, texts: Sequence[str]) -> _Vectors:
        own = _Asker(texts)
        try:
            with self._lock:
                self._waiting.append(own)
                self._leader = self._leader or own
                has_to_wait = self._leader is not own
            if has_to_wait:
                own.may_go_on.wait()
            if own.vectors is None and own.error is None:
                with for_several(lambda: len(self._waiting), _MOST):
                    self._pass()
        except BaseException:  # Ctrl-C, say, while it waited: the others go on
            self._leave(own)
            raise
        if own.error is not None:
            raise own.error
        assert own.vectors is not None
        return own.vectors

    def _pass(self) -> None:
        """Encodes what waits, and wakes whom it belongs to, and who makes the next pass."""
        now: list[_Asker] = []
        try:
            with self._lock:
                now, self._waiting = self._waiting[:_MOST], self._waiting[_MOST:]
            # the first answers need sentences of the same passages
            texts = list(dict.fromkeys(text for one in now for text in one.texts))
            vectors, at = self._encode(texts), {text: number for number, text in enumerate(texts)}
            for one in now:
                one.vectors = vectors[[at[text] for text in one.texts]]
        except BaseException as error:
            for one in now:
                one.error = error
        finally:
            with self._lock:
                self._hand_on()
            for one in now:
                one.may_go_on.set()

    def _leave(self, own: _Asker) -> None:
        with self._lock:
            if own in self._waiting:
                self._waiting.remove(own)
            if self._leader is own:
                self._hand_on()

    def _hand_on(self) -> None:
        """Makes the next who waits the leader. The lock is held."""
        self._leader = self._waiting[0] if self._waiting else None
        if self._leader is not None:
            self._leader.may_go_on.set()
