"""What the commands print as JSON: the shapes that programs may rely on."""

from typing import Any, Literal

from pydantic import BaseModel, Field

from almanac.schemas.manifest import Counts, Verdict

# `kept`: complete and verified, and not made the live one because the run was told so.
Outcome = Literal["published", "published_with_rejects", "kept", "unchanged", "gate_refused", "no_records", "failed"]


class PageCounts(BaseModel):
    """What became of the pages that a run asked for. `fetched` arrived, or had arrived in a crawl that was cut off; `unchanged` ones the server did not
    send again (304); `gone` answered 404 or 410; `vanished` ones the last run had, and no way leads to them any more; what `failed` keeps its place."""

    fetched: int = 0
    unchanged: int = 0
    failed: int = 0
    gone: int = 0
    vanished: int = 0
    refused: int = 0

    @property
    def present(self) -> int:
        """Pages that there are, fetched now or known to be unchanged."""
        return self.fetched + self.unchanged

    def __add__(self, other: "PageCounts") -> "PageCounts":
        return PageCounts(**{name: getattr(self, name) + getattr(other, name) for name in PageCounts.model_fields})


class ItemCounts(BaseModel):
    """`in_` = added + changed + moved + unchanged + deduplicated + quarantined."""

    in_: int = Field(0, alias="in")
    added: int = 0
    changed: int = 0
    moved: int = 0
    unchanged: int = 0
    deduplicated: int = 0
    quarantined: int = 0
    removed: int = 0

    model_config = {"populate_by_name": True}


class ChunkCounts(BaseModel):
    """Chunks of the version. `truncated` are longer than what the embedder reads, which is their beginning; None where its limit is not known."""

    total: int = 0
    embedded: int = 0
    cached: int = 0
    truncated: int | None = None
    tokens: int | None = None  # that an API billed for embedding; None where nothing is billed
    cost: float | None = None  # of these, where a price is declared


class FailedPage(BaseModel):
    """A page or a sitemap that did not arrive, or a page whose links could not be read. `reason` is one of gone, server_error, timeout,
    unreachable, error, and for what was not wanted: refused_by_robots, denied, off_site, private_address, forgotten, too_large, not_text,
    "unsupported format .xyz" (files)."""

    url: str
    reason: str
    status: int | None = None
    detail: str = ""


class CrawlOutcome(BaseModel):
    """What became of one source's acquisition. `finish` says why it ended: finished, or the limit that ended it (pages, bytes, seconds); `partial` where only
    named pages were asked for; `reused` where the pages of an earlier crawl were read again, without a request.

    The declared depth ends nothing, it is how far the road goes: links that lead beyond it are counted in `beyond_depth`.
    """

    source: str
    crawl: str = ""  # whose pages the run reads: its own, or an earlier one where nothing was asked for
    finish: str = "finished"
    pages: PageCounts = PageCounts()
    kept: int = 0  # pages that keep their place although this crawl did not get them
    vanished: list[str] = []  # pages that lose theirs because no way leads to them any more
    failures: list[FailedPage] = []
    without_text: int = 0  # pages in which there was nothing to read, where no `match` says that they are items
    bytes: int = 0  # of the pages that there are
    beyond_depth: int = 0
    unqueued: int = 0  # links that were met while far more pages were waiting than the limit lets through


class Recall(BaseModel):
    """What a version finds of the golden questions. `recall` is the share of the answerable ones whose answer is among the first k hits, None where
    there is no such question. `answered` counts those for which a hit is near enough to answer from, right or wrong; of the others, which nothing here
    answers, `abstained` counts those for which none is."""

    recall: float | None = None
    questions: int = 0  # answerable ones
    answered: int = 0
    missed: list[str] = []
    unanswerable: int = 0
    abstained: int = 0


class RunReport(BaseModel):
    kb: str
    run_id: str
    outcome: Outcome
    exit_code: int
    version: str | None = None
    previous: str | None = None
    pages: PageCounts = PageCounts()
    items: ItemCounts = ItemCounts()
    chunks: ChunkCounts = ChunkCounts()
    gate: Verdict | None = None
    recall: Recall | None = None
    seconds: dict[str, float] = {}
    stages: dict[str, str] = {}  # fingerprints, as in the manifest
    inputs: str = ""  # hash of the pages that the items were made from, and of the stages
    rejects_file: str | None = None
    sources: list[CrawlOutcome] = []
    started_at: str = ""
    finished_at: str = ""
    error: dict[str, Any] | None = None


