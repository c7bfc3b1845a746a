"""Building, verifying and reading real versions, with real Chroma and real child processes."""

import contextlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import chromadb
import numpy as np
import pyarrow.parquet as pq
import pytest
from chromadb.api.models.Collection import Collection
from chromadb.config import Settings

from almanac.core.settings import installation
from almanac.core.tables import chunks_table, write_table
from almanac.index.build.builder import build_here, build_version
from almanac.index.build.job import BuildJob
from almanac.index.reader import OpenVersion
from almanac.index.vectors.vector_store import VectorStore
from almanac.index.verify.files import check_files
from almanac.index.verify.mapped_rows import Expected
from almanac.index.verify.problem_collector import ProblemCollector
from almanac.index.verify.verifier import VerifyJob, verify_here, verify_version
from almanac.index.verify.verify_rows import _probe as probe_rows
from almanac.index.versions.publish import finish_version, publish
from almanac.index.versions.version_store import (
    discard_unfinished,
    list_versions,
    next_version,
    read_manifest,
    resolve_version,
    version_dir,
)
from almanac.schemas.errors import DamagedVersion, EmbedderMismatch, OperationalError
from almanac.schemas.items import ChunkRow
from almanac.schemas.manifest import EmbedderInfo, Manifest, Verdict
from almanac.schemas.reports import Problem
from tests.conftest import PATIENCE_S
from tests.index.conftest import make_chunks

Rows = Callable[[int], list[ChunkRow]]


class Base(Protocol):
    root: Path

    @property
    def index_dir(self) -> Path: ...
    @property
    def vectors(self) -> Path: ...
    @property
    def chunks(self) -> Path: ...
    def embed(self, rows: list[ChunkRow]) -> None: ...
    def job(self, version: str = "v0001") -> BuildJob: ...
    def build(self, version: str = "v0001", count: int = 40, *, rows: list[ChunkRow] | None = None) -> Manifest: ...
    def manifest(self, version: str, rows: list[ChunkRow], verdict: Verdict) -> Manifest: ...


@contextmanager
def stock_client(folder: Path) -> Iterator[Collection]:
    """The collection as anybody's Chroma client sees it."""
    client = chromadb.PersistentClient(path=str(folder / "chroma"), settings=Settings(anonymized_telemetry=False))
    try:
        yield client.get_collection("notes", embedding_function=None)
    finally:
        client.close()  # type: ignore[attr-defined]


def verify(base: Base, manifest: Manifest | None) -> list[Problem]:
    """In this process; where an index file may end it, `verify_version` does the same in a child."""
    problems: list[Problem] = []
    job = base.job(manifest.version) if manifest else base.job()
    verify_here(
        VerifyJob(version_dir=job.version_dir, manifest=manifest, vectors_root=base.vectors, embedder=job.embedder),
        problems.append,
    )
    return problems


def verify_in_child(base: Base, manifest: Manifest) -> list[Problem]:
    return verify_version(version_dir(base.index_dir, manifest.version), manifest, base.vectors, manifest.embedder)


def kinds(problems: list[Problem]) -> set[str]:
    return {problem.kind for problem in problems}


@pytest.mark.slow
@pytest.mark.parametrize("count", [0, 1, 2, 1500])
def test_built_version_is_whole_and_stays_so_when_it_is_read(base: Base, count: int) -> None:
    """1,500 rows take two batches; none, one and two rows are where flushing is particular."""
    manifest = base.build(count=count)
    publish(base.index_dir, "v0001")
    with OpenVersion(base.index_dir, resolve_version(base.index_dir)) as version:
        hits = version.query(np.full(16, 0.25, dtype=np.float32), 3)
        assert len(hits) == min(3, count)
    assert verify(base, manifest) == []
    assert ("index_metadata.pickle" in {Path(stored.path).name for stored in manifest.files}) == (count > 0)


