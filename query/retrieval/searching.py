"""A search as it was meant: for a question with what it continues, and in other wordings where these are declared."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from almanac.query.retrieval.arguments import require_history
from almanac.query.retrieval.query_expansion import expand, merge
from almanac.query.retrieval.request import EmbedQueries, Request, Retrieved
from almanac.query.retrieval.retriever import Retriever
from almanac.query.retrieval.rewriting import rewrite
from almanac.schemas.results import Hit

if TYPE_CHECKING:
    from almanac.query.models.generators import Generator

History = Sequence[Mapping[str, str]]
_SHORT = 60  # characters of a question up to which it may continue the last one: "And for a child of ten?"
_LONGEST = 300  # characters of the last question that are searched for


@dataclass
class Searched:
    """What a search was for, and what it found.

    Args:
        hits: Hits, best first.
        question: The question that was searched for, with what it continues.
        request: The request for it.
        closest: As in `Retrieved`.
        trace: The steps, as in `Retrieved`.
    """

    hits: list[Hit]
    question: str
    request: Request
    closest: list[Hit] = field(default_factory=list)
    trace: list[dict[str, Any]] = field(default_factory=list)


class Search:
    """Searches for one question in one open version.

    Args:
        retriever: Retriever of the version.
        request_for: Gives the request for a question, without its vector.
        embed_queries: Gives the unit vectors of texts, float32 (n, dimension). None: requests need none.
        expand: Maximum number of other wordings to search for.
        writer: Model that writes other wordings, and rewrites questions that continue others. None: there is none.
    """

    def __init__(
        self,
        retriever: Retriever,
        request_for: Callable[[str], Request],
        embed_queries: EmbedQueries | None,
        *,
        expand: int = 0,
        writer: "Generator | None" = None,
    ) -> None:
        self._retriever, self._request_for, self._embed_queries = retriever, request_for, embed_queries
        self._expand, self._writer = expand, writer

    def find(self, question: str, history: History = ()) -> Searched:
        """Searches for a question. `history` has the earlier messages of the conversation, oldest first: {role,
        content}.

        Raises the errors of `Retriever.find`, of the embedder, and CredentialRefused and DeclarationError of the model.
        """
        require_history(history)
        self._request_for(question)  # raises errors of use
        steps = Retrieved()
        asked = self._standing_alone(question, history, steps)
        requests = self._with_vectors(*map(self._request_for, asked))
        found = (
            merge([self._in_other_wordings(requests[0]), *map(self._retriever.find, requests[1:])], requests[0].k)
            if len(requests) > 1
            else self._in_other_wordings(requests[0])
        )
        return Searched(found.hits, asked[0], requests[0], found.closest, [*steps.trace, *found.trace])

    def _standing_alone(self, question: str, history: History, steps: Retrieved) -> list[str]:
        """The question with what it continues, first, and what else is searched for.

        As the declared model writes it, by itself; else a short one behind the last question, and alone, since it may
        continue nothing.
        """
        last = _last_question(history)
        if not last:
            return [question]
        with steps.step("follow-up") as told:
            if self._writer is not None:
                written = rewrite(self._writer, question, history)
                told.update({"failure": written.failure} if written.question is None else {"written": written.question})
                if written.question is not None:
                    return [written.question]
            is_short = len(question) <= _SHORT
            told["continued"] = f"{last} {question}" if is_short else None
        return [f"{last} {question}", question] if is_short else [question]

    def _with_vectors(self, *requests: Request) -> list[Request]:
        """The requests with the vectors of their texts, where they need one; all are embedded together."""
        if self._embed_queries is None or not requests:
            return list(requests)
        vectors = self._embed_queries([request.text for request in requests])
        return [replace(request, vector=vector) for request, vector in zip(requests, vectors, strict=True)]

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


def _last_question(history: History) -> str:
    """What the user asked last; empty where nothing."""
    asked = (message.get("content") for message in reversed(history) if message.get("role") == "user")
    return next((text for one in asked if isinstance(one, str) and (text := " ".join(one.split())[:_LONGEST])), "")