class PlanResult(BaseModel):
    """What a run would do now; the counts are those that it would report."""

    kb: str
    outcome: Outcome
    pages: PageCounts
    items: ItemCounts
    chunks_to_embed: int
    tokens: int | None
    cost: float | None
    gate: dict[str, Any]  # {would_refuse, checks}
    sources: list[CrawlOutcome] = []


class ItemChange(BaseModel):
    """One item that differs between two versions; `was` is its earlier URL where it moved."""

    change: Literal["added", "changed", "moved", "removed"]
    source: str
    document_id: str
    url: str
    title: str
    was: str | None = None


class DiffResult(BaseModel):
    """How version `to` differs from `since`. `stages` names the stages whose fingerprint changed."""

    kb: str
    since: str
    to: str
    items: dict[str, int]  # added, changed, moved, unchanged, removed
    chunks: dict[str, int]  # added, kept, removed
    stages: list[str]
    changes: list[ItemChange]


class PruneResult(BaseModel):
    """What retention took away. `held` are versions that a reader still has open."""

    kb: str
    versions: list[str]
    held: list[str]
    crawls: int
    pages: int  # raw bodies
    vectors: int
    bytes: int


class ForgetResult(BaseModel):
    """A takedown: what of a URL was erased, and where."""

    kb: str
    url: str
    versions: list[str]
    items: int
    chunks: int
    vectors: int
    pages: int  # raw bodies


class RebuildResult(BaseModel):
    kb: str
    version: str
    digest: str
    chunks: int
    embedded: int = 0
    seconds: float


class PromoteResult(BaseModel):
    kb: str
    version: str
    promoted: str  # what it is called in the data directory `to`
    to: str
    published: bool
    digest: str


class Neighbour(BaseModel):
    """A chunk that stands beside a hit in its document."""

    chunk_id: str
    start: int | None
    end: int | None
    text: str


class Hit(BaseModel):
    """A chunk that was found. `score` orders hits and depends on the mode; `scores` has its parts, of which `dense` is the cosine that floors are about."""

    rank: int
    chunk_id: str
    document_id: str
    source: str
    url: str
    title: str
    text: str
    ordinal: int = 0  # its number within the document
    start: int | None
    end: int | None
    score: float
    scores: dict[str, float | None]
    metadata: dict[str, Any]
    fetched_at: str
    neighbours: list[Neighbour] | None = None


class SearchResult(BaseModel):
    """`explain` is the road of the query, {step, ms, …} each, where it was asked for."""

    kb: str
    version: str
    query: str
    hits: list[Hit]
    explain: list[dict[str, Any]] | None = None


class ListedDocument(BaseModel):
    """A document or record that can be found. `source` is its URL, `chunks` how many pieces of it there are."""

    source: str
    title: str
    chunks: int


class Citation(BaseModel):
    """What a statement rests on. `quote` is the sentence of `text` that bears it, to the character; `confidence` follows from the dense cosine of the
    chunk, and is low where no sentence of it is near the statement."""

    marker: str
    chunk_id: str
    document_id: str
    url: str
    title: str
    text: str
    score: float
    confidence: Literal["high", "medium", "low"]
    quote: str
    tags: list[str] = []


class Answer(BaseModel):
    """`sources` are the chunks that the reply cites, by their markers, in order of first mention. `citation` names the knowledge base where there are any.
    `dropped_citations` counts the markers that a model wrote for what it was not shown; they are not in the reply."""

    kb: str
    version: str
    answered: bool
    reply: str
    pathway: Literal["kb-only", "kb-augmented", "llm-fallback"]
    citation: str | None
    sources: list[Citation]
    dropped_citations: int = 0


class EvalResult(BaseModel):
    kb: str
    version: str
    unit: Literal["document"] = "document"
    queries: int
    metrics: dict[str, float]


class VersionRow(BaseModel):
    version: str
    state: Literal["current", "kept", "refused"]
    created_at: str
    parent: str | None
    counts: Counts
    digest: str
    run_id: str


class Versions(BaseModel):
    kb: str
    current: str | None
    versions: list[VersionRow]


class Status(BaseModel):
    kb: str
    env: str | None = None
    current: str | None
    last_run: dict[str, Any] | None
    running: dict[str, Any] | None
    stale: bool | None
    next_scheduled: str | None


class Problem(BaseModel):
    kind: str
    where: str
    found: Any = None
    expected: Any = None


class VerifyResult(BaseModel):
    kb: str
    version: str
    ok: bool
    problems: list[Problem]
