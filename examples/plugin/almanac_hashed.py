"""An embedder that knows words by their hashes alone, and a generator that repeats the first passage: what a package
has to bring so that a declaration can name it, and nothing more.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from almanac.core.settings import DataDir
from almanac.query.models.generators import Messages
from almanac.schemas.declaration.embed_section import Embed
from almanac.schemas.declaration.generate import Generate
from almanac.schemas.errors import OperationalError
from almanac.schemas.hashing import sha256
from almanac.schemas.manifest import EmbedderInfo


class HashedWords:
    """Texts that share words get vectors that are near each other. Safe to share among threads."""

    def __init__(self, embed: Embed, data: DataDir | None = None) -> None:  # noqa: ARG002
        """`data` is the data directory, for what processes share, such as limits; None: the environment's."""
        self._info = self.describe(embed)

    @staticmethod
    def describe(embed: Embed) -> EmbedderInfo:
        """The embedder's identity, without loading a model or sending a request. All that changes the vectors of texts
        has to be part of the fingerprint: vectors of two fingerprints are never mixed.
        """
        dimension = int((embed.options or {}).get("dimension", 256))
        return EmbedderInfo(
            provider=embed.provider,
            model="hashed-words",
            revision="1",
            dimension=dimension,
            fingerprint=sha256(f"hashed-words 1 {dimension}")[:16],
            floor=0.1,  # from this cosine on, a hit may be answered from
            confident=0.4,
        )

    @property
    def info(self) -> EmbedderInfo:
        return self._info

    def embed_documents(self, texts: Sequence[str]) -> np.ndarray[Any, np.dtype[np.float32]]:
        """Unit vectors, float32 (n, dimension), in the order of `texts`."""
        return np.array([self._embed(text) for text in texts], dtype=np.float32).reshape(-1, self._info.dimension)

    embed_queries = embed_documents

    def _embed(self, text: str) -> np.ndarray[Any, np.dtype[np.float32]]:
        vector = np.zeros(self._info.dimension, dtype=np.float32)
        for word in re.findall(r"\w+", text.casefold()) or [text]:
            number = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big")
            vector[number % self._info.dimension] += 1
        return vector / np.linalg.norm(vector)


class FirstPassage:
    """Writes what stands in the first passage that it is shown."""

    def __init__(self, generate: Generate, data: DataDir | None = None, *, retry: object = None) -> None:
        """`retry` is how often and how long a request is tried again; a model on this machine needs none."""

    def generate(self, messages: Messages, *, temperature: float, max_tokens: int) -> str:  # noqa: ARG002
        """The reply. What cannot be written is an OperationalError, with a next step as its hint."""
        found = re.search(r"\[1\]\s*(.+?[.!?])(?:\s|$)", messages[-1]["content"], re.DOTALL)
        if found is None:
            raise OperationalError("there is no passage to repeat", where="first", hint="ask from documents")
        return f"{found[1].strip()} [1]"

    def stream(self, messages: Messages, *, temperature: float, max_tokens: int) -> Iterator[str]:
        """The reply in parts."""
        yield self.generate(messages, temperature=temperature, max_tokens=max_tokens)
