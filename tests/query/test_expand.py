"""Other wordings of a question, and what they find together."""

from collections.abc import Iterator
from typing import Any

import pytest

from almanac.query.retrieval.request import Retrieved
from almanac.query.retrieval.searching import merge, other_wordings
from almanac.schemas.declaration import Declaration
from almanac.schemas.results import Hit


class _Writes:
    def __init__(self, text: str) -> None:
        self.text = text
        self.asked: list[Any] = []

    def generate(self, messages: Any, **_: Any) -> str:
        self.asked.append(messages)
        return self.text

    def stream(self, messages: Any, **_: Any) -> Iterator[str]:
        yield self.generate(messages)


def test_wordings_are_lines_without_their_numbering() -> None:
    writer = _Writes(
        '1. How do I get a refund?\n- "money back"\n\n* money BACK\nCan I get a refund?\n' + "An answer. " * 50
    )
    assert other_wordings(writer, "Can I get a refund?", 5).lines == ["How do I get a refund?", "money back"]
    assert other_wordings(writer, "Can I get a refund?", 1).lines == ["How do I get a refund?"]
    assert "Can I get a refund?" in writer.asked[0][0]["content"]


def _hit(name: str, score: float) -> Hit:
    return Hit(
        rank=1, chunk_id=name, document_id=name, source="s", url="u", title="t", text="x", start=None, end=None,
        score=score, scores={}, metadata={}, fetched_at="",
    )  # fmt: skip


def test_a_chunk_counts_by_the_wording_that_suits_it_best() -> None:
    merged = merge([Retrieved([_hit("a", 0.9), _hit("b", 0.2)]), Retrieved([_hit("b", 0.95), _hit("c", 0.1)])], 2)
    assert [(hit.rank, hit.chunk_id, hit.score) for hit in merged.hits] == [(1, "b", 0.95), (2, "a", 0.9)]


def test_wordings_need_a_model_that_writes() -> None:
    declared = {"name": "kb", "sources": [{"name": "s", "kind": "files", "glob": "*"}], "retrieve": {"expand": 2}}
    with pytest.raises(ValueError, match=r"retrieve.expand: needs a model"):
        Declaration.model_validate(declared)
    assert (
        Declaration.model_validate(
            {**declared, "generate": {"provider": "mistral", "model": "mistral-small-latest"}}
        ).retrieve.expand
        == 2
    )
