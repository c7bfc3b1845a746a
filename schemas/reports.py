"""What commands report, as JSON: a stable format for programs."""

from typing import Any, Literal

from pydantic import BaseModel, Field

from almanac.schemas.crawl_outcome import CrawlOutcome, LimitReached, PageCounts
from almanac.schemas.items import Duplicate
from almanac.schemas.manifest import Counts, Verdict

DUPLICATES_REPORTED = 100  # of a run, in its report

# `kept`: the version is complete and verified, but was not published, as requested.
Outcome = Literal["published", "published_with_rejects", "kept", "unchanged", "gate_refused", "no_records", "failed"]


class ItemCounts(BaseModel):
    """Items of a run, compared with the live version. `in_` = added + changed + moved + unchanged + deduplicated +
    quarantined.
    """

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
    # chunks longer than the embedder's limit, which reads only their beginning; None where the limit is not known
    truncated: int | None = None
    tokens: int | None = None  # billed by an API for embedding; None where nothing is billed
    cost: float | None = None  # of these tokens; None where no price is declared


class Recall(BaseModel):
    """Result of the golden questions on a version."""

    # share of the answerable questions whose answer is among the first k hits; None without such questions
    recall: float | None = None
    questions: int = 0  # answerable questions
    answered: int = 0  # of these, questions with a hit good enough to answer from, right or wrong
    missed: list[str] = []  # answerable questions whose answer is not among the first k hits
    unanswerable: int = 0  # questions that the knowledge base has no answer to
    abstained: int = 0  # of these, questions without a hit good enough to answer from


class ExpectationResult(BaseModel):
    """What became of one declared rule on the items of a source; `source` is empty for rules on the items of all
    sources.

    `checked` are the items that were mapped, including those that mapping rejected for what is declared of them.
    `broken` of them are quarantined for this rule, or, with another severity, break it. `also` broke it too, and are
    quarantined for an earlier rule. For a rule on a whole column or table, `checked` are the items left to publish, and
    `value` is what was found; for one on single items that quarantines none, the share of those with a value that
    satisfies it. `error` says why the rule could not be judged.
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
    """Results of all declared rules on the items of a run. `items.quarantined` = `by_expectations` + the counts of
    `otherwise`.
    """

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
    remedies: list[str] = []  # what to declare or to look at where the gate refuses or warns
    limits_reached: list[LimitReached] = []  # that cut crawls short
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


class EmbedderChange(BaseModel):
    """Another embedder than that of the live version, by their models, and how both answer the golden questions in a
    sample of so many chunks; `was` and `live_recall` are the live one's. Where nothing was measured, `sampled` is 0 and
    recall None; `unmeasured` says why, where a sample was wanted. `left_out` counts the questions whose answer is not
    in the sample.
    """

    was: str
    now: str
    sampled: int = 0
    left_out: int = 0
    unmeasured: str | None = None
    recall: Recall | None = None
    live_recall: Recall | None = None


class PlanResult(BaseModel):
    """What a run would do now, with the counts that it would report. `rejects` are the items that it would quarantine,
    as in rejects.jsonl (`Reject`).
    """

    kb: str
    outcome: Outcome
    pages: PageCounts
    items: ItemCounts
    chunks_to_embed: int
    tokens: int | None
    cost: float | None
    seconds: float | None = None  # about what a run would take; None where that cannot be told
    embedder: EmbedderChange | None = None  # None where it is that of the live version
    gate: dict[str, Any]  # {would_refuse, checks}
    remedies: list[str] = []
    limits_reached: list[LimitReached] = []
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
    """Result of a compaction. `version` is the new version, of the same digest as `previous`; the same as `previous`
    where there was nothing to merge.
    """

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


class FoundInstead(BaseModel):
    """A hit that a golden question found in place of what it expects; the fields are those of `Hit`."""

    rank: int
    document_id: str
    url: str
    title: str
    text: str
    passage: str | None
    score: float
    relevance: float | None


class FailedQuestion(BaseModel):
    """A golden question that a version does not meet, with its first hits.

    `expected` has the declared ids, URLs and texts; it is empty for a question that nothing answers, and for which a
    hit was good enough to answer from. `rank` is where what is expected stands among the first 100 hits; None where it
    is not among them.
    """

    question: str
    expected: dict[str, Any]
    rank: int | None
    found: list[FoundInstead]


class EvalResult(BaseModel):
    """Retrieval metrics of a version over a set of queries, by name of the metric. `failed` and `continued` are of
    golden questions, whose unit they are.

    `continued` is the number of golden questions that continue a conversation, and are not asked.
    """

    kb: str
    version: str
    unit: Literal["document", "question"] = "document"
    queries: int
    metrics: dict[str, float]
    failed: list[FailedQuestion] = []
    continued: int = 0


class VersionRow(BaseModel):
    """One version in the list of versions."""

    version: str
    state: Literal["current", "kept", "refused"]
    created_at: str
    parent: str | None
    counts: Counts
    segments: int  # of which it consists
    digest: str
    size_mb: float  # on disk, in 1,000,000 bytes; segments that versions share count in each
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

    `away_since` is when the store answered last, ISO 8601, while it does not answer. `cached` is the version that
    readers of this cache answer from, which is behind where `current` is another.
    """

    url: str
    away: bool
    away_since: str | None = None
    cached: str | None = None


class Status(BaseModel):
    """State of a knowledge base. `running` is the current writer; `stale` and `next_scheduled` are None without a
    schedule.

    While an object store is away, `current` is what the cache has, and `last_run`, `running` and `stale` are not known:
    None. `store` is None for a local directory.
    """

    kb: str
    env: str | None = None
    current: str | None
    last_run: dict[str, Any] | None
    running: dict[str, Any] | None
    stale: bool | None
    next_scheduled: str | None
    store: StoreStatus | None = None
    # of the live version, as far as a quick look tells; None of a version in an object store
    problem: str | None = None


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
