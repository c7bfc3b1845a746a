"""Embedding cache: the same passages answer many questions, and embedding their sentences takes most of the time of an
answer.
"""

import threading
from collections.abc import Callable, Sequence

import numpy as np
from cachetools import LRUCache

from almanac.core.given_up import require_wanted
from almanac.index.embedding.embedder import Embedder, Vectors
from almanac.schemas.hashing import sha256
from almanac.schemas.manifest import EmbedderInfo

_DOCUMENTS = 8192  # vectors, 13 MB at 384 dimensions
_QUERIES = 64  # a search and the reader of one question ask for the same


class CachingEmbedder:
    """Embedder with a cache of the last 8192 documents and 64 questions around another embedder. Safe to share among
    threads if that one is.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._documents: LRUCache[str, Vectors] = LRUCache(_DOCUMENTS)
        self._queries: LRUCache[str, Vectors] = LRUCache(_QUERIES)
        self._lock = threading.Lock()

    @property
    def info(self) -> EmbedderInfo:
        return self._embedder.info

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        return self._remembered(texts, self._documents, self._embedder.embed_documents)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        return self._remembered(texts, self._queries, self._embedder.embed_queries)

    def _remembered(
        self, texts: Sequence[str], cache: LRUCache[str, Vectors], embed: Callable[[Sequence[str]], Vectors]
    ) -> Vectors:
        require_wanted()
        keys = {text: sha256(text) for text in texts}  # of one length, however long a text is
        with self._lock:
            known = {text: cache[key] for text, key in keys.items() if key in cache}
        if missing := list(dict.fromkeys(text for text in texts if text not in known)):
            # Copies: a view would keep the vectors of the whole batch in memory.
            known.update((text, vector.copy()) for text, vector in zip(missing, embed(missing), strict=True))
        with self._lock:
            cache.update((keys[text], vector) for text, vector in known.items())
        return np.stack([known[text] for text in texts]) if texts else embed([])
