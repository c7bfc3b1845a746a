"""Versions of a few pages, made as a run makes them, for what is done with versions afterwards."""

import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from almanac.core.settings import DataDir
from almanac.core.tables import CHUNKS, DOCUMENTS, RECORDS, chunks_table, items_table, read_table, write_table
from almanac.index.build.builder import build_version
from almanac.index.build.digest import digest_of
from almanac.index.build.job import BuildJob
from almanac.index.build.segments import SegmentSpec, make_segments, stage_segment, write_deletions
from almanac.index.segments.store import segment_dir
from almanac.index.vectors.keys import RowNumbers
from almanac.index.vectors.store import VectorStore
from almanac.index.versions.publish import finish_version
from almanac.index.versions.store import read_manifest, version_dir
from almanac.schemas.items import ChunkRow, Item
from almanac.schemas.manifest import Counts, Manifest, SegmentUse, Verdict
from tests.index.conftest import INFO, HashEmbedder, derived
from tests.index.embedding import embed_missing

AT = "2026-01-01T00:00:00+00:00"
Texts = Mapping[str, str]  # URL → text
_NO_ROWS: RowNumbers = np.zeros(0, dtype=np.int64)


def item(url: str, text: str) -> Item:
    return Item("pages", "document", url, url, f"Title of {url}", text, {}, {}, f"raw-{text}", AT)


def chunk_of(one: Item) -> ChunkRow:
    text = one.text
    return ChunkRow(one.document_id, one.source, one.url, one.title, "document", 0, 0, len(text), text, f"{one.title}. {text}", {}, AT)


def put_tables(folder: Path, texts: Texts) -> list[ChunkRow]:
    items = [item(url, text) for url, text in texts.items()]
    chunks = [chunk_of(one) for one in items]
    write_table(folder / RECORDS, items_table([]))
    write_table(folder / DOCUMENTS, items_table(items))
    write_table(folder / CHUNKS, chunks_table(chunks))
    return chunks


def manifest_of(kb: str, version: str, chunks: list[ChunkRow], *, passed: bool = True) -> Manifest:
    counts = Counts(records=0, documents=len(chunks), chunks=len(chunks))
    return Manifest(
        kb=kb, version=version, parent=None, created_at=AT, run_id=f"run-{version}", digest=digest_of(chunks_table(chunks), INFO.fingerprint), counts=counts,
        fingerprints={"page": "a", "chunker": version}, embedder=INFO, derived=derived(chunks), declaration_sha256="0" * 64, collection=kb, language="en",
        gate=Verdict(verdict="passed" if passed else "refused", checks=[]), lineage={"crawls": {"pages": "crawl-1"}}, software={}, files=[],
    )  # fmt: skip


def make_version(data: DataDir, kb: str, version: str, texts: Texts, *, passed: bool = True) -> Manifest:
    """A version as a run makes it, and the tables of that run."""
    chunks = put_tables(data.processed(kb), texts)
    embed_missing(data.processed(kb) / CHUNKS, VectorStore(data.vectors, INFO), HashEmbedder)
    tables = {"chunks": CHUNKS, "records": RECORDS, "documents": DOCUMENTS}
    paths = {name: data.processed(kb) / file for name, file in tables.items()}
    folder = version_dir(data.index(kb), version)
    build_version(BuildJob(version_dir=folder, kb=kb, collection=kb, language="en", vectors_root=data.vectors, embedder=INFO, **paths))
    return finish_version(data.index(kb), manifest_of(kb, version, chunks, passed=passed))


def make_segmented(data: DataDir, kb: str, version: str, texts: Texts, *, size: int, parent: str | None = None) -> Manifest:
    """A version of segments: those of `parent` without what is gone or changed, and new ones of at most `size` chunks with all else."""
    chunks = put_tables(data.processed(kb), texts)
    embed_missing(data.processed(kb) / CHUNKS, VectorStore(data.vectors, INFO), HashEmbedder)
    index_dir = data.index(kb)
    folder, spec = version_dir(index_dir, version), SegmentSpec(kb=kb, collection=kb, language="en", embedder=INFO, vectors_root=data.vectors)
    uses, kept = [], set[str]()
    for use in read_manifest(index_dir, parent).segments if parent else []:
        rows = {CHUNKS: _gone(index_dir, use.segment, CHUNKS, chunks), DOCUMENTS: _gone(index_dir, use.segment, DOCUMENTS, chunks), RECORDS: _NO_ROWS}
        write_deletions(folder, index_dir, use.segment, rows, known=None)
        uses.append(SegmentUse(segment=use.segment, chunks=use.chunks, deleted=len(rows[CHUNKS])))
        urls = read_table(segment_dir(index_dir, use.segment) / CHUNKS, ["url"]).column(0).to_pylist()
        kept |= {url for number, url in enumerate(urls) if number not in rows[CHUNKS]}
    new = [url for url in texts if url not in kept]
    staged = []
    for begin in range(0, len(new), size):
        items = [item(url, texts[url]) for url in new[begin : begin + size]]
        tables = {CHUNKS: [chunks_table([chunk_of(one) for one in items])], RECORDS: [items_table([])], DOCUMENTS: [items_table(items)]}
        staged.append(stage_segment(index_dir, spec, tables))
    make_segments(index_dir, spec, staged)
    uses += [SegmentUse(segment=one.name, chunks=one.counts.chunks, deleted=0) for one in staged]
    folder.mkdir(parents=True, exist_ok=True)
    return finish_version(index_dir, manifest_of(kb, version, chunks).model_copy(update={"segments": uses, "parent": parent}))


def _gone(index_dir: Path, segment: str, table: str, chunks: list[ChunkRow]) -> RowNumbers:
    """Rows of a segment's table whose page is gone, or says something else."""
    said = {(chunk.url, chunk.text) for chunk in chunks}
    rows = read_table(segment_dir(index_dir, segment) / table, ["url", "text"]).to_pylist()
    return np.array([number for number, row in enumerate(rows) if (row["url"], row["text"]) not in said], dtype=np.int64)


def child_here(module: str, job: str, on_message: Any, **_: Any) -> None:
    """What the child does, in this process: it saves the second that Chroma's import takes, dozens of times."""
    importlib.import_module(module)._work(job, on_message)


@contextmanager
def without_children() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("almanac.index.build.builder.run_child", child_here)
        patch.setattr("almanac.index.verify.verifier.run_child", child_here)
        yield
