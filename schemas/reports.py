"""JSON output of the commands and the API: a stable format for programs."""

from typing import Any, Literal

from pydantic import BaseModel, Field

from almanac.schemas.items import Duplicate
from almanac.schemas.manifest import Counts, Verdict

DUPLICATES_REPORTED = 100  # of a run, in its report
TEXTS_REPORTED = 20  # of a source
DECLARE_BODY = "say where the text of these pages is: body: {css: …}; almanac test-url KB URL shows what a page gives"

Confidence = Literal["high", "medium", "low"]

# `kept`: the version is complete and verified, but was not published, as requested.
Outcome = Literal["published", "published_with_rejects", "kept", "unchanged", "gate_refused", "no_records", "failed"]


class PageCounts(BaseModel):
    """Outcome of the pages of a run."""

    fetched: int = 0  # received now, or earlier in a crawl that was interrupted
    unchanged: int = 0  # not sent again by the server (304)
    failed: int = 0  # carried over from the previous crawl
    gone: int = 0  # answered 404 or 410, or with what the site shows for a made-up URL
    vanished: int = 0  # in the last run's crawl, but not reachable by any link any more
    refused: int = 0  # excluded by the declaration, a limit or the page itself, with the reason among the failures

    @property
    def present(self) -> int:
        """Number of pages available: fetched or unchanged."""
        return self.fetched + self.unchanged

    def __add__(self, other: "PageCounts") -> "PageCounts":
        return PageCounts(**{name: getattr(self, name) + getattr(other, name) for name in PageCounts.model_fields})


class ItemCounts(BaseModel):
    """Items of a run, compared with the live version. `in_` = added + changed + moved + unchanged + deduplicated + quarantined."""

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
    """Chunks of the version, and the cost of embedding them."""

    total: int = 0
    embedded: int = 0  # texts embedded by this run
    cached: int = 0  # chunks that needed no embedding
    truncated: int | None = None  # chunks longer than the embedder's limit, which reads only their beginning; None where the limit is not known
    tokens: int | None = None  # billed by an API for embedding; None where nothing is billed
    cost: float | None = None  # of these tokens; None where no price is declared


class FailedPage(BaseModel):
    """A page or sitemap that could not be fetched, or a page whose links could not be read.

    `reason` is one of gone, server_error, timeout, unreachable, not_drawn (by the browser) and error, or, for a page excluded by the declaration or a
    limit, refused_by_robots, denied, off_site, private_address, forgotten, too_large or not_text; of files, "unsupported format .xyz", outside_root,
    broken_link, link_loop, not_a_file or same_name. A page that arrived and yields no item, while its links are followed, is noindex (it asks not to be
    indexed), feed or sitemap (a list of links).
    """

    url: str
    reason: str
    status: int | None = None
    detail: str = ""


class SharedText(BaseModel):
    """A main text that different pages have in common: how many pages, and the URLs of the first two. Each is kept, with the text that it alone has."""

    pages: int
    urls: list[str]


class SourceTexts(BaseModel):
    """What extraction made of a source's pages. Lists are bounded to the first TEXTS_REPORTED; `shared_texts` begins with the most frequent."""

    without_text: int = 0  # pages without any text, where no `match` declares that they are items
    shared_texts: list[SharedText] = []
    pages_sharing_text: int = 0  # pages of all shared texts
    pages_with_little_kept: int = 0  # pages of which extraction kept less than a tenth of what is no navigation
    little_kept: list[str] = []  # their URLs


class UnknownUrl(BaseModel):
    """A made-up URL that a site answers with a page, as if it had it. `pages` were dropped as gone because they show the same.

    `shows` is the start page that it is a copy of, which stays; None if it shows something else.
    """

    url: str
    shows: str | None = None
    pages: int = 0


class LeftOut(BaseModel):
    """Documents of one type that pages or sitemaps of a site lead to and that were not fetched: how many, the first two, and why or what to declare."""

    type: str
    documents: int
    urls: list[str]
    remedy: str


