"""What searching and asking give: the JSON of `search`, `ask`, the API and its callers."""

from typing import Any, Literal

from pydantic import BaseModel, Field
from pydantic.json_schema import SkipJsonSchema

Confidence = Literal["high", "medium", "low"]


class Neighbour(BaseModel):
    """A chunk before or after a hit in the same document."""

    chunk_id: str
    start: int | None
    end: int | None
    text: str


class Hit(BaseModel):
    """A chunk returned by a search.

    `passage` is what there is to read of a record: its declared metadata as labelled lines; None for a chunk of a
    document, whose `text` is all there is. `score` determines the order and depends on the search mode. `scores` has
    its components; `dense` is the cosine to which score thresholds apply. `relevance`, 0 to 1, is how often a hit of
    this value answers the question; it depends neither on the score nor on the search mode. None where the embedder is
    not calibrated, or the search needed no vector of the question. `confidence` is made of it. `kb` is the knowledge
    base of the hit where several were searched, else None.
    """

    rank: int
    chunk_id: str
    document_id: str
    source: str
    url: str
    title: str
    text: str
    passage: str | None = None
    tags: list[str] = []  # of the declared `retrieve.tags.field`, else of the metadata field `tags`
    ordinal: int = 0  # its number within the document
    start: int | None
    end: int | None
    score: float
    scores: dict[str, float | None]
    relevance: float | None = None
    confidence: Confidence | None = None
    metadata: dict[str, Any]
    fetched_at: str
    neighbours: list[Neighbour] | None = None
    kb: str | None = None
    # how its sentences are told apart: its BCP 47 tag, `und` where it is not known, and whether it may begin within
    # one, or end
    language: SkipJsonSchema[str] = Field("und", exclude=True)
    begins_anywhere: SkipJsonSchema[bool] = Field(default=False, exclude=True)
    ends_anywhere: SkipJsonSchema[bool] = Field(default=False, exclude=True)

    @property
    def readable(self) -> str:
        """All that a reader, or a model, is shown of the chunk: its passage, else its text."""
        return self.text if self.passage is None else self.passage


class SearchResult(BaseModel):
    """Hits of a search. `explain` is the trace of the query, a list of {step, ms, …}; None unless requested.

    `note` tells the reader that the embedder hardly knows the language of the query, in that language or in English;
    None where there is nothing to tell. `searched` is the text that was searched for, where it is not the query,
    which may continue an earlier question. None where it is.

    Where several knowledge bases were searched, `versions` has the version of each by its name, else None; `kb` and
    `version` are then those of the best hit, of the first base where there is none.
    """

    kb: str
    version: str
    versions: dict[str, str] | None = None
    query: str
    hits: list[Hit]
    note: str | None = None
    searched: str | None = None
    explain: list[dict[str, Any]] | None = None


class ListedDocument(BaseModel):
    """A searchable document or record. `source` is its URL, `chunks` the number of its chunks."""

    source: str
    title: str
    chunks: int


class Citation(BaseModel):
    """A chunk cited in a reply.

    `quote` is the sentence of `text` that supports the statement, verbatim. `relevance` and `confidence` are those of
    the hit; `confidence` is low where no sentence of the chunk is close to the statement. `place` is where the chunk
    begins in a document with pages, slides or sheets: `p. 4`, `slide 3`, `sheet Prices`; `link`, where a reader opens
    it there, is null where that is `url`. `kb` as in `Hit`.
    """

    marker: str
    chunk_id: str
    document_id: str
    url: str
    title: str
    text: str
    score: float
    relevance: float | None = None
    confidence: Confidence | None = None
    quote: str
    tags: list[str] = []
    passage: str | None = None
    metadata: dict[str, Any] = {}
    place: str | None = None
    link: str | None = None
    kb: str | None = None


class Related(BaseModel):
    """A passage that is close to a question without answering it. `relevance` is that of the hit. `kb` as in `Hit`."""

    chunk_id: str
    document_id: str
    url: str
    title: str
    text: str
    relevance: float | None = None
    passage: str | None = None
    kb: str | None = None


class Answer(BaseModel):
    """Answer to a question.

    `sources` are the chunks cited in the reply, by their markers, in order of first mention. `citation` names the
    knowledge base, None without sources. `dropped_citations` counts markers that are removed from a model's reply: of
    chunks that it was not shown, of chunks that hardly have words of a sentence which another one says, and, where it
    may add what it knows, of chunks that lack a figure of the sentence. `dropped_sentences` counts sentences, list
    items and table rows that are left out of a reply from the documents alone, since a figure in them (a price, a date,
    an hour) stands in no cited chunk. `note` as in `SearchResult`.

    `searched` is the text that was searched for, where it is not the question, which may continue an earlier one.
    `related` are the closest passages where `answered` is False, best first; empty where it
    is True. `answerability` is how likely the hits hold an answer, 0 to 1; None where that is not known. `versions`,
    and `kb` and `version` with it, are as in `SearchResult`.
    """

    kb: str
    version: str
    versions: dict[str, str] | None = None
    answered: bool
    reply: str
    pathway: Literal["kb-only", "kb-augmented", "llm-fallback"]
    citation: str | None
    sources: list[Citation]
    dropped_citations: int = 0
    dropped_sentences: int = 0
    note: str | None = None
    searched: str | None = None
    related: list[Related] = []
    answerability: float | None = None