@pytest.mark.slow
def test_no_file_in_the_current_folder_takes_a_librarys_place(
    base: Base, chunk_rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the user's folder, and may hold anything."""
    (tmp_path / "chromadb.py").write_text("raise SystemExit('this is not the library')")
    monkeypatch.chdir(tmp_path)
    base.embed(chunk_rows(10))
    build_version(base.job())
    assert (base.job().version_dir / "chroma" / "chroma.sqlite3").is_file()


@pytest.mark.slow
def test_builder_reports_progress_and_copies_the_processed_files(base: Base, chunk_rows: Rows) -> None:
    base.embed(chunk_rows(30))
    job = base.job()
    seen: list[tuple[int, int]] = []
    build_version(job, on_progress=lambda done, total: seen.append((done, total)))
    assert seen == [(30, 30)]
    copy = job.version_dir / "chunks.parquet"
    assert copy.read_bytes() == base.chunks.read_bytes()
    assert copy.stat().st_nlink == 1


def test_stock_client_counts_filters_and_queries_a_version(base: Base) -> None:
    manifest = base.build(count=40)
    with stock_client(version_dir(base.index_dir, "v0001")) as collection:
        assert collection.count() == 40
        got = collection.get(where={"number": 7}, include=["documents", "metadatas", "embeddings"])
        assert got["documents"] == ["text 7"]
        assert got["metadatas"] == [
            {
                "source": "notes", "document_id": "doc3", "url": "file:///doc3", "title": "Title 3", "kind": "document",
                "ordinal": 1, "start": 0, "end": 10,
                "fetched_at": "2026-01-01T00:00:00+00:00", "number": 7, "tags": '["a","b"]',
            }
        ]  # fmt: skip
        answer = collection.query(query_embeddings=np.asarray(got["embeddings"]), n_results=1)
        assert answer["ids"] == [got["ids"]]
        assert collection.metadata["embedder_fingerprint"] == manifest.embedder.fingerprint


def test_builder_refuses_a_directory_that_holds_something(base: Base, chunk_rows: Rows) -> None:
    base.embed(chunk_rows(4))
    (base.job().version_dir).mkdir(parents=True)
    (base.job().version_dir / "left-over").touch()
    with pytest.raises(OperationalError, match="not empty"):
        build_here(base.job(), lambda *_: None)


@pytest.mark.slow
def test_missing_vector_stops_the_build_and_is_named(base: Base, chunk_rows: Rows) -> None:
    rows = chunk_rows(4)
    base.embed(rows[:3])
    write_table(base.chunks, chunks_table(rows))
    with pytest.raises(DamagedVersion, match=rows[3].text_sha256):
        build_version(base.job())
    assert list_versions(base.index_dir) == []


def test_same_chunk_twice_stops_the_build(base: Base, chunk_rows: Rows) -> None:
    base.embed([*chunk_rows(2), *chunk_rows(1)])
    with pytest.raises(OperationalError, match="stands twice"):
        build_here(base.job(), lambda *_: None)


@pytest.mark.slow
def test_killed_builder_leaves_no_version_and_the_next_build_is_fine(base: Base, chunk_rows: Rows) -> None:
    rows = chunk_rows(3000)
    base.embed(rows)

    def kill(done: int, _: int) -> None:
        if done == 1000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_version(base.job(), on_progress=kill)

    assert list_versions(base.index_dir) == []
    assert discard_unfinished(base.index_dir) == ["v0001"]
    assert next_version(base.index_dir) == "v0001"
    build_version(base.job())
    manifest = finish_version(base.index_dir, base.manifest("v0001", rows, Verdict(verdict="passed", checks=[])))
    assert verify(base, manifest) == []


@pytest.mark.slow
def test_builder_dies_with_its_parent(base: Base, chunk_rows: Rows, tmp_path: Path) -> None:
    base.embed(chunk_rows(3000))
    (tmp_path / "job.json").write_text(base.job().model_dump_json())
    code = (
        "import sys; from pathlib import Path; from almanac.index.build.builder import BuildJob, build_version\n"
        "job = BuildJob.model_validate_json(Path(sys.argv[1]).read_text())\n"
        "build_version(job, on_progress=lambda done, total: print(done, flush=True))"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "job.json")], stdout=subprocess.PIPE, cwd=installation()
    )
    assert parent.stdout is not None
    parent.stdout.readline()
    children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
    if not children.is_file():
        pytest.skip("needs /proc/PID/task/TID/children")
    [forking] = map(int, children.read_text().split())
    [builder] = map(int, Path(f"/proc/{forking}/task/{forking}/children").read_text().split())
    os.kill(parent.pid, signal.SIGKILL)
    parent.communicate()
    deadline = time.monotonic() + PATIENCE_S
    while is_running(builder) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not is_running(builder)


