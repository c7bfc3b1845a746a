"""A search as it was meant: for a question with what it continues, its misspelt words replaced, and in other wordings
where these are declared.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from almanac.index.embedding.embedder import Vectors
from almanac.index.lexical.analyzer import primary_tag
from almanac.query.retrieval.arguments import require_history
from almanac.query.retrieval.follow_up import (
    Found,
    Leaning,
    continued,
    continues,
    earlier_questions,
    leaning_of,
    with_context,
)
from almanac.query.retrieval.query_expansion import expand, merge
from almanac.query.retrieval.question_language import question_language
from almanac.query.retrieval.request import EmbedQueries, Request, Retrieved
from almanac.query.retrieval.retriever import Retriever
from almanac.query.retrieval.rewriting import rewrite
from almanac.query.retrieval.spelling import Respelt, respell
from almanac.schemas.results import Hit

if TYPE_CHECKING:
    from almanac.query.models.generators import Generator

History = Sequence[Mapping[str, str]]
_COMPARED = 3  # hits of a question alone among which the best one with its earlier questions is looked for
_AS_MANY = 0.8  # share of its own best term coverage that a question has in a hit that it fits


class _Asked(NamedTuple):
    """A question as it stands by itself: to search for, to pick sentences for."""

    question: str
    picked_for: str
    last: str | None = None  # what was asked last, where that is a part of it
    is_more: bool = False  # whether it asks for more of the same

    def respelt(self, by: Respelt) -> "_Asked":
        return self._replace(
            question=by.text,
            picked_for=by.applied(self.picked_for),
            last=None if self.last is None else by.applied(self.last),
        )


@dataclass
class Searched:
    """What a search was for, and what it found.

    Args:
        hits: Hits, best first.
        question: The question that was searched for: with what it continues, and its misspelt words replaced.
        picked_for: The same as a text to pick sentences for, which begins with what was asked last.
        picking_vector: Unit vector to pick sentences by, float32 (dimension,): that of the request, moved halfway to
            that of what was asked last, where the question continues another one. None where the search needed none.
        request: The request for it.
        asked: The request for it as it was spelt. What is judged, is judged by it: a replaced word may find, and proves
            nothing.
        closest: As in `Retrieved`, judged by `asked`.
        last: What was asked last, where `picked_for` has earlier questions, too.
        is_more: Whether the question asks for more of what was answered before.
        trace: The steps, as in `Retrieved`.
    """

    hits: list[Hit]
    question: str
    picked_for: str
    picking_vector: Vectors | None
    request: Request
    asked: Request
    closest: list[Hit] = field(default_factory=list)
    last: str | None = None
    is_more: bool = False
    trace: list[dict[str, Any]] = field(default_factory=list)


class Search:
    """Searches for one question in one open version.

    Args:
        retriever: Retriever of the version.
        request_for: Gives the request for a question, without its vector.
        embed_queries: Gives the unit vectors of texts, float32 (n, dimension). None: requests need none.
        beside: Gives what else is to be embedded, together with a question that sentences are picked for.
            `embed_queries` has to remember it.
        expand: Maximum number of other wordings to search for.
        writer: Model that writes other wordings, and rewrites questions that continue others. None: there is none.
    """

    def __init__(
        self,
        retriever: Retriever,
        request_for: Callable[[str], Request],
        embed_queries: EmbedQueries | None,
        *,
        beside: Callable[[str], Sequence[str]] = lambda _: (),
        expand: int = 0,
        writer: "Generator | None" = None,
    ) -> None:
        self._retriever, self._request_for, self._embed_queries, self._beside = (
            retriever,
            request_for,
            embed_queries,
            beside,
        )
        self._expand, self._writer = expand, writer
        self._steps = Retrieved()

    def find(self, question: str, history: History = ()) -> Searched:
        """Searches for a question. `history` has the earlier messages of the conversation, oldest first: {role,
        content}.

        Raises the errors of `Retriever.find`, of the embedder, and CredentialRefused and DeclarationError of the model.
        """
        require_history(history)
        request = self._request_for(question)  # raises errors of use
        asked = self._standing_alone(question, history)
        if asked.question != question:
            request = self._request_for(asked.question)
        respelt = self._respelt(asked.question, request)
        if respelt.replaced:
            asked_as_meant = asked.respelt(respelt)
            request, meant = self._with_vectors(
                request, self._request_for(respelt.text), beside=self._beside(asked_as_meant.picked_for)
            )
            found = self._in_other_wordings(meant)
            found.hits = self._retriever.judge.bearing(request, found.hits, found.rivals)
            found.closest = self._retriever.judge.judged(request, found.closest, found.rivals)
            if found.hits:
                return self._searched(found, asked_as_meant, meant, request)
        (request,) = self._with_vectors(request, beside=self._beside(asked.picked_for))
        return self._searched(self._in_other_wordings(request), asked, request, request)

    def _searched(self, found: Retrieved, meant: _Asked, request: Request, asked: Request) -> Searched:
        vector = request.vector
        if meant.last is not None and vector is not None and self._embed_queries is not None:
            both = vector + self._embed_queries([meant.last])[0]
            vector = both / np.linalg.norm(both)
        trace = [*self._steps.trace, *found.trace]
        return Searched(
            found.hits,
            meant.question,
            meant.picked_for,
            vector,
            request,
            asked,
            found.closest,
            meant.last,
            meant.is_more,
            trace,
        )

    def _standing_alone(self, question: str, history: History) -> _Asked:
        """The question with what it continues."""
        earlier = earlier_questions(history)
        if not earlier:
            return _Asked(question, question)
        with self._steps.step("follow-up") as told:
            leaning = leaning_of(question, earlier[-1])
            if self._writer is not None:
                written = rewrite(self._writer, question, history)
                told.update({"failure": written.failure} if written.question is None else {"written": written.question})
                if written.question is not None:
                    return _Asked(written.question, written.question, is_more=leaning.form == "more")
            together = continued(question, earlier)
            found = self._compared(leaning, question, together)
            is_continued = continues(leaning, found)
            told.update(
                form=leaning.form,
                **({} if found is None else found._asdict()),
                continued=together if is_continued else None,
            )
            if not is_continued:
                return _Asked(question, question)
            if leaning.form == "more":
                return _Asked(together, together, is_more=True)
            return _Asked(together, with_context(question, earlier), last=question)

    def _compared(self, leaning: Leaning, question: str, together: str) -> Found | None:
        """What the question finds alone, and together with the earlier ones; None where that decides nothing, or
        relevance is not known.
        """
        if leaning.form in ("more", "whole"):
            return None
        asked = self._with_vectors(self._request_for(question), self._request_for(together))
        requests = [replace(request, k=_COMPARED, floor=None, thresholds=None) for request in asked]
        alone, both = (self._retriever.find(request).hits for request in requests)
        if not both or both[0].relevance is None or (alone and alone[0].relevance is None):
            return None
        best = max(both, key=lambda hit: hit.relevance or 0.0)
        fits = best.chunk_id in {hit.chunk_id for hit in alone}
        if not fits:
            covered = self._retriever.judge.evidence(
                requests[0].text, dict.fromkeys([best.chunk_id, *(hit.chunk_id for hit in alone)])
            )
            share = covered[best.chunk_id].term_coverage
            fits = share > 0 and share >= _AS_MANY * max(one.term_coverage for one in covered.values())
        return Found(max((hit.relevance or 0.0 for hit in alone), default=0.0), best.relevance or 0.0, fits)

    def _with_vectors(self, *requests: Request, beside: Sequence[str] = ()) -> list[Request]:
        """The requests with the vectors of their texts, where they need one. All is embedded together, and what goes
        `beside`, too.
        """
        if self._embed_queries is None or not requests:
            return list(requests)
        vectors = self._embed_queries([*(request.text for request in requests), *beside])
        return [replace(request, vector=vector) for request, vector in zip(requests, vectors, strict=False)]

    def _respelt(self, question: str, request: Request) -> Respelt:
        retriever = self._retriever
        tags = {question_language(question), *map(primary_tag, retriever.languages.tags)} - {None, "und", ""}
        steps = Retrieved()
        with steps.step("spelling") as told:
            vocabulary = retriever.vocabulary(request.workspace)
            respelt = respell(
                question, vocabulary, retriever.is_indexed, retriever.is_same_word, [tag for tag in tags if tag]
            )
            told["replaced"] = respelt.replaced
        if respelt.replaced:
            self._steps.trace += steps.trace
        return respelt

    def _in_other_wordings(self, request: Request) -> Retrieved:
        """Hits of a request, merged with those of other wordings of its text where these are declared."""
        found = self._retriever.find(request)
        if self._writer is None or not self._expand:
            return found
        with found.step("other wordings") as told:
            expansion = expand(self._writer, request.text, self._expand)
            told.update(expansion.told)
        wordings = expansion.wordings
        others = map(self._retriever.find, self._with_vectors(*(replace(request, text=text) for text in wordings)))
        merged = merge([found, *others], request.k)
        # relevance is that to the question, whatever wording found the hit
        merged.hits = self._retriever.judge.judged(request, merged.hits, merged.rivals)
        return merged
