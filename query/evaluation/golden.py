"""Golden questions: a JSONL file of questions with their expected answers, and the recall of a version on them.

A line is `{"question": …}` with the expected `document_id`, `url` or `answer_contains`, each one text or a list of
alternatives, or, for a question of more than one part, `all_of`: a list with the alternatives of each part. Where
several of these keys are given, one hit has to match all of them. A line with none of them is an unanswerable question,
for which no hit should be found. `history` has the earlier messages of a question that continues a conversation, and
`kind` says what kind of question it is; both are for `benchmarks.answers`.
"""

import difflib
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self
from urllib.parse import unquote

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from almanac.index.embedding.embedder import Vectors
from almanac.index.embedding.score_thresholds import score_thresholds
from almanac.index.reader import OpenVersion
from almanac.query.models.rerank import load_reranker
from almanac.query.retrieval.arguments import compose_query
from almanac.query.retrieval.request import Request, SearchMode
from almanac.query.retrieval.retriever import Retriever
from almanac.schemas.declaration import Declaration
from almanac.schemas.errors import DeclarationError
from almanac.schemas.reports import Recall
from almanac.schemas.results import Hit

_EXPECTED = ("document_id", "url", "answer_contains", "all_of")
_REMARKS = frozenset({"id", "note", "comment", "tags", "language", "kind"})


class Golden(NamedTuple):
    """One golden question. Ids, URLs and the texts of a part are alternatives; what is empty expects nothing."""

    question: str
    document_ids: frozenset[str] = frozenset()
    urls: frozenset[str] = frozenset()  # percent-decoded
    # what a reply has to hold: one text of each part; normalized, see `normalize`
    parts: tuple[tuple[str, ...], ...] = ()
    history: tuple[Mapping[str, str], ...] = ()  # earlier messages, oldest first: {role, content}
    kind: str | None = None

    @property
    def is_answerable(self) -> bool:
        """Whether an answer is expected."""
        return bool(self.document_ids or self.urls or self.parts)

    def is_answered_by(self, hit: Hit) -> bool:
        """Whether a hit matches every kind of expectation: of the texts one, as the parts of an answer may stand in
        different hits.
        """
        return self.is_from(hit.document_id, hit.url) and (not self.parts or self._has_text(hit))

    def is_from(self, document_id: str, url: str) -> bool:
        """Whether a passage is of an expected document and URL. URLs are compared percent-decoded, with or without
        their fragment.
        """
        return (not self.document_ids or document_id in self.document_ids) and (
            not self.urls or not self.urls.isdisjoint((unquote(url), unquote(url.partition("#")[0])))
        )

    def _has_text(self, hit: Hit) -> bool:
        # a record's passage has fields that what is embedded may lack
        shown = [normalize(text) for text in (hit.text, hit.passage) if text]
        return any(text in shown_text for shown_text in shown for part in self.parts for text in part)


def normalize(text: str) -> str:
    """The text normalized for comparison: NFKC, case-folded, single spaces."""
    return " ".join(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()).split())


def load_golden(declaration: Declaration) -> list[Golden]:
    """Reads the declared golden questions; an empty list where `gate.golden` is not declared.

    Raises DeclarationError, with file and line, where the file cannot be read or a line is malformed; also where the
    file is empty, or where the gate measures recall and no question has an expected answer.
    """
    if declaration.gate.golden is None:
        return []
    path = declaration.path.parent / Path(declaration.gate.golden).expanduser()
    golden = [_question(line, f"{path}:{number}") for number, line in enumerate(_lines(path), start=1) if line.strip()]
    needs_answers = declaration.gate.min_recall is not None or declaration.gate.max_recall_drop is not None
    if not any(question.is_answerable for question in without_history(golden)) and (needs_answers or not golden):
        finding = "holds no question"
        if any(question.is_answerable for question in golden):
            finding = "each question with an answer has a history, and recall takes none"
        elif golden:
            finding = "none of its questions says what answers it"
        raise DeclarationError(
            f"gate.golden: {finding}", where=str(path), hint='a line is {"question": "…", "document_id": "…"}'
        )
    return golden


def without_history(golden: Sequence[Golden]) -> list[Golden]:
    """The questions that continue nothing: those that recall is measured and relevance fitted on, which search for a
    question's own words.
    """
    return [question for question in golden if not question.history]


class GoldenOutcome(NamedTuple):
    """A golden question, the first `retrieve.k` hits, and whether one is good enough to answer from, right or wrong."""

    golden: Golden
    hits: list[Hit]
    is_answered: bool

    @property
    def is_met(self) -> bool:
        """Whether a hit is what the question expects, or none is good enough where nothing answers it."""
        return any(map(self.golden.is_answered_by, self.hits)) if self.golden.is_answerable else not self.is_answered


def requests_for(
    declaration: Declaration,
    embed_queries: Callable[[Sequence[str]], Vectors],
    golden: Sequence[Golden],
    *,
    k: int = 1,
    mode: SearchMode | None = None,
) -> list[Request]:
    """Requests for golden questions as the declared `retrieve` searches, or in another `mode`, for at least `k` hits.
    `embed_queries` gives the unit vectors of texts, float32 (n, dimension).
    """
    declared = declaration.retrieve
    texts = [compose_query(declared.query, question.question) for question in golden]
    vectors = embed_queries(texts)
    return [
        Request(text, vector, max(declared.k, k), mode or declared.mode)
        for text, vector in zip(texts, vectors, strict=True)
    ]


