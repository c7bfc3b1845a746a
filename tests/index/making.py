"""Versions of a few pages, made as a run makes them, for what is done with versions afterwards."""

import importlib
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from almanac.core.settings import DataDir
from almanac.core.tables import CHUNKS, DOCUMENTS, RECORDS, chunks_table, items_table, write_table
from almanac.index.build.builder import build_version
from almanac.index.build.digest import digest_of
from almanac.index.build.job import BuildJob, SegmentSpec
from almanac.index.build.planner import PlanJob
from almanac.index.composing.version import build_segmented
from almanac.index.vectors.vector_store import VectorStore
from almanac.index.versions.publish import finish_version
from almanac.index.versions.version_store import version_dir
from almanac.schemas.items import ChunkRow, Item
from almanac.schemas.manifest import Counts, Manifest, Verdict
from tests.index.conftest import DERIVED, INFO, HashEmbedder
from tests.index.embedding import embed_missing

AT = "2026-01-01T00:00:00+00:00"
Texts = Mapping[str, str]  # URL → text
_STARTING = ("almanac.index.build.builder", "almanac.index.upkeep.export_chroma", "almanac.index.verify.verifier")


def item(url: str, text: str) -> Item:
    return Item("pages", "document", url, url, f"Title of {url}", text, {}, {}, f"raw-{text}", AT)


def chunk_of(document: Item) -> ChunkRow:
    text = document.text
    return ChunkRow(
        document.document_id,
        document.source,
        document.url,
        document.title,
        "document",
        0,
        0,
        len(text),
        text,
        f"{document.title}. {text}",
        {},
        AT,
    )


def put_tables(folder: Path, texts: Texts) -> list[ChunkRow]:
    items = [item(url, text) for url, text in texts.items()]
    chunks = [chunk_of(document) for document in items]
    write_table(folder / RECORDS, items_table([]))
    write_table(folder / DOCUMENTS, items_table(items))
    write_table(folder / CHUNKS, chunks_table(chunks))
    return chunks


def manifest_of(kb: str, version: str, chunks: list[ChunkRow], *, passed: bool = True) -> Manifest:
    counts = Counts(records=0, documents=len(chunks), chunks=len(chunks))
    return Manifest(
        kb=kb, version=version, parent=None, created_at=AT, run_id=f"run-{version}",
        digest=digest_of(chunks_table(chunks), INFO.fingerprint), counts=counts,
        fingerprints={"page": "a", "chunker": version}, embedder=INFO, derived=DERIVED, declaration_sha256="0" * 64,
        collection=kb, language="en",
        gate=Verdict(verdict="passed" if passed else "refused", checks=[]), lineage={"crawls": {"pages": "crawl-1"}},
        software={}, files=[],
    )  # fmt: skip


def make_version(data: DataDir, kb: str, version: str, texts: Texts, *, passed: bool = True) -> Manifest:
    """A version as a run makes it, and the tables of that run."""
    chunks = put_tables(data.processed(kb), texts)
    embed_missing(data.processed(kb) / CHUNKS, VectorStore(data.vectors, INFO), HashEmbedder)
    tables = {"chunks": CHUNKS, "records": RECORDS, "documents": DOCUMENTS}
    paths = {name: data.processed(kb) / file for name, file in tables.items()}
    folder = version_dir(data.index(kb), version)
    build_version(
        BuildJob(
            version_dir=folder, kb=kb, collection=kb, language="en", vectors_root=data.vectors, embedder=INFO, **paths
        )
    )
    return finish_version(data.index(kb), manifest_of(kb, version, chunks, passed=passed))


def make_segmented(
    data: DataDir, kb: str, version: str, texts: Texts, *, limit: int, parent: str | None = None
) -> Manifest:
    """A version of several segments, as a run makes it for such an `index.segment`, and the tables of that run."""
    chunks = put_tables(data.processed(kb), texts)
    embed_missing(data.processed(kb) / CHUNKS, VectorStore(data.vectors, INFO), HashEmbedder)
    index_dir = data.index(kb)
    tables = {
        key: data.processed(kb) / file
        for key, file in (("chunks", CHUNKS), ("records", RECORDS), ("documents", DOCUMENTS))
    }
    spec = SegmentSpec(kb=kb, collection=kb, language="en", embedder=INFO, vectors_root=data.vectors)
    since = version_dir(index_dir, parent) if parent else None
    built = build_segmented(
        PlanJob(
            index_dir=index_dir,
            version_dir=version_dir(index_dir, version),
            spec=spec,
            limit=limit,
            parent=since,
            **tables,
        )
    )
    composed = {"segments": list(built.segments), "parent": parent, "lineage": {"build": built.facts.model_dump()}}
    return finish_version(index_dir, manifest_of(kb, version, chunks).model_copy(update=composed))


def child_here(module: str, job: str, on_message: Any, *, until: threading.Event | None = None, **_: Any) -> None:
    """What the child does, in this process: it saves the second that Chroma's import takes, dozens of times."""
    more = () if until is None else iter(partial(until.wait, 0.1), True)
    importlib.import_module(module).work(job, on_message, more)


@contextmanager
def without_children() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module in _STARTING:
            patch.setattr(f"{module}.run_child", child_here)
        patch.setattr("almanac.index.build.child_process.ForkServer.start", lambda *_: None)
        yield
