"""What takes long in a request lets others have its turn: what is made once for a version, what models compute, and
what is fetched.
"""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from almanac.core.turns import Turns
from almanac.index.embedding.embedder import LocalEmbedder
from almanac.index.reader import OpenVersion
from almanac.query import open_index
from almanac.query.models.rerank import CrossEncoderReranker
from almanac.query.retrieval.spelling import Vocabulary
from tests.index.small_models import save_cross_encoder, save_embedder
from tests.query.small_base import SmallBase

_LONG = (
    (OpenVersion, "__init__"),
    (OpenVersion, "coded_column"),
    (LocalEmbedder, "embed_queries"),
    (LocalEmbedder, "embed_documents"),
    (CrossEncoderReranker, "scores"),
    (CrossEncoderReranker, "count_cut"),
)  # fmt: skip


@pytest.mark.slow
def test_what_takes_long_lets_others_have_its_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    turns, seen = Turns(1), Counter[tuple[str, int]]()

    def noting(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*given: Any, **named: Any) -> Any:
            seen[name, turns._free] += 1
            return call(*given, **named)

        return noted

    save_embedder(tmp_path / "models" / "embedder")
    save_cross_encoder(tmp_path / "models" / "reranker")
    base = SmallBase(tmp_path)
    path = base.publish(
        embed={"model": "./models/embedder"}, retrieve={"rerank": {"model": "./models/reranker", "candidates": 3}}
    )
    for of, name in _LONG:
        monkeypatch.setattr(of, name, noting(f"{of.__name__}.{name}", getattr(of, name)))
    words = vars(Vocabulary)["_words"]
    monkeypatch.setattr(words, "_compute", noting("Vocabulary", words._compute))
    with open_index(path, data=base.data) as index, turns.taken():
        for _ in range(2):
            index.search("When does the gardenn close?", where={"kind": {"$ne": "x"}, "source": {"$ne": "y"}})
            index.ask("When does the garden close?")
        assert turns._free == 0
    assert {name for name, _ in seen} == {"Vocabulary", *(f"{of.__name__}.{name}" for of, name in _LONG)}
    assert {free for _, free in seen} == {1}
