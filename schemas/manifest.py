"""The manifest of a version: what it holds, where it came from, how to tell that it is whole."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

FORMAT = 3


class _Stored(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class EmbedderInfo(_Stored):
    """What made a version's vectors. Vectors of one fingerprint compare; `document_prompt` is in it.

    `query_prompt` is not: it changes no text's vector. But it decides what is found, so a version whose gate was asked with another one is not the same
    version: a run makes a new one of the kept vectors, and judges it.
    """

    provider: str
    model: str
    revision: str
    dimension: int
    metric: Literal["cosine"] = "cosine"
    fingerprint: str
    query_prompt: str = ""  # put before each question
    document_prompt: str = ""  # put before each text


class Counts(_Stored):
    records: int
    documents: int
    chunks: int


class StoredFile(_Stored):
    path: str
    bytes: int
    sha256: str


class Check(_Stored):
    """One line of the gate's verdict. `value` is None where there is nothing to compare with, `limit` where the check is off."""

    name: str
    value: float | int | None
    limit: float | int | None
    ok: bool


class Verdict(_Stored):
    verdict: Literal["passed", "refused"]
    checks: list[Check]


class Manifest(_Stored):
    """`manifest.json` of a version. A version directory without one is not a version."""

    format: int = FORMAT
    kb: str
    version: str
    parent: str | None
    created_at: str
    run_id: str
    digest: str
    counts: Counts
    fingerprints: dict[str, str]
    embedder: EmbedderInfo
    declaration_sha256: str
    collection: str
    language: str = "auto"  # as declared; where it is `auto`, each chunk's own stands in its metadata
    gate: Verdict
    lineage: dict[str, Any]
    software: dict[str, str]
    files: list[StoredFile]
