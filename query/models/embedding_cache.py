"""Vectors of sentences that were judged before: the same passages answer many questions, and embedding their sentences is most of an answer's time."""

import threading
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from almanac.index.embedding.embedder import Embedder, Vectors
from almanac.index.embedding.score_thresholds import ScoreThresholds
from almanac.schemas.manifest import EmbedderInfo

_KEPT = 8192  # vectors; 13 MB of 384 dimensions


class CachingEmbedder:
    """An embedder that keeps the vectors of the texts it was given last. Safe to share among threads, where the other one is."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._kept: OrderedDict[str, Vectors] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def info(self) -> EmbedderInfo:
        return self._embedder.info

    @property
    def score_thresholds(self) -> ScoreThresholds:
        return self._embedder.score_thresholds

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        with self._lock:
            known = {text: self._kept[text] for text in texts if text in self._kept}
        if missing := list(dict.fromkeys(text for text in texts if text not in known)):
            # A copy of each: a view would keep all that were embedded with it.
            known.update((text, vector.copy()) for text, vector in zip(missing, self._embedder.embed_documents(missing), strict=True))
        with self._lock:
            for text, vector in known.items():
                self._kept[text] = vector
                self._kept.move_to_end(text)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return np.stack([known[text] for text in texts]) if texts else self._embedder.embed_documents([])

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        return self._embedder.embed_queries(texts)
