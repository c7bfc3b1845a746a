"""What tests of answers share: hits, an embedder that counts words, and a model that writes what the test says."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from almanac.query.answering.answer import Question, answer, stream_answer
from almanac.query.answering.answerability import Grounds
from almanac.query.answering.reading import Reader
from almanac.query.models.generators import Messages
from almanac.query.retrieval.relevance import confidence_in
from almanac.schemas.declaration import Declaration
from almanac.schemas.manifest import EmbedderInfo
from almanac.schemas.results import Answer, Hit

UNKNOWN = "I found no answer to this in The rules."  # of `declared`, to an English question
WORDS = ["refund", "days", "fourteen", "visa", "luggage", "kilos", "passport"]


def declared(**given: Any) -> Declaration:
    sources = [{"name": "s", "kind": "files", "glob": "*.md"}]
    return Declaration.model_validate({"name": "kb", "title": "The rules", "sources": sources, **given})


class CountingWords:
    """A text's vector counts the words it knows."""

    info = EmbedderInfo(provider="test", model="words", revision="1", dimension=len(WORDS) + 1, fingerprint="words")

    def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        rows = np.array([[*(text.lower().count(word) for word in WORDS), 0.1] for text in texts], dtype=np.float32)
        normal: npt.NDArray[np.float32] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return normal

    embed_queries = embed_documents


class Says:
    """A generating model that says what the test says, and keeps what it was asked. In a stream it comes in pieces of
    `size` characters.
    """

    def __init__(self, reply: str, size: int = 3) -> None:
        self.reply, self.size = reply, size
        self.asked: Messages = []

    def generate(self, messages: Messages, *, temperature: float, max_tokens: int) -> str:
        assert (temperature, max_tokens) == (0.2, 500)
        self.asked = messages
        return self.reply

    def stream(self, messages: Messages, *, temperature: float, max_tokens: int) -> Iterator[str]:
        self.generate(messages, temperature=temperature, max_tokens=max_tokens)
        for begin in range(0, len(self.reply), self.size):
            yield self.reply[begin : begin + self.size]


def make_hit(rank: int, text: str, score: float = 0.95, **given: Any) -> Hit:
    fields: dict[str, Any] = {
        "document_id": f"d{rank}",
        "title": "Rules",
        "start": 0,
        "metadata": {},
        "language": "en",
        **given,
    }
    end = None if fields["start"] is None else fields["start"] + len(text)
    fields |= {"score": score, "scores": {"dense": score}, "relevance": score, "confidence": confidence_in(score)}
    return Hit(rank=rank, chunk_id=f"c{rank}", source="s", url=f"u{rank}", text=text, end=end, fetched_at="", **fields)


def question_of(
    question: str, hits: Sequence[Hit], *, declaration: Declaration | None = None, **given: Any
) -> Question:
    embedder, declaration = CountingWords(), declaration or declared()
    language, begins_anywhere = declaration.language, declaration.chunk.by == "words"
    hits = [
        hit.model_copy(
            update={
                "language": hit.metadata.get("language", "und") if language == "auto" else language,
                "begins_anywhere": begins_anywhere,
            }
        )
        for hit in hits
    ]
    how: dict[str, Any] = {
        "reader": Reader(embedder, None, is_multilingual=False),
        "mode": "kb-only",
        "lowest": 0.1,
        "is_confident": any(hit.confidence == "high" for hit in hits),
        "grounds": Grounds(hits, decides=False),
        **given,
    }
    return Question(declaration, "v0001", question, hits, embedder, **how)


def ask(question: str, hits: Sequence[Hit], **given: Any) -> Answer:
    return answer(question_of(question, hits, **given))


def stream(question: str, hits: Sequence[Hit], **given: Any) -> tuple[str, Answer]:
    """The pieces of a streamed answer put together, and the answer."""
    *pieces, last = stream_answer(question_of(question, hits, **given))
    assert isinstance(last, Answer)
    return "".join(map(str, pieces)), last
