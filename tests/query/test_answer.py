"""Extractive answers say only what stands in the hits, and cite it."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from index.embedder import Floors
from query.answer import UNKNOWN, extract_answer
from schemas.declaration import Declaration
from schemas.manifest import EmbedderInfo
from schemas.reports import Answer, Hit

_WORDS = ["refund", "days", "fourteen", "visa", "luggage", "kilos", "passport"]
_DECLARATION = Declaration.model_validate({"name": "kb", "title": "The rules", "sources": [{"name": "s", "kind": "files", "glob": "*.md"}]})


class CountingWords:
    """A text's vector counts the words it knows."""

    info = EmbedderInfo(provider="test", model="words", revision="1", dimension=len(_WORDS) + 1, fingerprint="words")
    defaults = Floors(0.1, 0.9)

    def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        rows = np.array([[*(text.lower().count(word) for word in _WORDS), 0.1] for text in texts], dtype=np.float32)
        normal: npt.NDArray[np.float32] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return normal

    embed_queries = embed_documents


def _hit(rank: int, text: str, score: float = 0.95) -> Hit:
    return Hit(
        rank=rank, chunk_id=f"c{rank}", document_id=f"d{rank}", source="s", url=f"u{rank}", title="Rules", text=text, start=0, end=len(text),
        score=score, scores={"dense": score}, metadata={}, fetched_at="",
    )  # fmt: skip


def _ask(question: str, hits: list[Hit]) -> Answer:
    embedder = CountingWords()
    return extract_answer(_DECLARATION, "v0001", embedder.embed_queries([question])[0], hits, embedder, 0.9)


def test_the_sentence_that_answers_is_quoted_with_its_marker() -> None:
    hits = [_hit(1, "Bring your passport. You get a refund within fourteen days. Luggage is free up to twenty kilos.")]
    answer = _ask("refund in how many days?", hits)
    assert answer.answered
    assert answer.reply == "You get a refund within fourteen days. [1]"
    assert (answer.sources[0].quote, answer.sources[0].confidence) == ("You get a refund within fourteen days.", "high")
    assert answer.citation == "Source: The rules"


def test_a_heading_and_a_question_give_context_and_are_never_the_answer() -> None:
    answer = _ask(
        "refund after how many days", [_hit(1, "## Refund\n\nAfter how many days is a refund paid?\n\nFourteen.\n\n## Luggage\n\n- Twenty kilos.", 0.5)]
    )
    assert answer.reply == "Fourteen. [1]"
    assert answer.sources[0].confidence == "medium"


def test_markers_number_the_sources_that_are_cited() -> None:
    answer = _ask("refund days", [_hit(1, "Bring a visa."), _hit(2, "A refund takes days.")])
    assert answer.reply == "A refund takes days. [1]"
    assert [(s.marker, s.document_id) for s in answer.sources] == [("[1]", "d2")]


def test_nothing_above_the_floor_is_an_explicit_no_answer() -> None:
    answer = _ask("anything", [])
    assert (answer.answered, answer.reply, answer.citation, answer.sources) == (False, UNKNOWN, None, [])


def test_every_quote_stands_in_its_hit() -> None:
    hits = [_hit(1, "1. A refund takes fourteen days!\n2. A visa takes days…\n\nTiền hoàn lại sau 14 ngày."), _hit(2, "refund days " * 50)]
    for source in _ask("refund days", hits).sources:
        assert source.quote in source.text
