"""Embeds together what is asked at the same time by several threads: a pass over eight questions costs three quarters
of eight passes.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_Vectors = npt.NDArray[np.float32]
_MOST = 8  # askers whose texts go into one pass: of more, each costs as much


@dataclass(eq=False, slots=True)
class _Asker:
    texts: Sequence[str]
    vectors: _Vectors | None = None
    error: BaseException | None = None

    @property
    def is_served(self) -> bool:
        return self.vectors is not None or self.error is not None


class EmbedTogether:
    """Calls `encode` from one thread at a time, with the texts of threads that asked while the last call was running.
    Who asks alone waits for nobody.

    Args:
        encode: Gives the vectors of texts, float32 (n, dimension), in their order. What it raises, all threads of that
            call raise.
    """

    def __init__(self, encode: Callable[[Sequence[str]], _Vectors]) -> None:
        self._encode = encode
        self._ended = threading.Condition()  # a pass has
        self._waiting: list[_Asker] = []
        self._is_passing = False

    def __call__(self, texts: Sequence[str]) -> _Vectors:
        own = _Asker(texts)
        with self._ended:
            self._waiting.append(own)
            try:
                self._ended.wait_for(lambda: own.is_served or not self._is_passing)
            finally:  # also where Ctrl-C ends the wait
                if not own.is_served and own in self._waiting:
                    self._waiting.remove(own)
            if not own.is_served:
                self._is_passing = True
                now, self._waiting = [own, *self._waiting[: _MOST - 1]], self._waiting[_MOST - 1 :]
        if not own.is_served:
            self._pass(now)
        if own.error is not None:
            raise own.error
        assert own.vectors is not None
        return own.vectors

    def _pass(self, now: Sequence[_Asker]) -> None:
        try:
            # the first answers need sentences of the same passages
            texts = list(dict.fromkeys(text for one in now for text in one.texts))
            vectors, at = self._encode(texts), {text: number for number, text in enumerate(texts)}
            for one in now:
                one.vectors = vectors[[at[text] for text in one.texts]]
        except BaseException as error:
            for one in now:
                one.error = error
        finally:
            with self._ended:
                self._is_passing = False
                self._ended.notify_all()