def is_running(pid: int) -> bool:
    """A zombie that nobody has waited for does not run."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "chunks.parquet",
        "vectors.npy",
        "manifest.json",
        "manifest.sha256",
        "data_level0.bin",
        "header.bin",
        "length.bin",
        "link_lists.bin",
        "index_metadata.pickle",
    ],
)
def test_flipped_byte_is_found_wherever_it_is(base: Base, name: str) -> None:
    """As `almanac verify` would: the manifest is read first, and then everything is compared with it."""
    base.build()
    [path] = version_dir(base.index_dir, "v0001").rglob(name)
    whole = path.read_bytes()
    for place in random.Random(name).sample(range(len(whole)), 12) if whole else []:
        changed = bytearray(whole)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        problems: list[Problem] = []
        with contextlib.suppress(DamagedVersion):
            check_files(
                version_dir(base.index_dir, "v0001"),
                read_manifest(base.index_dir, "v0001"),
                ProblemCollector(problems.append),
            )
            # A name in the manifest, once altered, is that of a missing file.
            problem_kinds = kinds(problems) - {"file_missing"} if name == "manifest.json" else kinds(problems)
            assert problem_kinds == {"file_altered"}, f"{name}, byte {place}"
    path.write_bytes(whole)
    assert verify(base, read_manifest(base.index_dir, "v0001")) == []


ALTERED_BY_SQL = {
    "another text": "UPDATE embedding_metadata SET string_value = 'spam' WHERE key = 'chroma:document' AND id = 7",
    "another value": "UPDATE embedding_metadata SET int_value = 99 WHERE key = 'number' AND id = 7",
    "a value of another type": (
        "UPDATE embedding_metadata SET int_value = NULL, float_value = 6.0 WHERE key = 'number' AND id = 7"
    ),
    "a key more": "INSERT INTO embedding_metadata (id, key, string_value) VALUES (7, 'spam', 'spam')",
    "a key less": "DELETE FROM embedding_metadata WHERE key = 'url' AND id = 7",
    "another id": "UPDATE embeddings SET embedding_id = 'spam' WHERE id = 7",
    "a row less": "DELETE FROM embeddings WHERE id = 7",
    "a row more": (
        "INSERT INTO embeddings (segment_id, embedding_id, seq_id) SELECT segment_id, 'spam', seq_id FROM "
        "embeddings WHERE id = 7"
    ),
    "another text to search": "UPDATE embedding_fulltext_search_content SET c0 = 'spam' WHERE id = 7",
    "a text to search less": "DELETE FROM embedding_fulltext_search_content WHERE id = 7",
    "another collection": "UPDATE collections SET name = 'spam'",
}


@pytest.mark.slow
@pytest.mark.parametrize("statement", ALTERED_BY_SQL.values(), ids=ALTERED_BY_SQL)
def test_what_was_altered_in_the_database_is_found(base: Base, statement: str) -> None:
    manifest = base.build()
    with (
        contextlib.closing(
            sqlite3.connect(version_dir(base.index_dir, "v0001") / "chroma" / "chroma.sqlite3")
        ) as database,
        database,
    ):
        assert database.execute(statement).rowcount > 0
    assert verify(base, manifest) != []


def test_manifest_of_another_version_is_found(base: Base) -> None:
    manifest = base.build()
    assert kinds(verify(base, manifest.model_copy(update={"run_id": "another"}))) == {"file_altered"}


def test_missing_files_are_found(base: Base) -> None:
    manifest = base.build()
    folder = version_dir(base.index_dir, "v0001")
    (folder / "chunks.parquet").unlink()
    assert kinds(verify(base, manifest)) == {"file_missing"}


def _delete(collection: Collection, _base: Base) -> None:
    collection.delete(ids=[collection.get(where={"number": 7})["ids"][0]])


def _add(collection: Collection, _base: Base) -> None:
    collection.add(ids=["foreign"], embeddings=np.full((1, 16), 0.25, dtype=np.float32), documents=["spam"])


def _alter_text(collection: Collection, _base: Base) -> None:
    got = collection.get(where={"number": 7}, include=["embeddings"])
    collection.update(ids=got["ids"], documents=["spam"], embeddings=np.asarray(got["embeddings"], dtype=np.float32))


def _alter_metadata(collection: Collection, _base: Base) -> None:
    collection.update(ids=[collection.get(where={"number": 7})["ids"][0]], metadatas=[{"number": 7.5}])


def _alter_vector(collection: Collection, _base: Base) -> None:
    collection.update(
        ids=[collection.get(where={"number": 7})["ids"][0]], embeddings=np.full((1, 16), 0.25, dtype=np.float32)
    )


@pytest.mark.parametrize(
    ("tamper", "expected"),
    [
        (_delete, "row_missing"),
        (_add, "row_foreign"),
        (_alter_text, "row_altered"),
        (_alter_metadata, "row_altered"),
        (_alter_vector, "vector_altered"),
    ],
)
def test_what_a_stock_client_changed_is_found(
    base: Base, tamper: Callable[[Collection, Any], None], expected: str
) -> None:
    manifest = base.build()
    with stock_client(version_dir(base.index_dir, "v0001")) as collection:
        tamper(collection, base)
    assert expected in kinds(verify(base, manifest))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["chroma.sqlite3", "data_level0.bin", "index_metadata.pickle"])
def test_ruined_chroma_files_are_found_and_readers_are_told(base: Base, name: str) -> None:
    manifest = base.build()
    [path] = version_dir(base.index_dir, "v0001").rglob(name)
    path.write_bytes(b"not what it was")
    assert {"unreadable", "file_altered"} & kinds(verify_in_child(base, manifest))
    if name == "chroma.sqlite3":  # of which no search reads anything
        return
    with OpenVersion(base.index_dir, "v0001") as version, pytest.raises(DamagedVersion) as raised:
        version.query(np.full(16, 0.25, dtype=np.float32), 3)
    assert "almanac verify KB" in (raised.value.hint or "")


def test_a_database_at_which_chroma_panics_is_found(base: Base) -> None:
    manifest = base.build()
    with (
        contextlib.closing(
            sqlite3.connect(version_dir(base.index_dir, "v0001") / "chroma" / "chroma.sqlite3")
        ) as database,
        database,
    ):
        database.execute("PRAGMA writable_schema = ON")
        database.execute("UPDATE sqlite_master SET sql = CAST(x'ff' AS TEXT) || sql WHERE name = 'tenants'")
    assert "unreadable" in kinds(verify(base, manifest))


def test_reader_of_a_version_without_chroma_makes_no_empty_one(base: Base) -> None:
    base.build()
    folder = version_dir(base.index_dir, "v0001") / "chroma"
    folder.rename(folder.with_name("elsewhere"))
    with OpenVersion(base.index_dir, "v0001") as version, pytest.raises(DamagedVersion):
        version.query(np.full(16, 0.25, dtype=np.float32), 3)
    assert not folder.exists()


def test_missing_and_altered_vector_parts_are_found(base: Base) -> None:
    manifest = base.build()
    [part] = (base.vectors / manifest.embedder.fingerprint).glob("*.parquet")
    part.write_bytes(part.read_bytes()[:-9])
    problems = verify(base, manifest)
    assert kinds(problems) == {"vector_missing"}
    assert len(problems) == len(set(pq.read_table(base.chunks).column("text_sha256").to_pylist()))


def test_another_digest_is_found(base: Base) -> None:
    manifest = base.build()
    assert "digest_differs" in kinds(verify(base, manifest.model_copy(update={"digest": "0" * 64})))


@pytest.mark.parametrize(("reached", "kinds_of_problems"), [(40, set()), (1, set()), (0, {"probe_failed"})])
def test_rows_that_chromas_search_does_not_reach_are_no_damage_unless_it_reaches_none(
    base: Base, reached: int, kinds_of_problems: set[str]
) -> None:
    """Chroma's threads decide which it reaches; here the first `reached` rows are asked for by their own vectors, the
    others by what no row has.
    """
    rows = [
        replace(row, text=f"text {number}", embedded_text=f"text {number}")
        for number, row in enumerate(make_chunks(40))
    ]
    manifest = base.build(rows=rows)
    vectors = VectorStore(base.vectors, manifest.embedder).read([row.text_sha256 for row in rows]).copy()
    vectors[reached:] *= -1
    problems: list[Problem] = []
    with stock_client(version_dir(base.index_dir, "v0001")) as collection:
        probed = [(row.chunk_id, number) for number, row in enumerate(rows)]
        probe_rows(collection, probed, Expected(np.arange(40), vectors), ProblemCollector(problems.append))
    assert kinds(problems) == kinds_of_problems


def test_at_most_a_hundred_problems_of_a_kind_are_listed(base: Base) -> None:
    manifest = base.build(count=130)
    with stock_client(version_dir(base.index_dir, "v0001")) as collection:
        collection.delete(ids=collection.get(limit=120)["ids"])
    assert len([problem for problem in verify(base, manifest) if problem.kind == "row_missing"]) == 100


def test_reader_gives_cosines_best_first_and_equal_ones_by_id(base: Base, chunk_rows: Rows) -> None:
    manifest = base.build(count=40)
    rows = {row.chunk_id: row for row in chunk_rows(40)}
    vectors = VectorStore(base.vectors, manifest.embedder)
    repeated = sorted(chunk_id for chunk_id, row in rows.items() if row.text == "text 0")
    with OpenVersion(base.index_dir, "v0001") as version:
        [vector] = vectors.read([rows[repeated[0]].text_sha256])
        hits = version.query(vector, 12)
        assert [chunk_id for chunk_id, _ in hits[:4]] == repeated
        by_hand = vectors.read([rows[chunk_id].text_sha256 for chunk_id, _ in hits]) @ vector
        assert np.allclose([cosine for _, cosine in hits], by_hand, atol=1e-5)
        assert [cosine for _, cosine in hits] == sorted((cosine for _, cosine in hits), reverse=True)


@pytest.mark.slow
def test_reader_finds_every_row_where_a_text_stands_often(base: Base, chunk_rows: Rows) -> None:
    """150 rows of 1,500 have one vector, as a notice on every page has."""
    manifest = base.build(count=1500)
    rows = chunk_rows(1500)
    vectors = VectorStore(base.vectors, manifest.embedder).read([row.text_sha256 for row in rows])
    with OpenVersion(base.index_dir, "v0001") as version:
        for number in range(1, 1500, 10):
            [(chunk_id, cosine)] = version.query(vectors[number], 1)
            assert chunk_id == rows[number].chunk_id
            assert cosine == pytest.approx(1, abs=1e-5)
        repeated = sorted(row.chunk_id for row in rows if row.text == "text 0")
        assert [chunk_id for chunk_id, _ in version.query(vectors[0], 150)] == repeated
        assert version.query(vectors[1], 5, [rows[3].chunk_id])[0][0] == rows[3].chunk_id


def test_reader_keeps_to_the_ids_it_is_given(base: Base) -> None:
    base.build(count=40)
    vector = np.full(16, 0.25, dtype=np.float32)
    with OpenVersion(base.index_dir, "v0001") as version:
        chosen = version.chunk_ids[3:6]
        assert sorted(chunk_id for chunk_id, _ in version.query(vector, 10, [*chosen, "unknown", chosen[0]])) == sorted(
            chosen
        )
        assert version.query(vector, 10, []) == []
        assert version.query(vector, 10, ["unknown"]) == []
        assert len(version.query(vector, 1000)) == 40


def test_reader_gives_rows_and_metadata_in_order(base: Base, chunk_rows: Rows) -> None:
    base.build(count=40)
    with OpenVersion(base.index_dir, "v0001") as version:
        assert version.chunk_ids == [row.chunk_id for row in chunk_rows(40)]
        first, second = version.rows([version.chunk_ids[9], version.chunk_ids[2]])
        assert (first["text"], second["text"]) == ("text 9", "text 2")
        assert first["metadata"] == {"number": 9, "tags": ["a", "b"], "empty": None, "title": "not ours"}
        assert version.coded_metadata(lambda metadata: metadata.get("number")).values() == list(range(40))
        assert version.coded_metadata(lambda metadata: metadata.get("absent")).values() == [None] * 40


def test_reader_refuses_a_vector_of_another_dimension(base: Base) -> None:
    base.build(count=4)
    with OpenVersion(base.index_dir, "v0001") as version, pytest.raises(EmbedderMismatch, match="dimension 16"):
        version.query(np.ones(3, dtype=np.float32), 1)


def test_job_survives_its_journey_as_json(base: Base) -> None:
    assert BuildJob.model_validate_json(base.job().model_dump_json()) == base.job()
    assert isinstance(base.job().embedder, EmbedderInfo)
