"""The file of vectors: a row for each chunk, the same however the version was made, and proven like the rest."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from almanac.core.tables import read_table
from almanac.index.build.builder import build_here
from almanac.index.reader import OpenVersion
from almanac.index.upkeep.rebuild import rebuild_version
from almanac.index.vectors.vector_matrix import MATRIX
from almanac.index.vectors.vector_store import VectorStore
from almanac.index.versions.version_store import version_dir
from almanac.schemas.errors import DamagedVersion
from almanac.schemas.items import ChunkRow
from tests.index.conftest import INFO, Base, make_chunks
from tests.index.test_index_delta import build, finish, new_rows, problems


@pytest.fixture
def parent(published: Any, tmp_path: Path) -> Any:
    """A copy of the base whose v0001 has 400 chunks."""
    shutil.copytree(published.root, tmp_path / "base")
    return replace(published, root=tmp_path / "base")


def _is_as_kept(base: Any, version: str) -> bool:
    folder = version_dir(base.index_dir, version)
    keys = read_table(folder / "chunks.parquet", ["text_sha256"]).column(0).to_pylist()
    return np.array_equal(np.load(folder / MATRIX), VectorStore(base.vectors, INFO).read(keys))


def _changed(rows: list[ChunkRow]) -> list[ChunkRow]:
    """Some gone, some new, some seen anew, and the rest in another order."""
    return [
        *new_rows(3),
        *(replace(row, fetched_at="2026-03-01T00:00:00+00:00") for row in rows[10:14]),
        *reversed(rows[14:]),
        *new_rows(4, 9000),
    ]


def test_a_delta_holds_the_vectors_that_a_full_build_would(parent: Any, distinct_rows: list[ChunkRow]) -> None:
    assert build(parent, _changed(distinct_rows)).kind == "delta"
    assert _is_as_kept(parent, "v0001")
    assert _is_as_kept(parent, "v0002")
    assert problems(parent, "v0002") == []


def test_a_damaged_parent_costs_reading_the_parts(parent: Any, distinct_rows: list[ChunkRow]) -> None:
    path = version_dir(parent.index_dir, "v0001") / MATRIX
    content = bytearray(path.read_bytes())
    content[-7] ^= 0x40
    path.write_bytes(content)
    assert build(parent, _changed(distinct_rows)).kind == "delta"
    assert _is_as_kept(parent, "v0002")


@pytest.mark.slow
def test_another_vector_in_the_file_is_found_and_rebuild_mends_it(base: Base) -> None:
    base.build(count=60)
    path = version_dir(base.index_dir, "v0001") / MATRIX
    vectors = np.load(path)
    vectors[[3, 5]] = vectors[[5, 3]]
    vectors[7] = np.nan
    np.save(path, vectors)
    altered = {(problem.kind, problem.where) for problem in problems(base, "v0001")}
    assert altered == {("vector_altered", f"{MATRIX}: {make_chunks(60)[row].chunk_id}") for row in (3, 5, 7)}
    rebuild_version(base.index_dir, "v0001", base.vectors)
    assert problems(base, "v0001") == []


def test_a_file_of_another_shape_is_refused_with_what_to_do(base: Base) -> None:
    base.build(count=30)
    path = version_dir(base.index_dir, "v0001") / MATRIX
    for content in (np.load(path)[:-1], np.load(path).astype(np.float64)):
        np.save(path, content)
        with (
            OpenVersion(base.index_dir, "v0001") as version,
            pytest.raises(DamagedVersion, match="almanac rebuild") as refused,
        ):
            version.cosines(np.full(16, 0.25, dtype=np.float32), version.chunk_ids[:1])
        assert "v0001" in str(refused.value)


def test_filters_wide_and_narrow_find_what_comparing_every_vector_finds(
    base: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    base.build(count=300)
    monkeypatch.setattr("almanac.index.open_segment._COMPARED", 50)
    vector = np.linspace(-1, 1, 16, dtype=np.float32)
    vector /= np.linalg.norm(vector)
    with OpenVersion(base.index_dir, "v0001") as version:
        cosines = version.cosines(vector, version.chunk_ids)
        for step in (2, 3, 20, 150):
            mask = np.arange(300) % step == 1
            known = version.ids_where(mask)
            exact = sorted(((chunk_id, cosines[chunk_id]) for chunk_id in known), key=lambda hit: (-hit[1], hit[0]))[:5]
            for ids in (known, list(known)):
                hits = version.query(vector, 5, ids)
                assert [chunk_id for chunk_id, _ in hits] == [chunk_id for chunk_id, _ in exact]
                assert [cosine for _, cosine in hits] == pytest.approx([cosine for _, cosine in exact], abs=2e-6)


def test_nothing_is_a_version_too(base: Base) -> None:
    rows: list[ChunkRow] = []
    base.embed(rows)
    facts = build_here(base.job(), lambda *_: None)
    finish(base, "v0001", rows, facts)
    assert problems(base, "v0001") == []
    with OpenVersion(base.index_dir, "v0001") as version:
        assert version.query(np.full(16, 0.25, dtype=np.float32), 3) == []
