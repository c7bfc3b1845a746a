"""Answers from the hits of one version, extracted from their sentences or written by a model that has to cite them.
Every answer lists its citations.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from almanac.index.embedding.embedder import Embedder
from almanac.query.answering.answerability import NEAREST, Grounds
from almanac.query.answering.citations import cite, cite_statements
from almanac.query.answering.extractive import extract
from almanac.query.answering.language import reply_language
from almanac.query.answering.links import addresses_in
from almanac.query.answering.markers import as_quoted, without_markers
from almanac.query.answering.pathways import Pathway, choose_pathway, fallback_notice, require_mode
from almanac.query.answering.prompt import Message, make_messages, select_passages
from almanac.query.answering.reading import Reader
from almanac.query.answering.sentences import Sentence
from almanac.query.answering.support import CheckedReply
from almanac.query.answering.unknown import says_unknown, unknown_words
from almanac.schemas.declaration import Declaration
from almanac.schemas.errors import OperationalError
from almanac.schemas.hashing import canonical_json
from almanac.schemas.results import Answer, Citation, Hit, Related

if TYPE_CHECKING:
    from almanac.index.lexical.reader import AnalyzedQuery
    from almanac.query.models.generators import Generator

History = Sequence[Mapping[str, str]]


@dataclass(frozen=True, eq=False)
class Question:
    """A question with everything that is needed to answer it.

    Args:
        declaration: The declaration of the knowledge base.
        version: Version that the hits come from.
        text: The question.
        hits: Hits that may be answered from, best first.
        embedder: Embedder of the version, for what a model's reply cites.
        reader: Reads the sentences of the hits; None where a model writes the reply.
        mode: `kb-only` or `kb-llm`.
        lowest: Score threshold, a dense cosine, from which on hits are answered from.
        is_confident: Whether one of the hits is good enough to add the documents to what a model knows, in mode
            `kb-llm`.
        generator: Model that writes the reply. Default: the reply consists of sentences of the hits.
        history: Earlier messages, oldest first: {role: user | assistant, content}.
        language: BCP 47 tag of the language that a model replies in. Default: that of the question, else that of the
            user's earlier messages.
        note: What the reader is told besides the reply.
        grounds: What speaks for an answer among the hits, and the closest passages for a refusal. Default: nothing is
            known, so `hits` alone decide.
        readings: The question as analyzed for each language of the version, with document frequencies; the fewer texts
            have a word, the more it counts.
        searched: Text that was searched for, and that sentences and passages are picked for, where it is not the
            question.
        parts: Texts that the caller gave beside the question, by name.
    """

    declaration: Declaration
    version: str
    text: str
    hits: Sequence[Hit]
    embedder: Embedder
    reader: Reader | None
    mode: str
    lowest: float
    is_confident: bool = False
    generator: "Generator | None" = None
    history: History = ()
    language: str | None = None
    note: str | None = None
    grounds: Grounds = field(default_factory=lambda: Grounds(decides=False))
    readings: "Sequence[AnalyzedQuery]" = ()
    searched: str | None = None
    parts: Mapping[str, str] | None = None


def answer(question: Question) -> Answer:
    """Answers a question with citations, or with an explicit "I don't know".

    Raises UsageError for an unknown mode, for mode `kb-llm` without a generator, for an unknown language and for a
    malformed message of the history; OperationalError where the model writes nothing; and the errors of the generator
    and of the embedder.
    """
    *_, last = _Answering(question).reply(is_streamed=False)
    assert isinstance(last, Answer)
    return last


def stream_answer(question: Question) -> Iterator[str | Answer]:
    """Answers as `answer` does, in pieces of text as they arrive, then the Answer as the last item; the pieces put
    together are its `reply`.

    Where passages are cited, pieces are whole statements whose figures stand in the passages. In mode `kb-only`,
    nothing is passed on before the first valid citation, since a reply without one is replaced or attributed at its
    end. UsageError is raised by the call itself, errors of the generator by the iterator.
    """
    return _Answering(question).reply(is_streamed=True)


class _Answering:
    """Produces the answer to one question."""

    def __init__(self, question: Question) -> None:
        self.declaration, self.version, self.embedder = question.declaration, question.version, question.embedder
        self.grounds, self.question, self.reader = question.grounds, question.text, question.reader
        self.hits = question.hits if question.generator else self.grounds.to_read(question.hits)
        self.generator, self.history, self.note, self.searched = (
            question.generator,
            question.history,
            question.note,
            question.searched,
        )
        self.parts, self.meant = question.parts, question.searched or question.text
        self.language = reply_language(question.text, question.history, question.language)
        self.unknown = unknown_words(question.declaration, question.text, self.language)
        require_mode(question.mode, is_generated=question.generator is not None)
        self.lowest, self.readings = question.lowest, question.readings
        self.pathway: Pathway = choose_pathway(question.mode, is_confident=question.is_confident)

    @property
    def title(self) -> str:
        return self.declaration.title or self.declaration.name

    def reply(self, *, is_streamed: bool) -> Iterator[str | Answer]:
        """Pieces of text, then the Answer. Prompts and extractive answers are computed by the call, generated text by
        the iterator.
        """
        asks_nothing = not any(c.isalnum() for c in self.question)  # "-" is as near to some passage as a question is
        if self.pathway == "kb-only" and (asks_nothing or not self.hits):
            return self._refused(0.0 if asks_nothing else None)
        if self.generator is None:
            return self._extracted()
        return self._generated(self.generator, is_streamed=is_streamed)

    def _extracted(self) -> Iterator[str | Answer]:
        assert self.reader is not None  # since no model writes the reply
        picked = extract(
            self.question,
            self.hits,
            self.reader,
            self.declaration.language,
            cuts_words=self.declaration.chunk.by == "words",
            readings=self.readings,
            searched=self.searched,
        )
        chosen = [one.sentence for one in picked]
        numbers = {hit: number for number, hit in enumerate(dict.fromkeys(s.hit for s in chosen), start=1)}
        quotes = {one.sentence.hit: one.sentence.text for one in reversed(picked) if not one.is_head}
        sources = [cite(self.hits[hit], number, quotes[hit]) for hit, number in numbers.items()]
        likely = self.grounds.likely(picked)
        if not chosen or self.grounds.is_refused(likely):
            return self._refused(likely)
        reply = " ".join(
            f"{name}{_before_marker(s.text)}[{numbers[s.hit]}]"
            for name, s in zip(_names_before(chosen, self.hits), chosen, strict=True)
        )
        return iter((reply, self._answer(reply, sources, likely=likely)))

    def _generated(self, generator: "Generator", *, is_streamed: bool) -> Iterator[str | Answer]:
        passages = (
            select_passages(self.meant, self.hits, self.declaration.language) if self.pathway != "llm-fallback" else []
        )
        messages = make_messages(
            self.pathway, self.title, self.question, passages, self.history, self.language, self.unknown, self.parts
        )
        notice = f"{fallback_notice(self.title, self.language)}\n\n" if self.pathway == "llm-fallback" else ""
        shown = {passage.number: passage.hit for passage in passages}
        return self._passed_on(self._written(generator, messages, is_streamed=is_streamed), shown, notice)

    def _passed_on(self, written: Iterable[str], shown: Mapping[int, Hit], notice: str) -> Iterator[str | Answer]:
        """The text of the model from the moment at which it is known to be an answer, then the Answer. `shown` maps
        citation numbers to hits.
        """
        reply, said = self._checked(shown), 0  # number of characters of the reply that were passed on
        for piece in written:
            reply.feed(piece)
            if said or self._is_answer(reply, is_complete=False):
                yield from _piece(reply.text[said:] if said else notice + reply.text)
                said = len(reply.text)
        reply.finish()
        if not reply.written and not reply.dropped_citations:
            raise OperationalError(
                "the model wrote nothing",
                where=str(self.declaration.generate.model),
                hint="ask again, or raise generate.max_tokens",
            )
        if not said and self.pathway == "kb-only" and not reply.is_cited and (marked := reply.attributed()):
            again = self._checked(shown)
            again.feed(marked)
            again.finish()
            again.dropped_citations += reply.dropped_citations
            reply = again
        citations, sentences = reply.dropped_citations, reply.dropped_sentences
        if not said and not self._is_answer(reply, is_complete=True):
            yield from self._refused(dropped_citations=citations, dropped_sentences=sentences)
            return
        yield from _piece(reply.text[said:] if said else notice + reply.text)
        sources = cite_statements(reply.said, shown, self.embedder, self.declaration.language, self.lowest)
        yield self._answer(notice + reply.text, sources, dropped_citations=citations, dropped_sentences=sentences)

    def _checked(self, shown: Mapping[int, Hit]) -> CheckedReply:
        """An empty reply, which takes up what its passages support."""
        asked = [
            self.question,
            self.meant,
            *(str(message.get("content", "")) for message in self.history if message.get("role") == "user"),
        ]
        declared = self.declaration.language
        return CheckedReply(
            shown,
            asked,
            self.language or ("und" if declared == "auto" else declared),
            declared,
            None if self.declaration.generate.links else _addresses_of(shown.values()),
            drops_statements=self.pathway == "kb-only",
        )

    def _written(self, generator: "Generator", messages: list[Message], *, is_streamed: bool) -> Iterable[str]:
        declared = self.declaration.generate
        if is_streamed:
            return generator.stream(messages, temperature=declared.temperature, max_tokens=declared.max_tokens)
        return [generator.generate(messages, temperature=declared.temperature, max_tokens=declared.max_tokens)]

    def _is_answer(self, reply: CheckedReply, *, is_complete: bool) -> bool:
        """Whether a reply, so far, is an answer and not a refusal. Once true, it stays true for the rest of the reply.

        A refusal begins with the words that the model was given for it. On the pathway `kb-only`, an answer has a
        citation, and they are looked for before the first one that stands behind words.
        """
        said = without_markers(reply.text)
        if self.pathway == "kb-only":
            begun = (without_markers(reply.text[: mark.position]) for mark in reply.marked)
            said = next(filter(_has_words, begun), said if is_complete and reply.marked else "")
            is_complete = True
        return _has_words(said) and says_unknown(said, self.unknown, is_complete=is_complete) is False

    def _refused(self, likely: float | None = None, **dropped: int) -> Iterator[str | Answer]:
        yield self.unknown
        yield self._answer(self.unknown, [], answered=False, likely=likely, **dropped)

    def _answer(
        self,
        reply: str,
        sources: list[Citation],
        *,
        answered: bool = True,
        likely: float | None = None,
        dropped_citations: int = 0,
        dropped_sentences: int = 0,
    ) -> Answer:
        return Answer(
            kb=self.declaration.name,
            version=self.version,
            answered=answered,
            reply=reply,
            pathway=self.pathway,
            citation=f"Source: {self.title}" if sources else None,
            sources=sources,
            dropped_citations=dropped_citations,
            dropped_sentences=dropped_sentences,
            note=self.note,
            searched=self.searched,
            related=[] if answered else [_related(hit) for hit in self.grounds.closest[:NEAREST]],
            answerability=self.grounds.likely([]) if likely is None else likely,
        )


def _before_marker(text: str) -> str:
    """A quoted sentence with what parts it from its marker: behind code a line end, since nothing else may stand on the
    line that ends code.
    """
    return f"{as_quoted(text)}{chr(10) if text.endswith(('```', '~~~')) else ' '}"


def _names_before(sentences: Sequence[Sentence], hits: Sequence[Hit]) -> list[str]:
    """What goes before each sentence: the title of its record, where the same field is quoted of one with another title
    ("Price: 239 €"), else nothing.
    """
    labels = [s.text.partition(":")[0] if s.is_field else "" for s in sentences]
    titles = [as_quoted(hits[s.hit].title) for s in sentences]
    counts = Counter(label for label, _ in set(zip(labels, titles, strict=True)) if label)
    return [f"{title}, " if title and counts[label] > 1 else "" for label, title in zip(labels, titles, strict=True)]


def _addresses_of(hits: Iterable[Hit]) -> frozenset[str]:
    return addresses_in(
        text
        for hit in hits
        for text in (hit.readable, hit.text, hit.title, hit.url or "", canonical_json(hit.metadata))
    )


def _related(hit: Hit) -> Related:
    return Related(**hit.model_dump(include=set(Related.model_fields)))


def _has_words(text: str) -> bool:
    return any(c.isalnum() for c in text)


def _piece(text: str) -> Iterator[str]:
    if text:
        yield text
