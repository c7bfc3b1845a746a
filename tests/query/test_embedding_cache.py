"""Sentences that were read before, and a question that was just searched for, are not embedded again."""

from collections.abc import Sequence

import numpy as np

from almanac.index.embedding.embedder import Vectors
from almanac.query.models.embedding_cache import CachingEmbedder
from tests.index.conftest import HashEmbedder


def test_a_text_is_embedded_once_and_comes_back_in_its_place() -> None:
    plain = HashEmbedder()
    remembering = CachingEmbedder(plain)
    first = remembering.embed_documents(["a", "b", "a"])
    again = remembering.embed_documents(["c", "b", "a", "c"])
    assert plain.calls == [["a", "b"], ["c"]]
    assert np.array_equal(first, HashEmbedder().embed_documents(["a", "b", "a"]))
    assert np.array_equal(again, HashEmbedder().embed_documents(["c", "b", "a", "c"]))
    assert remembering.embed_documents([]).shape == (0, 16)


def test_what_was_not_asked_for_of_late_is_forgotten() -> None:
    plain = HashEmbedder()
    remembering = CachingEmbedder(plain)
    remembering.embed_documents([str(number) for number in range(8192)])
    remembering.embed_documents(["0", "new"])
    remembering.embed_documents(["0"])
    remembering.embed_documents(["1"])
    assert plain.calls[1:] == [["new"], ["1"]]


def test_a_question_is_embedded_once_and_as_a_question() -> None:
    class Apart(HashEmbedder):
        def embed_queries(self, texts: Sequence[str]) -> Vectors:
            return self.embed_documents([f"query: {text}" for text in texts])

    plain = Apart()
    remembering = CachingEmbedder(plain)
    query_vectors = remembering.embed_queries(["a"])
    remembering.embed_documents(["a"])
    assert np.array_equal(remembering.embed_queries(["b", "a"])[1], query_vectors[0])
    assert plain.calls == [["query: a"], ["a"], ["query: b"]]
    remembering.embed_queries([str(number) for number in range(64)])
    remembering.embed_queries(["a"])
    assert plain.calls[-1] == ["query: a"], "64 are remembered"
