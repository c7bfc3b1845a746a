"""Embeds together what is asked at the same time by several threads: a pass over eight questions costs half of eight passes."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

_Vectors = npt.NDArray[np.float32]
_MOST = 32  # askers whose texts go into one pass; the others wait for the next one


@dataclass(eq=False, slots=True)
class _Asker:
    texts: Sequence[str]
    may_go_on: threading.Event = field(default_factory=threading.Event)  # either served, or the one who makes the next pass
    vectors: _Vectors | None = None
    error: BaseException | None = None


class EmbedTogether:
    """Calls `encode` from one thread at a time, with the texts of all threads that asked while the last call was running. Who asks alone waits for nobody.

    Args:
        encode: Gives the vectors of texts, float32 (n, dimension), in their order. What it raises, all threads of that call raise.
    """

    def __init__(self, encode: Callable[[Sequence[str]], _Vectors]) -> None:
        self._encode = encode
        self._lock = threading.Lock()
        self._waiting: list[_Asker] = []
        self._is_encoding = False

    def __call__(self, texts: Sequence[str]) -> _Vectors:
        own = _Asker(texts)
        with self._lock:
            self._waiting.append(own)
            has_to_wait, self._is_encoding = self._is_encoding, True
        if has_to_wait:
            own.may_go_on.wait()
        if own.vectors is None and own.error is None:
            self._pass()
        if own.error is not None:
            raise own.error
        assert own.vectors is not None
        return own.vectors

    def _pass(self) -> None:
        """Encodes what waits, and wakes whom it belongs to, and who makes the next pass."""
        with self._lock:
            now, self._waiting = self._waiting[:_MOST], self._waiting[_MOST:]
        try:
            vectors = self._encode([text for one in now for text in one.texts])
            ends = np.cumsum([len(one.texts) for one in now])
            for one, begin, end in zip(now, [0, *ends[:-1]], ends, strict=True):
                one.vectors = vectors[begin:end]
        except BaseException as error:
            for one in now:
                one.error = error
        finally:
            with self._lock:
                following = self._waiting[0] if self._waiting else None
                self._is_encoding = following is not None
            for one in now if following is None else [*now, following]:
                one.may_go_on.set()