class CrawlOutcome(SourceTexts):
    """Outcome of the acquisition of one source, and what became of the texts of its pages.

    `finish` is `finished`; the limit that ended the crawl (`pages`, `bytes`, `seconds`); `partial` where only given URLs were requested; or `reused` where
    the pages of a previous crawl were used without any request. The declared depth does not end a crawl: links beyond it are counted in `beyond_depth`.
    """

    source: str
    crawl: str = ""  # id of the crawl whose pages the run reads: its own, or a previous one where nothing was requested
    finish: str = "finished"
    pages: PageCounts = PageCounts()
    kept: int = 0  # pages carried over from the previous crawl although this crawl did not get them
    vanished: list[str] = []  # URLs of pages dropped because no link leads to them any more
    failures: list[FailedPage] = []
    unknown_urls: list[UnknownUrl] = []  # at most one of each host
    nofollow: int = 0  # pages whose plain links were not followed because they ask for that
    bytes: int = 0  # of the pages available
    beyond_depth: int = 0
    unfollowed: int = 0  # pages that start pages link to, and that were not asked for because a listing or pagination is declared without `follow.allow`
    left_out: list[LeftOut] = []  # documents that were not fetched, by type; the most frequent first
    unqueued: int = 0  # links dropped because the queue already had far more pages than the limit allows


class Recall(BaseModel):
    """Result of the golden questions on a version."""

    recall: float | None = None  # share of the answerable questions whose answer is among the first k hits; None without such questions
    questions: int = 0  # answerable questions
    answered: int = 0  # of these, questions with a hit good enough to answer from, right or wrong
    missed: list[str] = []  # answerable questions whose answer is not among the first k hits
    unanswerable: int = 0  # questions that the knowledge base has no answer to
    abstained: int = 0  # of these, questions without a hit good enough to answer from


class ExpectationResult(BaseModel):
    """What became of one declared rule on the items of a source; `source` is empty for rules on the items of all sources.

    `checked` are the items that were mapped, including those that mapping rejected for what is declared of them. `broken` of them are quarantined for this
    rule, or, with another severity, break it. `also` broke it too, and are quarantined for an earlier rule. For a rule on a whole column or table,
    `checked` are the items left to publish, and `value` is what was found; for one on single items that quarantines none, the share of those with a value
    that satisfies it. `error` says why the rule could not be judged.
    """

    source: str
    field: str
    expectation: str  # name in Great Expectations
    rule: str  # as declared
    severity: Literal["quarantine", "warn", "refuse"]
    checked: int
    broken: int = 0
    also: int = 0
    value: float | int | str | None = None
    limit: float | int | str | None = None
    ok: bool
    error: str | None = None

    @property
    def name(self) -> str:
        """What the gate calls it: `expect_column_mean_to_be_between price`."""
        return " ".join(part for part in (self.expectation, self.field) if part)


class BrokenValue(BaseModel):
    """An item that breaks a rule, with the value that it was judged by."""

    url: str
    document_id: str | None
    value: Any = None


class JudgedExpectation(ExpectationResult):
    """A rule with the first items that break it."""

    samples: list[BrokenValue] = []


class OtherRejects(BaseModel):
    """Items that a stage quarantined for a reason that no declared rule names, such as a line that cannot be read."""

    stage: str
    count: int
    example: str  # URL and reason of the first


class ValidationResults(BaseModel):
    """Results of all declared rules on the items of a run. `items.quarantined` = `by_expectations` + the counts of `otherwise`."""

    kb: str
    run_id: str
    judged_at: str
    items: ItemCounts
    by_expectations: int  # the sum of what the rules broke, of those that quarantine
    otherwise: list[OtherRejects] = []
    expectations: list[JudgedExpectation]


