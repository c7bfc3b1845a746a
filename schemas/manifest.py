"""The manifests of a version and of a segment: content, origin, and the hashes by which their integrity is verified."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

FORMAT = 10


class _Stored(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class EmbedderInfo(_Stored):
    """Identity of the embedder that made a version's vectors. Only vectors of the same fingerprint are comparable.

    `document_prompt` is part of the fingerprint. `query_prompt` is not, since it does not change the vectors of texts;
    but it affects which hits are found, so a run with another one builds a new version from the stored vectors and
    passes it through the gate.
    """

    provider: str
    model: str
    revision: str
    dimension: int
    metric: Literal["cosine"] = "cosine"
    fingerprint: str
    query_prompt: str = ""  # prepended to each query
    document_prompt: str = ""  # prepended to each text
    # of a local model that embeds texts; part of the fingerprint. Questions are always in float32
    precision: Literal["float32", "bfloat16"] | None = None
    # from which cosine on a hit may be answered from, and is confident, where the package that brings the embedder says
    floor: float | None = None
    confident: float | None = None


class Counts(_Stored):
    """Numbers of records, documents and chunks in a version."""

    records: int
    documents: int
    chunks: int


class Derived(_Stored):
    """Parameters of search that are derived from the chunks of a version. They depend on the set of chunks alone, not
    on the order of rows.
    """

    language_fit: dict[str, float]  # language of chunks ("" where not known) → how well the embedder covers it, 0 to 1


class Curve(_Stored):
    """A logistic curve: the relevance of a hit is 1 / (1 + exp(-(intercept + weights · features))). No weight is
    negative (`query.retrieval.relevance`).
    """

    intercept: float
    cosine: float
    coverage: float
    cosine_margin: float
    coverage_margin: float


class Calibration(_Stored):
    """What makes a relevance of the evidence for a hit, fitted for one embedder.

    `known` is for hits in languages that the embedder covers, `unknown` for hits in others, `foreign` for hits in
    another language than the question's if it covers both. There is no relevance where a curve is None.
    """

    known: Curve
    unknown: Curve | None = None
    foreign: Curve | None = None
    questions: int = 0  # golden questions that it was fitted on


class StoredFile(_Stored):
    """A file of a version that never changes; `path` is relative to the version's directory."""

    path: str
    bytes: int
    sha256: str


class Check(_Stored):
    """One check of the gate. `value` is None where there is nothing to compare with, `limit` is None where the check is
    switched off.

    Checks of expectations may hold texts: a date, or JSON of several values. The limit "warn" lets every value pass,
    and warns of any but 0.
    """

    name: str
    value: float | int | str | None
    limit: float | int | str | None
    ok: bool

    @property
    def warns(self) -> bool:
        """Whether what was found is let pass with a warning, as declared."""
        return self.limit == "warn" and bool(self.value)


class Verdict(_Stored):
    """The gate's decision on a version, with the checks that it is based on."""

    verdict: Literal["passed", "refused"]
    checks: list[Check]


class Sealed(_Stored):
    """What the manifests of a version and of a segment have in common: which content the folder holds, and the files by
    which that is verified.
    """

    format: int = FORMAT
    kb: str
    digest: str
    counts: Counts
    embedder: EmbedderInfo
    derived: Derived
    collection: str
    language: str = "auto"  # as declared; for `auto`, each chunk's language is in its metadata
    lineage: dict[str, Any]
    created_at: str
    files: list[StoredFile]

    @property
    def called(self) -> str:
        """What messages call it."""
        raise NotImplementedError


class Segment(Sealed):
    """Content of a segment's `segment.json`. A folder in `segments/` without this file is not a segment.

    `counts`, `digest` and `derived` are of all its rows, also of those that a version has deleted.
    """

    segment: str

    @property
    def called(self) -> str:
        return f"segment {self.segment}"


class SegmentUse(_Stored):
    """A segment of a version, with the number of its chunks and how many of them the version has deleted."""

    segment: str
    chunks: int
    deleted: int

    @property
    def live(self) -> int:
        """Its chunks that are part of the version."""
        return self.chunks - self.deleted


class Outline(BaseModel):
    """What manifests of all formats say alike: who made the version, and where its rows are. Read with
    `extra="ignore"`.
    """

    model_config = ConfigDict(frozen=True)

    version: str
    run_id: str
    counts: Counts
    segments: list[SegmentUse] = []


class Manifest(Sealed):
    """Content of a version's `manifest.json`. A version directory without this file is not a version.

    `segments` is in the order of the version's rows; it is empty for a version that is its own single segment.
    """

    version: str
    parent: str | None
    run_id: str
    fingerprints: dict[str, str]
    # fitted on the golden questions; None for an embedder that was measured, and with too few questions
    calibration: Calibration | None = None
    declaration_sha256: str
    gate: Verdict
    software: dict[str, str]
    segments: list[SegmentUse] = []

    @property
    def called(self) -> str:
        return self.version
