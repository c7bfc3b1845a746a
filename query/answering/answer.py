"""Answers from the hits of one version: by sentences that stand there, or by a model that is held to them. Every answer says what it rests on."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from almanac.index.embedding.embedder import Embedder
from almanac.query.answering.citations import Thresholds, attribute, cite, cite_statements
from almanac.query.answering.extractive import extract
from almanac.query.answering.language import question_language
from almanac.query.answering.markers import CitationFilter, Marked
from almanac.query.answering.pathways import Pathway, choose_pathway, fallback_notice, require_mode
from almanac.query.answering.prompt import Message, make_messages, select_passages
from almanac.query.answering.refusal import UNKNOWN, is_refusal
from almanac.query.answering.sentences import split
from almanac.query.retrieval.relevance import Relevance
from almanac.schemas.declaration import Declaration
from almanac.schemas.errors import OperationalError
from almanac.schemas.reports import Answer, Citation, Hit

if TYPE_CHECKING:
    from almanac.query.models.generators import Generator

__all__ = ["UNKNOWN", "Question", "answer", "stream_answer"]

History = Sequence[Mapping[str, str]]


@dataclass(frozen=True, eq=False)
class Question:
    """One question with all that its answer is made of.

    `hits` come best first and may be answered from; `vector` is the question's unit vector. `lowest` and `confident` are dense cosines: from where on a hit
    counts, and from where on it can be relied on. Without `generator` the reply is made of sentences of the hits. `history` holds earlier messages,
    {role: user | assistant, content}, the oldest first. `near` says by chunk id how near hits are; without it their cosines do.
    """

    declaration: Declaration
    version: str
    text: str
    vector: npt.NDArray[np.float32]
    hits: Sequence[Hit]
    embedder: Embedder
    mode: str
    lowest: float
    confident: float
    generator: "Generator | None" = None
    history: History = ()
    near: Mapping[str, Relevance] = field(default_factory=dict)


def answer(question: Question) -> Answer:
    """The answer, or an explicit "I don't know". Raises UsageError where the mode is kb-llm and there is no generator."""
    *_, last = _Answering(question).reply(is_streamed=False)
    assert isinstance(last, Answer)
    return last


def stream_answer(question: Question) -> Iterator[str | Answer]:
    """As `answer`, in pieces of text as they come, and the Answer as the last item; its `reply` is the pieces put together.

    In mode kb-only nothing is passed on before the first valid citation: what rests on nothing is not said. Errors of use are raised at once.
    """
    return _Answering(question).reply(is_streamed=True)


class _Answering:
    """The way from a question to its answer."""

    def __init__(self, question: Question) -> None:
        self.declaration, self.version, self.embedder = question.declaration, question.version, question.embedder
        self.question, self.vector, self.hits = question.text, question.vector, question.hits
        self.generator, self.history = question.generator, question.history
        require_mode(question.mode, is_generated=question.generator is not None)
        self.thresholds = Thresholds(question.lowest, question.confident, question.near)
        is_confident = any(self.thresholds.confidence(hit) == "high" for hit in question.hits)
        self.pathway: Pathway = choose_pathway(question.mode, is_confident=is_confident)

    @property
    def title(self) -> str:
        return self.declaration.title or self.declaration.name

    def reply(self, *, is_streamed: bool) -> Iterator[str | Answer]:
        if self.pathway == "kb-only" and not self.hits:
            return self._told(UNKNOWN, [])
        if self.generator is None:
            return self._extracted()
        return self._generated(self.generator, is_streamed=is_streamed)

    def _extracted(self) -> Iterator[str | Answer]:
        cuts_words = self.declaration.chunk.by == "words"
        chosen = extract(self.question, self.vector, self.hits, self.embedder, self.declaration.language, cuts_words=cuts_words)
        numbers = {hit: number for number, hit in enumerate(dict.fromkeys(s.hit for s in chosen), start=1)}
        quotes = {s.hit: s.text for s in reversed(chosen)}
        sources = [cite(self.hits[hit], number, quotes[hit], self.thresholds.confidence(self.hits[hit])) for hit, number in numbers.items()]
        return self._told(" ".join(f"{s.text} [{numbers[s.hit]}]" for s in chosen) or UNKNOWN, sources)

    def _generated(self, generator: "Generator", *, is_streamed: bool) -> Iterator[str | Answer]:
        language = question_language(self.question)
        passages = select_passages(self.question, self.hits, self.declaration.language) if self.pathway != "llm-fallback" else []
        messages = make_messages(self.pathway, self.title, self.question, passages, self.history, language)
        notice = f"{fallback_notice(self.title, language)}\n\n" if self.pathway == "llm-fallback" else ""
        shown = {passage.number: passage.hit for passage in passages}
        return self._passed_on(self._written(generator, messages, is_streamed=is_streamed), shown, notice)

    def _passed_on(self, written: Iterable[str], shown: Mapping[int, Hit], notice: str) -> Iterator[str | Answer]:
        """What the model writes, as soon as it is clear that it answers."""
        markers = CitationFilter(len(shown))
        text, said = "", 0  # what the model wrote, filtered, and how much of it was passed on
        for piece in written:
            text += markers.feed(piece)
            if said or self._is_answer(text, markers.marked, is_complete=False):
                yield from _piece(text[said:] if said else notice + text)
                said = len(text)
        text += markers.finish()
        if not text.strip() and not markers.dropped:
            raise OperationalError("the model wrote nothing", where=str(self.declaration.generate.model), hint="ask again, or raise generate.max_tokens")
        if not said and not self._is_answer(text, markers.marked, is_complete=True):
            again = self._attributed(text, shown)
            if again is None:
                yield from self._told(UNKNOWN, [], dropped=markers.dropped)
                return
            text, marked = again
        else:
            marked = markers.marked
        yield from _piece(text[said:] if said else notice + text)
        sources = cite_statements(text, marked, shown, self.embedder, self.declaration.language, self.thresholds)
        yield self._answer(notice + text, sources, dropped=markers.dropped)

    def _written(self, generator: "Generator", messages: list[Message], *, is_streamed: bool) -> Iterable[str]:
        declared = self.declaration.generate
        if is_streamed:
            return generator.stream(messages, temperature=declared.temperature, max_tokens=declared.max_tokens)
        return [generator.generate(messages, temperature=declared.temperature, max_tokens=declared.max_tokens)]

    def _is_answer(self, text: str, marked: Sequence[Marked], *, is_complete: bool) -> bool:
        """Whether a reply, or what there is of it, answers; once true, it stays true.

        In mode kb-only it has to cite, and what comes before the first citation tells whether it says that it does not know. A model that may add what it
        knows only has to say something beside that.
        """
        if self.pathway == "kb-only":
            return bool(marked) and not is_refusal(text[: marked[0].position], is_cited=True)
        sentences = [text[slice(*span)] for span in split(text, "und")]
        return any(not is_refusal(sentence, is_cited=False) for sentence in (sentences if is_complete else sentences[:-1]))

    def _attributed(self, text: str, shown: Mapping[int, Hit]) -> tuple[str, list[Marked]] | None:
        """A reply without any valid citation is no answer from the documents, unless each of its sentences is found again in what the model saw."""
        if self.pathway != "kb-only" or is_refusal(text, is_cited=False):
            return None
        marked = attribute(text, shown, self.declaration.language)
        if marked is None:
            return None
        markers = CitationFilter(len(shown))
        return markers.feed(marked) + markers.finish(), markers.marked

    def _told(self, reply: str, sources: list[Citation], *, dropped: int = 0) -> Iterator[str | Answer]:
        yield reply
        yield self._answer(reply, sources, dropped=dropped)

    def _answer(self, reply: str, sources: list[Citation], *, dropped: int) -> Answer:
        return Answer(
            kb=self.declaration.name,
            version=self.version,
            answered=reply != UNKNOWN,
            reply=reply,
            pathway=self.pathway,
            citation=f"Source: {self.title}" if sources else None,
            sources=sources,
            dropped_citations=dropped,
        )


def _piece(text: str) -> Iterator[str]:
    if text:
        yield text