class RunReport(BaseModel):
    """Result of a run."""

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
    stages: dict[str, str] = {}  # fingerprint of each stage, as in the manifest
    inputs: str = ""  # hash of the pages that the items were made from, and of the stages' fingerprints
    stages_changed: list[str] = []  # stages whose fingerprint differs from the live version's
    rejects_file: str | None = None
    duplicates: list[Duplicate] = []  # items dropped because they equal another one: the first 100; the file has all
    duplicates_file: str | None = None
    expectations: list[ExpectationResult] = []
    validation_file: str | None = None  # the results of all expectations, JSON
    validation_page: str | None = None  # the same for people, HTML
    sources: list[CrawlOutcome] = []
    started_at: str = ""
    finished_at: str = ""
    error: dict[str, Any] | None = None


class PlanResult(BaseModel):
    """What a run would do now, with the counts that it would report. `rejects` are the items that it would quarantine, as in rejects.jsonl (`Reject`)."""

    kb: str
    outcome: Outcome
    pages: PageCounts
    items: ItemCounts
    chunks_to_embed: int
    tokens: int | None
    cost: float | None
    gate: dict[str, Any]  # {would_refuse, checks}
    sources: list[CrawlOutcome] = []
    rejects: list[dict[str, Any]] = []


class ItemChange(BaseModel):
    """One item that differs between two versions; `was` is the earlier URL of a moved item."""

    change: Literal["added", "changed", "moved", "removed"]
    source: str
    document_id: str
    url: str
    title: str
    was: str | None = None


class DiffResult(BaseModel):
    """Differences between the versions `since` and `to`. `stages` lists the stages whose fingerprint changed."""

    kb: str
    since: str
    to: str
    items: dict[str, int]  # added, changed, moved, unchanged, removed
    chunks: dict[str, int]  # added, kept, removed
    stages: list[str]
    changes: list[ItemChange]


class PruneResult(BaseModel):
    """What retention removed. `held` lists expired versions that were left because a reader has them open."""

    kb: str
    versions: list[str]
    held: list[str]
    crawls: int
    pages: int  # raw bodies
    vectors: int
    bytes: int


class ForgetResult(BaseModel):
    """Result of a takedown: the numbers of erased objects, and the versions that were cleaned."""

    kb: str
    url: str
    versions: list[str]
    items: int
    chunks: int
    vectors: int
    pages: int  # raw bodies


class RebuildResult(BaseModel):
    """Result of rebuilding a version; its digest stays the same."""

    kb: str
    version: str
    digest: str
    chunks: int
    embedded: int = 0
    seconds: float


class SegmentCounts(BaseModel):
    """Segments of a version before and after a compaction; a version that is its own single segment has one."""

    before: int
    after: int


class CompactResult(BaseModel):
    """Result of a compaction. `version` is the new version, of the same digest as `previous`; the same as `previous` where there was nothing to merge."""

    kb: str
    version: str
    previous: str
    published: bool  # False where another version was made live meanwhile: the new one is kept
    segments: SegmentCounts
    deleted: int  # chunks that segments still had and the version had deleted
    seconds: float


class ExportedChroma(BaseModel):
    """Result of an export to a stock Chroma directory."""

    kb: str
    version: str
    out: str
    collection: str
    chunks: int


class PromoteResult(BaseModel):
    """Result of a promotion to another data directory."""

    kb: str
    version: str
    promoted: str  # the version's name in the data directory `to`
    to: str
    published: bool
    digest: str


class Neighbour(BaseModel):
    """A chunk before or after a hit in the same document."""

    chunk_id: str
    start: int | None
    end: int | None
    text: str


