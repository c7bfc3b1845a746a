"""Versions of several segments: what a refresh writes, what it takes over, what it merges."""

import random
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

from almanac.core.settings import DataDir
from almanac.core.tables import CHUNKS, DOCUMENTS, RECORDS
from almanac.index.build.job import SegmentSpec
from almanac.index.build.planner import PlanJob
from almanac.index.build.policy import Size, rows_each, to_merge
from almanac.index.composing.version import SegmentedBuild, build_segmented
from almanac.index.segments.deleted import deleted_rows
from almanac.index.segments.segment_store import read_segment, remove_unnamed_segments, segment_dir
from almanac.index.segments.version_tables import VersionTables
from almanac.index.vectors.vector_store import VectorStore
from almanac.index.verify.verifier import verify_version
from almanac.index.versions.publish import finish_version
from almanac.index.versions.version_store import discard_unfinished, next_version, version_dir
from almanac.schemas.manifest import Manifest
from tests.index.conftest import INFO, HashEmbedder
from tests.index.embedding import embed_missing
from tests.index.making import manifest_of, put_tables, without_children

KB, LIMIT = "pages", 20


@pytest.fixture(autouse=True)
def _in_this_process() -> Iterator[None]:
    with without_children():
        yield


def spec_of(data: DataDir) -> SegmentSpec:
    return SegmentSpec(kb=KB, collection=KB, language="en", embedder=INFO, vectors_root=data.vectors)


def refresh(
    data: DataDir, texts: Mapping[str, str], parent: str | None = None, *, limit: int = LIMIT
) -> tuple[Manifest, SegmentedBuild]:
    """A version of these texts, as a run makes it."""
    chunks = put_tables(data.processed(KB), texts)
    embed_missing(data.processed(KB) / CHUNKS, VectorStore(data.vectors, INFO), HashEmbedder)
    index_dir = data.index(KB)
    discard_unfinished(index_dir)
    name = next_version(index_dir)
    paths = {"chunks": CHUNKS, "records": RECORDS, "documents": DOCUMENTS}
    tables = {key: data.processed(KB) / file for key, file in paths.items()}
    since = version_dir(index_dir, parent) if parent else None
    built = build_segmented(
        PlanJob(
            index_dir=index_dir,
            version_dir=version_dir(index_dir, name),
            spec=spec_of(data),
            limit=limit,
            parent=since,
            **tables,
        )
    )
    manifest = manifest_of(KB, name, chunks).model_copy(
        update={"segments": list(built.segments), "lineage": {"build": built.facts.model_dump()}}
    )
    return finish_version(index_dir, manifest), built


def texts_of(count: int, first: int = 0) -> dict[str, str]:
    return {
        f"https://example.org/{number}": f"text number {number} about {number % 7}"
        for number in range(first, first + count)
    }


def contents(data: DataDir, manifest: Manifest) -> list[str]:
    stored = VersionTables.in_folder(version_dir(data.index(KB), manifest.version), manifest)
    assert sorted(stored.read(DOCUMENTS, ["url"]).column(0).to_pylist()) == sorted(
        stored.read(CHUNKS, ["url"]).column(0).to_pylist()
    )
    return sorted(stored.read(CHUNKS, ["text"]).column(0).to_pylist())


@pytest.fixture
def data(tmp_path: Path) -> DataDir:
    return DataDir(tmp_path / "data")


def test_a_full_build_divides_its_rows_evenly(data: DataDir) -> None:
    manifest, built = refresh(data, texts_of(90))
    assert [use.chunks for use in manifest.segments] == [30, 30, 30]
    assert built.facts.kind == "full"
    assert contents(data, manifest) == sorted(texts_of(90).values())
    for use in manifest.segments:
        segment = read_segment(data.index(KB), use.segment)
        assert verify_version(segment_dir(data.index(KB), use.segment), None, data.vectors, INFO) == []
        assert (segment.counts.chunks, segment.counts.documents) == (30, 30)


def test_a_refresh_writes_one_small_segment_and_its_deletions(data: DataDir) -> None:
    texts = texts_of(90)
    first, _ = refresh(data, texts)
    before = {
        path: path.stat().st_mtime_ns
        for use in first.segments
        for path in segment_dir(data.index(KB), use.segment).rglob("*")
    }
    changed = {**dict(list(texts.items())[3:]), **texts_of(2, first=500), "https://example.org/40": "another text"}
    second, built = refresh(data, changed, first.version)
    assert [use.segment for use in second.segments[:3]] == [use.segment for use in first.segments]
    assert [(use.chunks, use.deleted) for use in second.segments] == [(30, 3), (30, 1), (30, 0), (3, 0)]
    assert (built.facts.kind, built.facts.added, built.facts.removed) == ("segments", 3, 4)
    assert contents(data, second) == sorted(changed.values())
    assert contents(data, first) == sorted(texts.values())
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_what_comes_back_is_a_row_of_its_own_until_a_merge(data: DataDir) -> None:
    texts = texts_of(90)
    first, _ = refresh(data, texts)
    second, _ = refresh(data, dict(list(texts.items())[1:]), first.version)
    third, _ = refresh(data, texts, second.version)
    assert [(use.chunks, use.deleted) for use in third.segments] == [(30, 1), (30, 0), (30, 0), (1, 0)]
    assert contents(data, third) == sorted(texts.values())


