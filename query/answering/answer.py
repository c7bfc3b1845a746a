"""Answers from the hits of one version, extracted from their sentences or written by a model that has to cite them.
Every answer lists its citations.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from almanac.index.embedding.embedder import Embedder
from almanac.query.answering.answerability import NEAREST, Grounds
from almanac.query.answering.citations import cite, cite_statements
from almanac.query.answering.extractive import extract
from almanac.query.answering.hit_sentences import Sentence
from almanac.query.answering.markers import as_quoted, without_markers
from almanac.query.answering.pathways import Pathway, require_mode
from almanac.query.answering.prompt import Message, make_messages, select_passages
from almanac.query.answering.reading import Reader
from almanac.query.answering.support import CheckedReply, addresses_of
from almanac.query.answering.wording import fallback_notice, reply_language, says_unknown, unknown_words
from almanac.query.retrieval.searching import History
from almanac.schemas.declaration import Declaration
from almanac.schemas.errors import OperationalError
from almanac.schemas.results import Answer, Citation, Hit, Related

if TYPE_CHECKING:
    from almanac.index.lexical.lexical_reader import AnalyzedQuery
    from almanac.query.models.generators import Generator


@dataclass(frozen=True, eq=False)
class Question:
    """A question with everything that is needed to answer it."""

    declaration: Declaration
    version: str  # that the hits come from
    text: str
    hits: Sequence[Hit]  # that may be answered from, best first
    embedder: Embedder  # of the version, for what a model's reply cites
    reader: Reader | None  # of the sentences of the hits; None where a model writes the reply
    mode: str  # `kb-only` or `kb-llm`
    lowest: float  # score threshold, a dense cosine, from which on hits are answered from
    is_confident: bool = False  # whether a hit is good enough to add the documents to what a model knows, in `kb-llm`
    generator: "Generator | None" = None  # without, the reply consists of sentences of the hits
    temperature: float | None = None  # of the generator; None: as declared
    history: History = ()  # earlier messages, oldest first: {role: user | assistant, content}
    language: str | None = None  # BCP 47 tag of a model's reply; None: that of the question, else of earlier messages
    note: str | None = None  # what the reader is told besides the reply
    # What speaks for an answer among the hits, and the closest passages for a refusal; without, `hits` alone decide.
    grounds: Grounds = field(default_factory=lambda: Grounds(decides=False))
    # The question as analyzed for each language of the version, with document frequencies: the fewer texts have a word,
    # the more it counts.
    readings: "Sequence[AnalyzedQuery]" = ()
    searched: str | None = None  # what was searched for, and sentences and passages are picked for, if not `text`
    parts: Mapping[str, str] | None = None  # texts that the caller gave beside the question, by name


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

    Where passages are cited, pieces end with a citation, or a line; their figures stand in the passages. In mode
    `kb-only`, nothing is passed on before the first valid citation, since a reply without one is replaced at its end.
    UsageError is raised by the call itself, errors of the generator by the iterator.
    """
    return _Answering(question).reply(is_streamed=True)


