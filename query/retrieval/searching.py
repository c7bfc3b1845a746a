"""A search as it was meant: for a question with what it continues, and in other wordings where these are declared.

The declared model writes both. It is optional at run time: where it is unreachable, overloaded or returns nothing
usable, the question is searched for without, and the trace and the log contain the reason. Errors that the operator has
to fix (key, model name, address) are raised, since they would otherwise go unnoticed.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, NamedTuple

from almanac.core.logs import get_logger
from almanac.query.retrieval.arguments import require_history
from almanac.query.retrieval.request import EmbedQueries, Request, Retrieved
from almanac.query.retrieval.retriever import Retriever
from almanac.schemas.errors import CredentialRefused, OperationalError
from almanac.schemas.results import Hit

if TYPE_CHECKING:
    from almanac.query.models.generators import Generator

History = Sequence[Mapping[str, str]]
_SHORT = 60  # characters of a question up to which it may continue the last one: "And for a child of ten?"
_LONGEST = 300  # characters of the last question that are searched for, and of a wording; a longer line is an answer
_TOKENS = 60  # maximum of tokens for each wording
_MESSAGES, _CHARACTERS = 6, 600  # of the conversation, the last ones; of each, as a reply may be long
_LONGEST_REWRITTEN, _TOKENS_REWRITTEN = 600, 150  # characters and tokens of a rewritten question; more is an answer
_NUMBERING = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+")
_QUOTES = "\"'«»“”„"
_NOT_EXPANDED = "the question alone is searched for: the model wrote no other wordings"
_NOT_REWRITTEN = "the question is continued by its words: the model did not rewrite it"
_log = get_logger("almanac.search")


class Searched(NamedTuple):
    """The question with what it continues, the request that was made of it, and what that found."""

    question: str
    request: Request
    retrieved: Retrieved


class Written(NamedTuple):
    """Lines that the model wrote; none where it failed, for the reason `failure`."""

    lines: list[str]
    failure: str | None = None


class Search:
    """Searches for one question in one open version.

    `request_for` gives the request for a question, without its vector; `embed_queries` the unit vectors of texts,
    float32 (n, dimension), None where requests need none. `writer` is the model that writes up to `expand` other
    wordings, and rewrites questions that continue others.
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
        questions = self._standing_alone(question, history, steps)
        requests = self._with_vectors(*map(self._request_for, questions))
        retrieved = self._in_other_wordings(requests[0])
        if len(requests) > 1:
            retrieved = merge([retrieved, *map(self._retriever.find, requests[1:])], requests[0].k)
        retrieved.trace = [*steps.trace, *retrieved.trace]
        return Searched(questions[0], requests[0], retrieved)

    def _standing_alone(self, question: str, history: History, steps: Retrieved) -> list[str]:
        """The question with what it continues, first, and what else is searched for.

        As the declared model writes it, by itself; else a short one behind the last question, and alone, since it may
        continue nothing.
        """
        last = _last_question(history)
        if not last:
            return [question]
        with steps.step("follow-up") as facts:
            if self._writer is not None:
                written = rewrite(self._writer, question, history)
                facts.update({"failure": written.failure} if written.failure else {"written": written.lines[0]})
                if written.lines:
                    return written.lines
            is_short = len(question) <= _SHORT
            facts["continued"] = f"{last} {question}" if is_short else None
        return [f"{last} {question}", question] if is_short else [question]

    def _with_vectors(self, *requests: Request) -> list[Request]:
        """The requests with the vectors of their texts, where they need one; all are embedded together."""
        if self._embed_queries is None or not requests:
            return list(requests)
        vectors = self._embed_queries([request.text for request in requests])
        return [replace(request, vector=vector) for request, vector in zip(requests, vectors, strict=True)]

    def _in_other_wordings(self, request: Request) -> Retrieved:
        """Hits of a request, merged with those of other wordings of its text where these are declared."""
        retrieved = self._retriever.find(request)
        if self._writer is None or not self._expand:
            return retrieved
        with retrieved.step("other wordings") as facts:
            written = other_wordings(self._writer, request.text, self._expand)
            facts.update(wordings=written.lines, **({"failure": written.failure} if written.failure else {}))
        requests = self._with_vectors(*(replace(request, text=text) for text in written.lines))
        merged = merge([retrieved, *map(self._retriever.find, requests)], request.k)
        # relevance is that to the question, whatever wording found the hit
        merged.hits = self._retriever.judge.judged(request, merged.hits, merged.rivals)
        return merged


