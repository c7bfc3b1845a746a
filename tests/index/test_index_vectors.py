"""Vector parts: what is kept, what is found again, what a kill and a bad disk do to them."""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from almanac.core import tables
from almanac.core.settings import installation
from almanac.core.tables import CHUNK_SCHEMA, TableWriter, chunks_table, write_table
from almanac.index.embedding.embedder import Embedder, checked_vectors
from almanac.index.vectors.missing import CHECKPOINT, StagedTexts, stage_missing
from almanac.index.vectors.vector_store import VectorStore
from almanac.schemas.errors import DamagedVersion, EmbedderMismatch, OperationalError
from almanac.schemas.hashing import sha256
from almanac.schemas.manifest import EmbedderInfo
from tests.index.embedding import embed_missing

INFO = EmbedderInfo(provider="test", model="hash", revision="1", dimension=4, fingerprint="0123456789abcdef")


def unit_vectors(count: int) -> Any:
    vectors = np.random.default_rng(count).normal(size=(count, 4)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.slow
@given(
    st.lists(st.lists(st.integers(0, 30), unique=True, min_size=1, max_size=8), max_size=4),
    st.lists(st.integers(0, 30), max_size=20),
)
def test_every_written_vector_is_read_back_in_the_order_asked_for(parts: list[list[int]], numbers: list[int]) -> None:
    """Parts may overlap, as those of two knowledge bases do; a key's vector is the same in each."""
    every = unit_vectors(31)
    with tempfile.TemporaryDirectory() as folder:
        written = VectorStore(Path(folder), INFO)
        for part in parts:
            written.write_part([sha256(str(n)) for n in part], every[part])
        store = VectorStore(Path(folder), INFO)
        known = {n for part in parts for n in part}
        assert set(store.keys()) == {sha256(str(n)) for n in known}
        assert store.missing(sha256(str(n)) for n in numbers) == [
            sha256(str(n)) for n in dict.fromkeys(numbers) if n not in known
        ]
        wanted = [n for n in numbers if n in known]
        assert np.array_equal(store.read([sha256(str(n)) for n in wanted]), every[wanted])
        assert np.array_equal(store.read_to_disk([sha256(str(n)) for n in wanted]), every[wanted])


def test_absent_vector_is_named(tmp_path: Path) -> None:
    store = VectorStore(tmp_path, INFO)
    store.write_part(["a"], unit_vectors(1))
    with pytest.raises(DamagedVersion, match="sha256 b"):
        store.read(["a", "b"])


@pytest.mark.parametrize("damage", ["truncated", "garbage", "flipped"])
def test_damaged_part_is_moved_aside_and_counts_as_missing(tmp_path: Path, damage: str) -> None:
    store = VectorStore(tmp_path, INFO)
    good = store.write_part(["a", "b"], unit_vectors(2))
    bad = store.write_part([f"key{n}" for n in range(50)], unit_vectors(50))
    content = bytearray(bad.read_bytes())
    if damage == "flipped":
        # Inside the vectors' page: only its checksum can tell.
        content[len(content) // 2] ^= 0x10
    bad.write_bytes({"truncated": bytes(content[:-20]), "garbage": b"not Parquet", "flipped": bytes(content)}[damage])

    reopened = VectorStore(tmp_path, INFO)
    with pytest.raises(DamagedVersion):
        reopened.read(["a", "key7"])
    assert reopened.missing(["a", "b", "key7"]) == ["key7"]
    assert sorted(path.name for path in reopened.folder.iterdir()) == sorted([good.name, f"{bad.name}.damaged"])
    assert np.array_equal(reopened.read(["b"]), unit_vectors(2)[1:])


def test_part_of_another_dimension_counts_as_damaged(tmp_path: Path) -> None:
    VectorStore(tmp_path, INFO).write_part(["a"], unit_vectors(1))
    assert VectorStore(tmp_path, INFO.model_copy(update={"dimension": 8})).missing(["a"]) == ["a"]


def test_embedding_takes_each_text_once_longest_first_and_counts_rows(
    tmp_path: Path, chunk_rows: Any, embedder: Any
) -> None:
    rows = chunk_rows(40)  # four of them share a text
    write_table(tmp_path / "chunks.parquet", chunks_table(rows))
    store = VectorStore(tmp_path / "vectors", embedder.info)
    progress: list[tuple[int, int]] = []
    staged, parts = embed_missing(
        tmp_path / "chunks.parquet",
        store,
        lambda: embedder,
        checkpoint=15,
        on_progress=lambda done, total: progress.append((done, total)),
    )
    assert (staged.texts, staged.checkpoints, staged.cached) == (37, 3, 3)
    assert [part.embedded for part in parts] == [15, 15, 7]
    assert progress == [(15, 15), (15, 15), (7, 7)]
    texts = [text for call in embedder.calls for text in call]
    assert len(texts) == len(set(texts)) == 37
    assert [len(text) for text in texts] == sorted((len(text) for text in texts), reverse=True)
    again, _ = embed_missing(tmp_path / "chunks.parquet", VectorStore(tmp_path / "vectors", embedder.info), not_needed)
    assert (again.texts, again.checkpoints, again.cached) == (0, 0, 40)


def not_needed() -> Embedder:
    raise AssertionError("a model is loaded where nothing is to be embedded")


KILLED = """
import os, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from conftest import HashEmbedder
from almanac.index.vectors.vector_store import VectorStore
from tests.index.embedding import embed_missing

class Dying(HashEmbedder):
    def embed_documents(self, texts):
        if len(self.calls) == {after}:
            os.kill(os.getpid(), 9)
        return super().embed_documents(texts)

embedder = Dying()
embed_missing(Path({chunks!r}), VectorStore(Path({vectors!r}), embedder.info), lambda: embedder, checkpoint=10)
"""


@pytest.mark.slow
@pytest.mark.parametrize("after", [0, 2])
def test_killed_embedding_resumes_without_repeating_parts(
    tmp_path: Path, chunk_rows: Any, embedder: Any, after: int
) -> None:
    chunks, vectors = tmp_path / "chunks.parquet", tmp_path / "vectors"
    write_table(chunks, chunks_table(chunk_rows(40)))
    code = KILLED.format(tests=str(Path(__file__).parent), after=after, chunks=str(chunks), vectors=str(vectors))
    assert subprocess.run([sys.executable, "-c", code], cwd=installation(), check=False).returncode == -9

    store = VectorStore(vectors, embedder.info)
    assert len(list(store.keys())) == 10 * after
    parts_before = {path: path.stat().st_mtime_ns for path in store.folder.glob("*.parquet")} if after else {}
    staged, parts = embed_missing(chunks, store, lambda: embedder, checkpoint=10)
    assert staged.texts == sum(part.embedded for part in parts) == 37 - 10 * after
    assert {path: path.stat().st_mtime_ns for path in parts_before} == parts_before
    assert store.missing(row.text_sha256 for row in chunk_rows(40)) == []


def test_vectors_of_another_embedder_are_not_mixed_in(tmp_path: Path, chunk_rows: Any, embedder: Any) -> None:
    write_table(tmp_path / "chunks.parquet", chunks_table(chunk_rows(1)))
    with pytest.raises(EmbedderMismatch):
        embed_missing(
            tmp_path / "chunks.parquet",
            VectorStore(tmp_path, INFO.model_copy(update={"fingerprint": "other"})),
            lambda: embedder,
        )


@pytest.mark.parametrize(
    ("vectors", "finding"),
    [
        ([[1, 0, 0, 0]], "2 texts were sent"),
        ([[1, 0, 0], [0, 1, 0]], "dimension 3 instead of 4"),
        ([[1, 0, 0, 0], [0, float("nan"), 0, 0]], "not finite"),
        ([[1, 0, 0, 0], [0, 0, 0, 0]], "is zero"),
    ],
)
def test_unusable_vectors_are_refused_by_the_hash_of_their_text(vectors: list[list[float]], finding: str) -> None:
    with pytest.raises(OperationalError, match=finding) as raised:
        checked_vectors(vectors, ["good", "bad"], INFO)
    named = sha256("bad") if finding in ("not finite", "is zero") else sha256("good")
    assert named in raised.value.message


def test_vectors_come_out_at_unit_length_and_unit_ones_untouched() -> None:
    unit = unit_vectors(3)
    assert np.array_equal(checked_vectors(unit, list("abc"), INFO), unit)
    assert np.allclose(np.linalg.norm(checked_vectors(unit * 7, list("abc"), INFO), axis=1), 1)


def test_part_is_named_by_its_content(tmp_path: Path) -> None:
    path = VectorStore(tmp_path, INFO).write_part(["a", "b"], unit_vectors(2))
    assert path.stem == sha256(path.read_bytes())


@pytest.mark.parametrize("texts", [0, 1, 40])
def test_texts_are_staged_longest_first_however_often_the_table_is_read(
    tmp_path: Path, chunk_rows: Any, texts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "_SORTED", 15)
    store = VectorStore(tmp_path / "vectors", INFO)
    rows = [*chunk_rows(texts), *chunk_rows(texts // 2)]
    with TableWriter(tmp_path / "chunks.parquet", CHUNK_SCHEMA) as writer:
        for begin in range(0, len(rows), 7):
            writer.write(chunks_table(rows[begin : begin + 7]))
        writer.write(chunks_table([]))
    known = sorted({row.text_sha256 for row in rows})[::3]
    if known:
        store.write_part(known, unit_vectors(len(known)))
    wanted = sorted(
        {(-len(row.embedded_text), row.text_sha256, row.embedded_text) for row in rows if row.text_sha256 not in known}
    )
    staged_texts = stage_missing(tmp_path / "chunks.parquet", store, tmp_path / "texts.parquet", checkpoint=6)
    staged = pq.ParquetFile(tmp_path / "texts.parquet")
    assert [(row["text_sha256"], row["text"]) for row in staged.read().to_pylist()] == [
        (key, text) for _, key, text in wanted
    ]
    sizes = [staged.metadata.row_group(group).num_rows for group in range(staged.num_row_groups)]
    assert sizes == [min(6, len(wanted) - begin) for begin in range(0, len(wanted), 6)]
    assert staged_texts == StagedTexts(len(wanted), -(-len(wanted) // 6), len(rows) - len(wanted))


@pytest.mark.parametrize("texts", [0, 1, 5, 600, 3601])
def test_checkpoints_that_workers_share_get_smaller_so_that_they_end_together(
    tmp_path: Path, chunk_rows: Any, texts: int
) -> None:
    with TableWriter(tmp_path / "chunks.parquet", CHUNK_SCHEMA) as writer:
        writer.write(chunks_table(chunk_rows(texts)))
    store, staged = VectorStore(tmp_path / "vectors", INFO), [tmp_path / "alone.parquet", tmp_path / "shared.parquet"]
    staged_texts = [
        stage_missing(tmp_path / "chunks.parquet", store, table, is_shared=is_shared)
        for table, is_shared in zip(staged, (False, True), strict=True)
    ]
    alone, shared = map(pq.ParquetFile, staged)
    assert alone.read().equals(shared.read())
    sizes = [shared.metadata.row_group(group).num_rows for group in range(shared.num_row_groups)]
    blocks = -(-staged_texts[0].texts // CHECKPOINT)
    assert [staging.checkpoints for staging in staged_texts] == [blocks, len(sizes)]
    assert all(size <= CHECKPOINT for size in sizes)
    assert all(size <= max(62, -(-sum(sizes[at:]) // 4)) for at, size in enumerate(sizes)), (
        "none has more than a quarter of what is left, or 62"
    )
    assert sum(size < 62 for size in sizes) <= blocks, "each costs time of its own"


def test_a_column_of_keys_is_read_as_a_list_of_them_is(tmp_path: Path) -> None:
    store, every = VectorStore(tmp_path, INFO), unit_vectors(9)
    keys = [sha256(str(n)) for n in range(9)]
    store.write_part(keys[:5], every[:5])
    store.write_part(keys[4:], every[4:])
    key_column = pa.chunked_array([[keys[7], keys[1]], [keys[7], keys[4]]])
    assert np.array_equal(store.read(key_column), every[[7, 1, 7, 4]])
    assert store.absent(pa.array(["x", keys[0], "y", "x"])).tolist() == [0, 2]
    out = np.zeros((5, 4), dtype=np.float32)
    store.read_into(key_column.combine_chunks(), out, np.array([4, 3, 0, 1]))
    assert np.array_equal(out, np.array([every[7], every[4], np.zeros(4), every[1], every[7]]))


def test_a_part_is_read_once_and_those_that_come_later_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = VectorStore(tmp_path, INFO)
    for number in range(100):
        written.write_part([f"key{number}"], unit_vectors(1))
    read: list[Path] = []
    read_keys = VectorStore._read_keys

    def noted(store: VectorStore, path: Path) -> Any:
        read.append(path)
        return read_keys(store, path)

    monkeypatch.setattr(VectorStore, "_read_keys", noted)
    store = VectorStore(tmp_path, INFO)
    assert len(store.read(["key99", "key90"])) == 2
    assert store.missing(["key40", "later"]) == ["later"]
    assert len(read) == 100
    part = written.write_part(["later"], unit_vectors(1))
    assert store.missing(["key40", "later"]) == []
    assert read[100:] == [part]


def test_a_part_that_was_removed_since_it_was_listed_has_no_keys(tmp_path: Path) -> None:
    written = VectorStore(tmp_path, INFO)
    parts = [written.write_part([f"key{number}"], unit_vectors(1)) for number in range(3)]
    store = VectorStore(tmp_path, INFO)
    assert store.missing([]) == []  # lists the parts
    parts[1].unlink()
    assert store.missing(["key0", "key1", "key2"]) == ["key1"]
