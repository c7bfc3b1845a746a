"""Embedding caches: the same passages answer many questions, and embedding their sentences takes most of the time of an
answer.
"""

import threading
from collections.abc import Callable, Sequence

import numpy as np
from cachetools import LRUCache

from almanac.core.given_up import require_wanted
from almanac.index.embedding.embedder import Embedder, Vectors
from almanac.index.embedding.score_thresholds import ScoreThresholds
from almanac.schemas.hashing import sha256
from almanac.schemas.manifest import EmbedderInfo

_KEPT = 8192  # vectors, 13 MB at 384 dimensions


class CachingEmbedder:
    """Embedder with an LRU cache of 8192 document vectors around another embedder. Safe to share among threads if that
    one is.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._kept: LRUCache[str, Vectors] = LRUCache(_KEPT)
        self._lock = threading.Lock()

    @property
    def info(self) -> EmbedderInfo:
        return self._embedder.info

    @property
    def score_thresholds(self) -> ScoreThresholds:
        return self._embedder.score_thresholds

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        require_wanted()
        keys = {text: sha256(text) for text in texts}  # of one length, however long a sentence is
        with self._lock:
            known = {text: self._kept[key] for text, key in keys.items() if key in self._kept}
        if missing := list(dict.fromkeys(text for text in texts if text not in known)):
            # Copies: a view would keep the vectors of the whole batch in memory.
            vectors = self._embedder.embed_documents(missing)
            known.update((text, vector.copy()) for text, vector in zip(missing, vectors, strict=True))
        with self._lock:
            self._kept.update((keys[text], vector) for text, vector in known.items())
        return np.stack([known[text] for text in texts]) if texts else self._embedder.embed_documents([])

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Vectors of questions, which are not cached: hardly any question is asked twice in the same words."""
        require_wanted()
        return self._embedder.embed_queries(texts)


class EmbedOnce:
    """Embeds the texts of one question, each of them once.

    Args:
        embed_queries: Gives the unit vectors of texts, float32 (n, dimension). Not called before there is a text to
            embed.
    """

    def __init__(self, embed_queries: Callable[[Sequence[str]], Vectors]) -> None:
        self._embed_queries = embed_queries
        self._known: dict[str, Vectors] = {}

    def __call__(self, texts: Sequence[str]) -> Vectors:
        """Vectors of at least one text, float32 (n, dimension), in their order."""
        if missing := [text for text in dict.fromkeys(texts) if text not in self._known]:
            self._known.update(zip(missing, self._embed_queries(missing), strict=True))
        return np.stack([self._known[text] for text in texts])