class Hit(BaseModel):
    """A chunk returned by a search.

    `passage` is what there is to read of a record: its declared metadata as labelled lines; None for a chunk of a document, whose `text` is all there is.
    `score` determines the order and depends on the search mode. `scores` has its components; `dense` is the cosine to which score thresholds apply.
    `relevance`, 0 to 1, is how often a hit of this value answers the question; it depends neither on the score nor on the search mode. None where the
    embedder is not calibrated, or the search needed no vector of the question. `confidence` is made of it. `kb` is the knowledge base of the hit where several
    were searched, else None.
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

    @property
    def readable(self) -> str:
        """All that a reader, or a model, is shown of the chunk: its passage, else its text."""
        return self.text if self.passage is None else self.passage


class SearchResult(BaseModel):
    """Hits of a search. `explain` is the trace of the query, a list of {step, ms, …}; None unless requested.

    `note` tells the reader that the embedder hardly knows the language of the query, in that language or in English; None where there is nothing to tell.
    `searched` is the text that was searched for, where it is not the query's: a misspelt word of it was replaced. None where it is.

    Where several knowledge bases were searched, `versions` has the version of each by its name, else None; `kb` and `version` are then those of the best hit,
    of the first base where there is none.
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

    `quote` is the sentence of `text` that supports the statement, verbatim. `relevance` and `confidence` are those of the hit; `confidence` is low where no
    sentence of the chunk is close to the statement. `place` is where the chunk begins in a document with pages, slides or sheets: `p. 4`, `slide 3`,
    `sheet Prices`; `link`, where a reader opens it there, is null where that is `url`. `kb` as in `Hit`.
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

    `sources` are the chunks cited in the reply, by their markers, in order of first mention. `citation` names the knowledge base, None without sources.
    `dropped_citations` counts markers that are removed from a model's reply: of chunks that it was not shown, of chunks that hardly have words of a sentence
    which another one says, and, where it may add what it knows, of chunks that lack a figure of the sentence. `dropped_sentences` counts sentences, list
    items and table rows that are left out of a reply from the documents alone, since a figure in them (a price, a date, an hour) stands in no cited chunk.
    `note` as in `SearchResult`.

    `searched` is the text that was searched for, where it is not the question: it continues an earlier message, or a misspelt word was replaced. `related` are
    the closest passages where `answered` is False, best first; empty where it is True. `answerability` is how likely the hits hold an answer, 0 to 1; None
    where that is not known. `versions`, and `kb` and `version` with it, are as in `SearchResult`.
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


class EvalResult(BaseModel):
    """Retrieval metrics of a version over a set of queries, by name of the metric."""

    kb: str
    version: str
    unit: Literal["document"] = "document"
    queries: int
    metrics: dict[str, float]


class VersionRow(BaseModel):
    """One version in the list of versions."""

    version: str
    state: Literal["current", "kept", "refused"]
    created_at: str
    parent: str | None
    counts: Counts
    segments: int  # of which it consists
    digest: str
    run_id: str
    published_at: str | None  # when it last went live; None where it never did
    override: str | None  # why it did although the gate had refused it


class Versions(BaseModel):
    """The versions of a knowledge base, newest first; `current` is the published one."""

    kb: str
    current: str | None
    versions: list[VersionRow]


class StoreStatus(BaseModel):
    """State of an object store, and of this machine's cache.

    `away_since` is when the store answered last, ISO 8601, while it does not answer. `cached` is the version that readers of this cache answer from, which is
    behind where `current` is another.
    """

    url: str
    away: bool
    away_since: str | None = None
    cached: str | None = None


class Status(BaseModel):
    """State of a knowledge base. `running` is the current writer; `stale` and `next_scheduled` are None without a schedule.

    While an object store is away, `current` is what the cache has, and `last_run`, `running` and `stale` are not known: None. `store` is None for a local
    directory.
    """

    kb: str
    env: str | None = None
    current: str | None
    last_run: dict[str, Any] | None
    running: dict[str, Any] | None
    stale: bool | None
    next_scheduled: str | None
    store: StoreStatus | None = None


class Problem(BaseModel):
    """One difference found by a verification; `verify_version` lists the kinds."""

    kind: str
    where: str
    found: Any = None
    expected: Any = None


class VerifyResult(BaseModel):
    """Result of verifying a version; `ok` is True without problems."""

    kb: str
    version: str
    ok: bool
    problems: list[Problem]
