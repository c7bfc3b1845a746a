"""Request and response models of the HTTP API; further responses are those of schemas/results.py and
schemas/reports.py.
"""

import math
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, computed_field, model_validator

from almanac.query.answering.pathways import AnswerMode
from almanac.query.retrieval.request import SearchMode
from almanac.schemas.results import Answer, ListedDocument
from almanac.serve.problem_details import BRANCHES, ProblemDetails


class _Request(BaseModel):
    """Base of requests. Unknown names are refused, and values are not converted: "4" is not a number."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def _whole(value: Any) -> Any:
    """Converts floats without a fractional part, since 3.0 is an integer in JSON."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


_KB = Annotated[
    str,
    Field(
        min_length=1,
        max_length=200,
        description="knowledge base: its name or collection; default: INDEX_NAME, or the only one published",
    ),
]
_KBs = Annotated[
    Annotated[_KB, Tag(BRANCHES[0])] | Annotated[list[_KB], Field(min_length=1, max_length=20), Tag(BRANCHES[1])],
    Discriminator(lambda value: BRANCHES[isinstance(value, list)]),
    Field(
        description=(
            "knowledge base, or a list of those that are asked at once; default: INDEX_NAME, or the only one published"
        )
    ),
]
_Workspace = Annotated[
    str,
    Field(
        min_length=1,
        max_length=200,
        description="only what belongs to it, where the knowledge base keeps workspaces apart",
    ),
]
_Version = Annotated[str, Field(pattern=r"^v\d{4,12}$", description="answer from this version, not the live one")]
_Text = Annotated[str, Field(min_length=1, pattern=r"\S", description="at most MAX_INPUT_CHARS characters")]
_Parts = Annotated[
    dict[Annotated[str, Field(max_length=100)], Annotated[str, Field(max_length=1000)]],
    Field(max_length=20, description="texts for the declared query template, by name"),
]
WHERE = (
    'filter on metadata, such as {"price.amount": {"$lte": 100}}; what one entry of a list meets: {"price": '
    '{"$any": {"amount": {"$lte": 100}}}}'
)
_Filter = Annotated[dict[str, Any], Field(description=WHERE)]
_K = Annotated[int, BeforeValidator(_whole), Field(ge=1, le=1000, description="hits; default: the declaration's")]


class Message(_Request):
    """An earlier message of the conversation."""

    role: Literal["user", "assistant"]
    content: str


class ChatOptions(_Request):
    """Options of an answer. Defaults are those of the server's settings, else of the declaration."""

    temperature: float | None = Field(
        None,
        ge=0,
        le=2,
        allow_inf_nan=False,
        description="of the model, where one is declared: 0 is the most likely answer",
    )
    retrieval_k: _K | None = Field(None, alias="retrievalK")
    mode: AnswerMode = Field("kb-only", description="kb-llm: the declared model may add what it knows, and says so")
    language: str | None = Field(
        None,
        min_length=2,
        max_length=35,
        description="BCP 47 tag of the reply's language, where a model is declared; default: the question's",
    )


class ChatRequest(_Request):
    """A question. `history` has the earlier messages of the conversation, oldest first; the server stores none."""

    message: _Text
    kb: _KBs | None = None
    history: list[Message] = Field([], max_length=100)
    workspace: _Workspace | None = None
    options: ChatOptions = ChatOptions()
    where: _Filter | None = None
    floor: float | None = Field(
        None, ge=-1, le=1, allow_inf_nan=False, description="smallest dense cosine that is answered from"
    )
    version: _Version | None = None
    parts: _Parts | None = None
    enable_llm: bool | None = Field(
        None, alias="enableLLM", description="true is options.mode kb-llm, false kb-only; one of the two says it"
    )
    stream: bool = Field(
        False,
        description=(
            "server-sent events: token {text}, then done {the answer}, or error {the problem}; as with Accept: "
            "text/event-stream"
        ),
    )

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"message": "How many days of annual leave do I have?", "kb": "handbook", "options": {"retrievalK": 3}},
                {
                    "message": "And next year?",
                    "kb": "handbook",
                    "history": [
                        {"role": "user", "content": "How many days of leave do I have?"},
                        {"role": "assistant", "content": "28 days. [1]"},
                    ],
                },
            ]
        }
    )

    @model_validator(mode="after")
    def _one_mode(self) -> Self:
        if self.enable_llm is not None and "mode" in self.options.model_fields_set and self.options.mode != self.mode:
            raise ValueError(f"enableLLM and options.mode {self.options.mode} say different things: leave one out")
        return self

    @property
    def mode(self) -> AnswerMode:
        """The mode that is asked for, by whichever name."""
        return self.options.mode if self.enable_llm is None else "kb-llm" if self.enable_llm else "kb-only"