def ask_golden(
    declaration: Declaration,
    retriever: Retriever,
    embed_queries: Callable[[Sequence[str]], Vectors],
    golden: Sequence[Golden],
    mode: SearchMode | None = None,
) -> list[GoldenOutcome]:
    """Asks a version the golden questions, as `requests_for` has them. Those with a history are left out."""
    golden, floor = without_history(golden), declaration.retrieve.floor
    default = score_thresholds(retriever.opened.manifest.embedder) if floor is None else None
    return [
        GoldenOutcome(
            question,
            retriever.find(request).hits,
            bool(retriever.find(replace(request, floor=floor, thresholds=default)).hits),
        )
        for question, request in zip(golden, requests_for(declaration, embed_queries, golden, mode=mode), strict=True)
    ]


def measure_recall(
    declaration: Declaration,
    opened: OpenVersion,
    embed_queries: Callable[[Sequence[str]], Vectors],
    golden: Sequence[Golden],
) -> Recall:
    """Measures the recall of a version on golden questions, among the first `retrieve.k` hits: over the answerable
    ones, with those missed, and the numbers of questions that pass the score threshold for answers. Query expansion
    does not take part.
    """
    retriever = Retriever(declaration, opened, embed_queries, load_reranker(declaration))
    return recall_of(ask_golden(declaration, retriever, embed_queries, golden))


def recall_of(outcomes: Sequence[GoldenOutcome]) -> Recall:
    """What became of golden questions, in numbers."""
    answerable = [outcome for outcome in outcomes if outcome.golden.is_answerable]
    missed = [outcome.golden.question for outcome in answerable if not outcome.is_met]
    return Recall(
        recall=round(1 - len(missed) / len(answerable), 6) if answerable else None,
        questions=len(answerable),
        answered=sum(outcome.is_answered for outcome in answerable),
        missed=missed,
        unanswerable=len(outcomes) - len(answerable),
        abstained=sum(outcome.is_met for outcome in outcomes if not outcome.golden.is_answerable),
    )


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise DeclarationError(
            f"not UTF-8: {error.reason} at byte {error.start}", where=str(path), hint="save the file as UTF-8"
        ) from error
    except OSError as error:
        hint = "gate.golden is relative to the declaration; leave it out where there are no golden questions"
        raise DeclarationError(f"gate.golden: cannot be read: {error.strerror}", where=str(path), hint=hint) from error


def _listed(value: Any) -> Any:
    """One text as a list of it; ids may be whole numbers."""
    entries = value if isinstance(value, list) else [value]
    return [str(entry) if isinstance(entry, int) and not isinstance(entry, bool) else entry for entry in entries]


def _require_text(text: str) -> str:
    if not normalize(text):
        raise ValueError("is no text")
    return text


_Text = Annotated[str, AfterValidator(_require_text)]
_Texts = Annotated[list[_Text], BeforeValidator(_listed), Field(min_length=1)]


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid")
    role: Literal["user", "assistant"]
    content: _Text


class _Line(BaseModel):
    """A line of the file. Other keys are remarks, where an answer is expected."""

    model_config = ConfigDict(extra="allow")
    question: _Text | None = None
    query: _Text | None = None
    text: _Text | None = None
    document_id: _Texts | None = None
    url: _Texts | None = None
    answer_contains: _Texts | None = None
    all_of: Annotated[list[_Texts], Field(min_length=1)] | None = None
    history: list[_Message] | None = None
    kind: _Text | None = None

    @model_validator(mode="after")
    def _one_question(self) -> Self:
        if sum(text is not None for text in (self.question, self.query, self.text)) != 1:
            raise ValueError("needs one question: one of question, query and text")
        unknown = sorted((self.model_extra or {}).keys() - _REMARKS)
        if unknown and not (self.document_id or self.url or self.answer_contains or self.all_of):
            # a misspelt expectation would turn an answerable question into an unanswerable one
            close = difflib.get_close_matches(unknown[0], _EXPECTED, 1)
            raise ValueError(
                f"unknown key {unknown[0]}, and no expected answer: "
                + (f"did you mean {close[0]}?" if close else f"one of {', '.join(_EXPECTED)}, or no other key")
            )
        return self


def _question(line: str, where: str) -> Golden:
    try:
        row = _Line.model_validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        keys = ".".join(str(key) for key in first["loc"])
        raise DeclarationError(
            f"{f'{keys}: ' if keys else ''}{first['msg'].removeprefix('Value error, ')}: {line.strip()[:80]!r}",
            where=where,
            hint='a line is {"question": "…", "document_id": "…"}; instead of or beside document_id: url, '
            "answer_contains, or all_of, a list with the alternatives of each part; history is a list of messages, "
            '{"role": "user", "content": "…"}',
        ) from error
    parts = [*([row.answer_contains] if row.answer_contains else []), *(row.all_of or [])]
    return Golden(
        row.question or row.query or row.text or "",
        frozenset(row.document_id or ()),
        frozenset(map(unquote, row.url or ())),
        tuple(tuple(map(normalize, part)) for part in parts),
        tuple(message.model_dump() for message in row.history or ()),
        row.kind,
    )