def other_wordings(generator: "Generator", question: str, count: int) -> Written:
    """Asks the model for at most `count` distinct other wordings of a question, in the order written.

    Raises CredentialRefused, and DeclarationError where the server redirects or has no such address or model.
    """
    written = _written(generator, "expand", _TOKENS * count, {"count": count, "question": question}, _NOT_EXPANDED)
    lines = (_NUMBERING.sub("", line).strip().strip(_QUOTES).strip() for line in written.lines)
    distinct = dict[str, str]()
    for line in lines:
        if line and len(line) <= _LONGEST and line.casefold() != question.casefold().strip():
            distinct.setdefault(line.casefold(), line)
    return Written(list(distinct.values())[:count], written.failure)


def rewrite(generator: "Generator", question: str, history: History) -> Written:
    """Asks the model for a question as it stands by itself: one line. `history` is as in `Search.find`; errors are as
    for `other_wordings`.
    """
    conversation = "\n".join(_quoted(message) for message in history[-_MESSAGES:])
    values = {"conversation": conversation, "question": " ".join(question.split())}
    written = _written(generator, "rewrite", _TOKENS_REWRITTEN, values, _NOT_REWRITTEN)
    lines = [line.strip().strip(_QUOTES).strip() for line in written.lines if line.strip()]
    if written.failure or (len(lines) == 1 and lines[0] and len(lines[0]) <= _LONGEST_REWRITTEN):
        return Written(lines, written.failure)
    return _failed(_NOT_REWRITTEN, "the model wrote no single question")


def _written(generator: "Generator", prompt: str, tokens: int, values: Mapping[str, Any], finding: str) -> Written:
    """Lines for a prompt; `finding` is what the log says of a failure."""
    text = (Path(__file__).parent / "prompts" / f"{prompt}.txt").read_text(encoding="utf-8")
    messages = [{"role": "user", "content": Template(text).substitute(values)}]
    try:
        return Written(generator.generate(messages, temperature=0.0, max_tokens=tokens).splitlines())
    except CredentialRefused:
        raise
    except OperationalError as error:
        return _failed(finding, error.message, error.where)


def _failed(finding: str, reason: str, where: str | None = None) -> Written:
    _log.warning(finding, where=where, failure=reason)
    return Written([], reason)


def _quoted(message: Mapping[str, str]) -> str:
    role = "Assistant" if message.get("role") == "assistant" else "User"
    content = message.get("content")
    return f"{role}: {' '.join(content.split())[:_CHARACTERS]}" if isinstance(content, str) else ""


def _last_question(history: History) -> str:
    """What the user asked last; empty where nothing."""
    contents = (message.get("content") for message in reversed(history) if message.get("role") == "user")
    return next(
        (text for content in contents if isinstance(content, str) and (text := " ".join(content.split())[:_LONGEST])),
        "",
    )


def merge(retrievals: Sequence[Retrieved], k: int) -> Retrieved:
    """Merges results: the k best distinct hits, each with its best score, equal scores by chunk id, ranks counted anew;
    the closest ones likewise, as many as one result has; traces are concatenated.

    Hits keep the relevance to the wording that found them; rivals are those of the first result.
    """
    return Retrieved(
        _best_of([hit for retrieved in retrievals for hit in retrieved.hits], k),
        [step for retrieved in retrievals for step in retrieved.trace],
        retrievals[0].rivals,
        _best_of(
            [hit for retrieved in retrievals for hit in retrieved.closest],
            max(len(retrieved.closest) for retrieved in retrievals),
        ),
    )


def _best_of(hits: Sequence[Hit], k: int) -> list[Hit]:
    return ranked(sorted(hits, key=lambda hit: (-hit.score, hit.chunk_id)), k)


def ranked(hits: Iterable[Hit], k: int) -> list[Hit]:
    """The first `k` distinct hits, ranked from 1."""
    first: dict[str, Hit] = {}
    for hit in hits:
        first.setdefault(hit.chunk_id, hit)
    return [hit.model_copy(update={"rank": rank}) for rank, hit in enumerate(list(first.values())[:k], start=1)]