class ChatAnswer(Answer):
    """An answer; `answer` is its `reply`, for clients that know it by that name."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def answer(self) -> str:
        return self.reply


class SearchRequest(_Request):
    """A search. Defaults are those of the declaration; without `floor`, no hit is left out for its cosine."""

    query: _Text
    kb: _KBs | None = None
    k: _K | None = None
    where: _Filter | None = None
    mode: SearchMode | None = None
    floor: float | None = Field(None, ge=-1, le=1, allow_inf_nan=False, description="smallest dense cosine")
    version: _Version | None = None
    workspace: _Workspace | None = None
    parts: _Parts | None = None
    explain: bool = Field(False, description="with the trace of the query, step by step")

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"query": "annual leave", "kb": "handbook", "k": 3, "mode": "hybrid"}]}
    )


class SearchKbRequest(_Request):
    """A search, in short form."""

    query: _Text
    top_k: _K | None = None
    kb: _KBs | None = None
    workspace: _Workspace | None = None
    parts: _Parts | None = None

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"query": "battery charging limit", "top_k": 3, "kb": "products"}]}
    )


class VersionsQuery(BaseModel):
    """Parameters of GET /api/versions."""

    model_config = ConfigDict(extra="forbid")
    kb: _KB | None = None


class SourcesQuery(VersionsQuery):
    """Parameters of GET /api/sources."""

    workspace: _Workspace | None = None
    version: _Version | None = None
    limit: int = Field(100, ge=1, le=1000, description="documents in this answer")
    offset: int = Field(0, ge=0, description="documents before the first of it")


class FoundChunk(BaseModel):
    """A hit in short form. `metadata` has the declared fields and: id (`{source}_{chunk_index}`), source, chunk_index,
    language, url, title, chunk_id.

    Where several knowledge bases are searched, it also has `kb`.
    """

    text: str
    metadata: dict[str, Any]
    score: float


class FoundChunks(BaseModel):
    """Hits in short form. `note` is for the reader, null where there is nothing to tell. `versions` and `searched` as
    in a search.
    """

    kb: str
    version: str
    versions: dict[str, str] | None = None
    chunks: list[FoundChunk]
    note: str | None = None
    searched: str | None = None


class SourcesPage(BaseModel):
    """A page of the documents. `next` is the offset of the next page, null on the last. Request it with this `version`:
    another may be live by then.
    """

    kb: str
    version: str
    items: list[ListedDocument]
    total: int
    next: int | None


class KnowledgeBase(BaseModel):
    """A knowledge base that can be asked. `modes` are those of a chat; `size_mb` is the size of its version on disk,
    null for a key of one workspace.
    """

    kb: str
    title: str
    language: str
    version: str
    modes: list[AnswerMode]
    has_workspaces: bool
    size_mb: float | None


class KnowledgeBases(BaseModel):
    """The knowledge bases that can be asked. `default` answers requests that name none; null where a request has to
    name one.
    """

    items: list[KnowledgeBase]
    default: str | None
    max_input_chars: int


class Health(BaseModel):
    """`store_away_since` is when the object store answered last, ISO 8601, while it does not answer; else it is left
    out.
    """

    status: Literal["ok"] = "ok"
    store_away_since: str | None = None


class Ready(BaseModel):
    """`versions` are answered from, by knowledge base. `behind` has those that are published in an object store and are
    not answered from yet.
    """

    status: Literal["ready"] = "ready"
    versions: dict[str, str]
    behind: dict[str, str] | None = None


class ProblemDocument(BaseModel):
    """Problem details (RFC 9457). `hint` is a next step; `where` is the part of the request that caused the problem."""

    type: str
    title: str
    status: int
    detail: str
    instance: str | None = None
    hint: str | None = None
    where: str | None = None

    model_config = ConfigDict(extra="allow")


def require_short(texts: list[str], most: int, what: str) -> None:
    """Raises ProblemDetails 422 where the texts have more than `most` characters in total. `what` is their name in the
    request.
    """
    length = sum(map(len, texts))
    if length > most:
        raise ProblemDetails(
            422,
            f"the {what} has {length:,} characters, and at most {most:,} are read",
            kind="too-long",
            limit=most,
            where=what,
        )


def require_small_filter(where: Any, depth: int, size: int) -> None:
    """Raises ProblemDetails 422 for a filter of more than `depth` levels or `size` names and values, or with a number
    that is not finite.
    """
    level, count = [where], 0
    for number in range(depth + 2):
        if not level:
            return
        count += len(level)
        if number > depth or count > size:
            raise ProblemDetails(
                422,
                f"a filter of more than {depth} levels or {size} names and values",
                kind="filter-too-large",
                where="where",
            )
        if any(isinstance(node, float) and not math.isfinite(node) for node in level):
            raise ProblemDetails(
                422, "a filter with a number that is not finite", kind="invalid-request", where="where"
            )
        level = [
            inner
            for node in level
            for inner in (node.values() if isinstance(node, dict) else node if isinstance(node, list) else ())
        ]


_Source = Annotated[
    str, Field(min_length=1, max_length=63, description="its source of pushed documents; default: the only one")
]


class PushRequest(_Request):
    """Documents to publish: new ones, and others under ids that are known already, which they replace."""

    kb: _KB
    source: _Source | None = None
    documents: list[dict[str, Any]] = Field(
        min_length=1, max_length=1000, description="JSON objects, with what the source declares as their id"
    )


class RemoveRequest(_Request):
    """Documents to remove, by their ids."""

    kb: _KB
    source: _Source | None = None
    ids: list[str | int] = Field(min_length=1, max_length=1000)


class Pushed(BaseModel):
    """What became of documents that were pushed or removed. The next run publishes it."""

    kb: str
    source: str
    new: int = 0
    changed: int = 0
    same: int = 0
    removed: int = 0
    documents: int = Field(description="that the source has now")