def test_a_segment_of_which_more_than_a_quarter_is_deleted_is_merged(data: DataDir) -> None:
    texts = texts_of(90)
    first, _ = refresh(data, texts)
    left = dict(list(texts.items())[8:])
    second, built = refresh(data, {**left, **texts_of(5, first=500)}, first.version)
    assert built.facts.merged == 1
    assert [(use.chunks, use.deleted) for use in second.segments] == [(30, 0), (30, 0), (14, 0), (13, 0)]
    assert contents(data, second) == sorted({**left, **texts_of(5, first=500)}.values())


def test_unchanged_content_keeps_all_segments(data: DataDir) -> None:
    first, _ = refresh(data, texts_of(90))
    second, built = refresh(data, texts_of(90), first.version)
    assert second.segments == first.segments
    assert built.facts.added == 0


def test_finished_segments_are_found_again_after_a_kill(data: DataDir) -> None:
    first, _ = refresh(data, texts_of(90))
    made = {use.segment: segment_dir(data.index(KB), use.segment).stat().st_ino for use in first.segments}
    second, _ = refresh(data, texts_of(90))  # without a parent
    assert {use.segment: segment_dir(data.index(KB), use.segment).stat().st_ino for use in second.segments} == made


def test_a_damaged_segment_is_made_anew_and_exchanged(data: DataDir) -> None:
    first, _ = refresh(data, texts_of(90))
    damaged = segment_dir(data.index(KB), first.segments[1].segment) / "vectors.npy"
    content = bytearray(damaged.read_bytes())
    content[-1] ^= 1
    damaged.write_bytes(content)
    second, _ = refresh(data, texts_of(90), first.version)
    assert contents(data, second) == sorted(texts_of(90).values())
    for use in second.segments:
        assert verify_version(segment_dir(data.index(KB), use.segment), None, data.vectors, INFO) == []


def test_segments_that_no_version_names_are_removed(data: DataDir) -> None:
    import shutil

    first, _ = refresh(data, texts_of(90))
    second, _ = refresh(data, texts_of(40, first=300))
    shutil.rmtree(version_dir(data.index(KB), first.version))
    gone, freed = remove_unnamed_segments(data.index(KB))
    assert sorted(gone) == sorted(use.segment for use in first.segments)
    assert freed > 0
    assert contents(data, second) == sorted(texts_of(40, first=300).values())


def test_a_long_history_equals_a_full_build_and_keeps_segments_few(data: DataDir) -> None:
    picked = random.Random(7)
    texts, version, most = texts_of(60), None, 0
    for number in range(26):
        manifest, _ = refresh(data, texts, version)
        version = manifest.version
        assert contents(data, manifest) == sorted(texts.values())
        assert all(use.deleted <= 0.25 * use.chunks for use in manifest.segments)
        assert sum(use.live for use in manifest.segments) == manifest.counts.chunks
        most = max(most, len(manifest.segments))
        texts = {url: text for url, text in texts.items() if picked.random() > 0.03} | texts_of(
            2, first=1000 + 2 * number
        )
    assert most <= 20
    for use in manifest.segments:
        rows = deleted_rows(version_dir(data.index(KB), manifest.version), use.segment, CHUNKS)
        assert len(rows) == use.deleted
        assert (np.diff(rows) > 0).all()


def test_policy_merges_what_is_alike_with_all_that_is_smaller() -> None:
    alike = [Size(f"s{number}", 1000, 1000) for number in range(12)]
    assert to_merge(alike, 0, 50_000) == set()
    assert to_merge([*alike, Size("tiny", 5, 5), Size("big", 60_000, 59_000)], 1200, 50_000) == {
        *(size.name for size in alike),
        "tiny",
    }
    assert to_merge([Size(f"s{number}", 60_000, 60_000) for number in range(40)], 60_000, 50_000) == set()
    assert to_merge([Size("old", 60_000, 44_000)], 10, 50_000) == {"old"}


def test_policy_divides_rows_evenly() -> None:
    assert [rows_each(rows, 50_000) for rows in (0, 7, 50_000, 50_001, 100_000, 100_001, 1_000_000)] == [
        1,
        7,
        50_000,
        25_001,
        50_000,
        50_001,
        100_000,
    ]
