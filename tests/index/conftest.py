"""A knowledge base in a temporary directory, and an embedder of a few lines where the model is not the point."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from almanac.core.tables import CHUNKS, chunks_table, write_table
from almanac.index.build.builder import build_here
from almanac.index.build.digest import digest_of
from almanac.index.build.job import BuildJob
from almanac.index.embedding.embedder import Vectors
from almanac.index.vectors.vector_store import VectorStore
from almanac.index.versions.publish import finish_version
from almanac.index.versions.version_store import version_dir
from almanac.schemas.items import ChunkRow
from almanac.schemas.manifest import Counts, Derived, EmbedderInfo, Manifest, Verdict
from tests.index.embedding import embed_missing

INFO = EmbedderInfo(provider="test", model="hash", revision="1", dimension=16, fingerprint="0123456789abcdef")

DERIVED = Derived(language_fit={"": 1.0, "en": 1.0})  # the languages of the rows below


@dataclass
class HashEmbedder:
    """Unit vectors that follow from the text alone; `calls` holds the texts of each request."""

    info: EmbedderInfo = INFO
    calls: list[list[str]] = field(default_factory=list)

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        self.calls.append(list(texts))
        vectors = np.empty((len(texts), self.info.dimension), dtype=np.float32)
        for row, text in zip(vectors, texts, strict=True):
            seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
            row[:] = np.random.default_rng(seed).normal(size=self.info.dimension)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors

    embed_queries = embed_documents


def make_chunks(count: int) -> list[ChunkRow]:
    """Two chunks a document; every tenth text is the one of row 0."""
    return [
        ChunkRow(
            document_id=f"doc{number // 2}", source="notes", url=f"file:///doc{number // 2}",
            title=f"Title {number // 2}", kind="document",
            ordinal=number % 2, start=0, end=10, text=f"text {0 if number % 10 == 0 else number}",
            embedded_text=f"Title. text {0 if number % 10 == 0 else number}",
            metadata={"number": number, "tags": ["a", "b"], "empty": None, "title": "not ours"},
            fetched_at="2026-01-01T00:00:00+00:00",
        )
        for number in range(count)
    ]  # fmt: skip


@dataclass
class Base:
    """Paths of one knowledge base, and the steps up to a version."""

    root: Path

    @property
    def index_dir(self) -> Path:
        return self.root / "index" / "notes"

    @property
    def vectors(self) -> Path:
        return self.root / "vectors"

    @property
    def chunks(self) -> Path:
        return self.root / "processed" / "notes" / CHUNKS

    def embed(self, rows: list[ChunkRow]) -> None:
        write_table(self.chunks, chunks_table(rows))
        embed_missing(self.chunks, VectorStore(self.vectors, INFO), HashEmbedder)

    def job(self, version: str = "v0001", parent: str | None = None) -> BuildJob:
        return BuildJob(
            version_dir=version_dir(self.index_dir, version), kb="notes", collection="notes", language="en",
            chunks=self.chunks,
            vectors_root=self.vectors, embedder=INFO, parent=version_dir(self.index_dir, parent) if parent else None,
        )  # fmt: skip

    def manifest(self, version: str, rows: list[ChunkRow], verdict: Verdict) -> Manifest:
        return Manifest(
            kb="notes", version=version, parent=None, created_at="2026-01-01T00:00:00+00:00", run_id="run1",
            digest=digest_of(chunks_table(rows), INFO.fingerprint), counts=Counts(records=0, documents=len(rows) // 2,
            chunks=len(rows)),
            fingerprints={}, embedder=INFO, derived=DERIVED, declaration_sha256="0" * 64, collection="notes",
            language="en", gate=verdict, lineage={},
            software={}, files=[],
        )  # fmt: skip

    def build(
        self, version: str = "v0001", count: int = 40, *, rows: list[ChunkRow] | None = None, parent: str | None = None
    ) -> Manifest:
        """Embeds, builds and finishes a version whose gate passed. The builder's work is done in this process: its own
        costs a second or two.
        """
        rows = make_chunks(count) if rows is None else rows
        self.embed(rows)
        facts = build_here(self.job(version, parent), lambda *_: None)
        manifest = self.manifest(version, rows, Verdict(verdict="passed", checks=[]))
        return finish_version(self.index_dir, manifest.model_copy(update={"lineage": {"build": facts.model_dump()}}))

    def pretend(self, version: str, passed: bool = True) -> None:
        """A version by its manifest alone: enough for what goes by files."""
        version_dir(self.index_dir, version).mkdir(parents=True)
        verdict = Verdict(verdict="passed" if passed else "refused", checks=[])
        finish_version(self.index_dir, self.manifest(version, [], verdict))


@pytest.fixture
def base(tmp_path: Path) -> Base:
    return Base(tmp_path)


@pytest.fixture
def embedder() -> HashEmbedder:
    return HashEmbedder()


@pytest.fixture
def chunk_rows() -> Callable[[int], list[ChunkRow]]:
    return make_chunks


@pytest.fixture(scope="session")
def distinct_rows() -> list[ChunkRow]:
    """400 chunks, of which no two are the same for a reader; with fewer than some 300, a full build is cheaper than a
    delta.
    """
    return [replace(row, text=f"{row.text} {number}") for number, row in enumerate(make_chunks(400))]


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory, distinct_rows: list[ChunkRow]) -> Base:
    """A base whose v0001 holds these rows. It is for all tests: change a copy."""
    made = Base(tmp_path_factory.mktemp("published"))
    made.build(rows=distinct_rows)
    return made