class _Answering:
    """Produces the answer to one question."""

    def __init__(self, question: Question) -> None:
        self.question, self.declaration, self.grounds = question, question.declaration, question.grounds
        self.title = question.declaration.title or question.declaration.name
        self.hits = question.hits if question.generator else self.grounds.to_read(question.hits)
        self.language = reply_language(question.text, question.history, question.language)
        self.unknown = unknown_words(question.declaration, question.text, self.language)
        require_mode(question.mode, is_generated=question.generator is not None)
        self.pathway: Pathway = "kb-only"
        if question.mode != "kb-only":
            self.pathway = "kb-augmented" if question.is_confident else "llm-fallback"

    def reply(self, *, is_streamed: bool) -> Iterator[str | Answer]:
        """Pieces of text, then the Answer. Prompts and extractive answers are computed by the call, generated text by
        the iterator.
        """
        asks_nothing = not _has_words(self.question.text)  # "-" is as near to some passage as a question is
        if self.pathway == "kb-only" and (asks_nothing or not self.hits):
            return self._refused(answerability=0.0 if asks_nothing else self.grounds.likely([]))
        if self.question.generator is None:
            return self._extracted()
        return self._generated(self.question.generator, is_streamed=is_streamed)

    def _extracted(self) -> Iterator[str | Answer]:
        question = self.question
        assert question.reader is not None  # since no model writes the reply
        picked = extract(
            question.text,
            self.hits,
            question.reader,
            readings=question.readings,
            searched=question.searched,
        )
        likely = self.grounds.likely(picked)
        if not picked or self.grounds.is_refused(likely):
            return self._refused(answerability=likely)
        chosen = [pick.sentence for pick in picked]
        numbers = {hit: number for number, hit in enumerate(dict.fromkeys(s.hit for s in chosen), start=1)}
        quotes = {pick.sentence.hit: pick.sentence.text for pick in reversed(picked) if not pick.is_head}
        sources = [cite(self.hits[hit], number, quotes[hit]) for hit, number in numbers.items()]
        reply = " ".join(
            f"{name}{_before_marker(s.text)}[{numbers[s.hit]}]"
            for name, s in zip(_names_before(chosen, self.hits), chosen, strict=True)
        )
        return iter((reply, self._answer(reply, sources, answerability=likely)))

    def _generated(self, generator: "Generator", *, is_streamed: bool) -> Iterator[str | Answer]:
        question, language = self.question, self.declaration.language
        hits = self.hits if self.pathway != "llm-fallback" else []
        budget = self.declaration.generate.passage_tokens
        passages = select_passages(question.searched or question.text, hits, budget=budget)
        messages = make_messages(
            self.pathway,
            self.title,
            question.text,
            passages,
            question.history,
            self.language,
            self.unknown,
            question.parts,
        )
        users = [str(message.get("content", "")) for message in question.history if message.get("role") == "user"]
        shown = {passage.number: passage.hit for passage in passages}
        checked = CheckedReply(
            shown,
            [question.text, question.searched or "", *users],
            self.language or ("und" if language == "auto" else language),
            None if self.declaration.generate.links else addresses_of(shown.values()),
            drops_statements=self.pathway == "kb-only",
        )
        return self._passed_on(self._written(generator, messages, is_streamed=is_streamed), checked, shown)

    def _written(self, generator: "Generator", messages: list[Message], *, is_streamed: bool) -> Iterator[str]:
        declared, is_empty = self.declaration.generate, True
        write = generator.stream if is_streamed else generator.generate
        temperature = declared.temperature if self.question.temperature is None else self.question.temperature
        pieces = write(messages, temperature=temperature, max_tokens=declared.max_tokens)
        for piece in [pieces] if isinstance(pieces, str) else pieces:
            is_empty = is_empty and not piece.strip()
            yield piece
        if is_empty:
            raise OperationalError(
                "the model wrote nothing",
                where=str(declared.model),
                hint="ask again, or raise generate.max_tokens",
            )

    def _passed_on(
        self, written: Iterable[str], checked: CheckedReply, shown: Mapping[int, Hit]
    ) -> Iterator[str | Answer]:
        """The text of the model from the moment at which it is known to be an answer, then the Answer."""
        text, is_answer = "", False
        notice = f"{fallback_notice(self.title, self.language)}\n\n" if self.pathway == "llm-fallback" else ""
        for section in checked.sections(written):
            text += section
            if is_answer:
                yield section
            elif is_answer := self._is_answer(text, checked, is_complete=False):
                yield notice + text
        dropped = {
            "dropped_citations": checked.dropped_citations,
            "dropped_sentences": checked.dropped_sentences,
        }
        if not is_answer:
            if not self._is_answer(text, checked, is_complete=True):
                yield from self._refused(**dropped)
                return
            yield notice + text
        sources = cite_statements(checked.citing_statements, shown, self.question.embedder, self.question.lowest)
        yield self._answer(notice + text, sources, **dropped)

    def _is_answer(self, text: str, checked: CheckedReply, *, is_complete: bool) -> bool:
        """Whether a reply, so far, is an answer and not a refusal. Once true, it stays true for the rest of the reply.

        A refusal begins with the words that the model was given for it. On the pathway `kb-only`, an answer has a
        citation, and they are looked for before the end of the section with the first one.
        """
        plain = without_markers(text)
        if self.pathway == "kb-only":
            if not checked.citing_statements:
                return False
            is_complete = True
        return _has_words(plain) and says_unknown(plain, self.unknown, is_complete=is_complete) is False

    def _refused(self, **known: Any) -> Iterator[str | Answer]:
        yield self.unknown
        related = [
            Related(**hit.model_dump(include=set(Related.model_fields))) for hit in self.grounds.closest[:NEAREST]
        ]
        yield self._answer(self.unknown, [], answered=False, related=related, **known)

    def _answer(self, reply: str, sources: list[Citation], **known: Any) -> Answer:
        return Answer(
            **{
                "kb": self.declaration.name,
                "version": self.question.version,
                "answered": True,
                "reply": reply,
                "pathway": self.pathway,
                "citation": f"Source: {self.title}" if sources else None,
                "sources": sources,
                "note": self.question.note,
                "searched": self.question.searched,
                "answerability": self.grounds.likely([]),
                **known,
            }
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


def _has_words(text: str) -> bool:
    return any(c.isalnum() for c in text)
