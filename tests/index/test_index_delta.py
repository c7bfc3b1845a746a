"""The next version as a copy and the difference, with real Chroma: it is what a full build would have made, and it
leaves its parent alone.
"""

import hashlib
import json
import random
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import chromadb
import numpy as np
import pytest
from chromadb.api.models.Collection import Collection
from chromadb.config import Settings

from almanac.core.tables import chunks_table, write_table
from almanac.index.build import job as module
from almanac.index.build.builder import build_here, build_version
from almanac.index.reader import OpenVersion
from almanac.index.vectors.vector_store import VectorStore
from almanac.index.verify.verifier import VerifyJob, verify_here, verify_version
from almanac.index.versions.publish import finish_version
from almanac.index.versions.version_store import version_dir
from almanac.schemas.items import ChunkRow
from almanac.schemas.manifest import Manifest, Verdict
from almanac.schemas.reports import Problem

PASSED = Verdict(verdict="passed", checks=[])
Content = dict[str, tuple[str, dict[str, Any], bytes]]


@pytest.fixture
def base(published: Any, tmp_path: Path) -> Any:
    """A copy of the base whose v0001 has 400 chunks. No Chroma client has it open, so its files may be copied as they
    are.
    """
    shutil.copytree(published.root, tmp_path / "base")
    return replace(published, root=tmp_path / "base")


@pytest.fixture
def rows(distinct_rows: list[ChunkRow]) -> list[ChunkRow]:
    return distinct_rows


def new_rows(count: int, begin: int = 5000) -> list[ChunkRow]:
    place: dict[str, Any] = {
        "source": "notes",
        "title": "New",
        "kind": "record",
        "ordinal": 0,
        "start": None,
        "end": None,
    }
    return [
        ChunkRow(document_id=f"new{n}", url=f"file:///new{n}", text=f"new text {n}", embedded_text=f"new {n}",
        metadata={"number": n},
                 fetched_at="2026-02-01T00:00:00+00:00", **place)
        for n in range(begin, begin + count)
    ]  # fmt: skip


@contextmanager
def stock_client(folder: Path) -> Iterator[Collection]:
    client = chromadb.PersistentClient(path=str(folder / "chroma"), settings=Settings(anonymized_telemetry=False))
    try:
        yield client.get_collection("notes", embedding_function=None)
    finally:
        client.close()  # type: ignore[attr-defined]


def content(folder: Path) -> Content:
    """Everything that a stock client sees of the rows."""
    with tempfile.TemporaryDirectory() as scratch:
        shutil.copytree(folder / "chroma", Path(scratch) / "chroma")  # a delta goes on from one that nobody opened
        with stock_client(Path(scratch)) as collection:
            got = collection.get(include=["documents", "metadatas", "embeddings"])
    vectors = np.round(np.asarray(got["embeddings"], dtype=np.float32), 5) + 0.0
    return {
        chunk_id: (document, dict(metadata or {}), vector.tobytes())
        for chunk_id, document, metadata, vector in zip(
            got["ids"], got["documents"] or [], got["metadatas"] or [], vectors, strict=True
        )
    }


def problems(base: Any, version: str, manifest: Manifest | None = None) -> list[Problem]:
    collected: list[Problem] = []
    folder = version_dir(base.index_dir, version)
    info = base.job().embedder
    verify_here(
        VerifyJob(version_dir=folder, manifest=manifest, vectors_root=base.vectors, embedder=info),
        collected.append,
    )
    return collected


def finish(base: Any, version: str, rows: list[ChunkRow], facts: module.BuildFacts) -> Manifest:
    manifest = base.manifest(version, rows, PASSED).model_copy(update={"lineage": {"build": facts.model_dump()}})
    return finish_version(base.index_dir, manifest)


def build(base: Any, rows: list[ChunkRow], version: str = "v0002", parent: str | None = "v0001") -> module.BuildFacts:
    base.embed(rows)
    return build_here(base.job(version, parent), lambda *_: None)


def is_flushed(folder: Path) -> bool:
    """Whether Chroma has nothing to replay: its vector index is as far as its log."""
    with closing(sqlite3.connect(folder / "chroma" / "chroma.sqlite3")) as database:
        last = database.execute("SELECT max(seq_id) FROM embeddings_queue").fetchone()[0]
        reached = [seq for (seq,) in database.execute("SELECT seq_id FROM max_seq_id")]
        waiting = database.execute("SELECT count(*) FROM embeddings_queue").fetchone()[0]
    return reached == [last, last] and waiting == 1


CHANGES: dict[str, Callable[[list[ChunkRow]], list[ChunkRow]]] = {
    "nothing": lambda rows: rows,
    "one row goes": lambda rows: rows[1:],
    "one row comes": lambda rows: [*rows, *new_rows(1)],
    "one row changes": lambda rows: [replace(rows[0], metadata={"number": 7.5}), *rows[1:]],
    "some go": lambda rows: rows[80:],
    "some come and go, in another order": lambda rows: [*new_rows(60), *reversed(rows[37:])],
    "pages move": lambda rows: [*(replace(row, url=row.url + "/moved") for row in rows[:50]), *rows[50:]],
    "a text that stood already comes once more": lambda rows: [*rows, replace(rows[3], document_id="twin")],
}


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_delta_makes_what_the_table_says_and_stays_so_when_it_is_read(
    base: Any, rows: list[ChunkRow], change: Callable[[list[ChunkRow]], list[ChunkRow]]
) -> None:
    after = change(rows)
    facts = build(base, after)
    ids_before, ids = {row.chunk_id for row in rows}, {row.chunk_id for row in after}
    assert (facts.kind, facts.added, facts.removed) == ("delta", len(ids - ids_before), len(ids_before - ids))
    folder = version_dir(base.index_dir, "v0002")
    assert is_flushed(folder)
    assert problems(base, "v0002") == []
    manifest = finish(base, "v0002", after, facts)
    with OpenVersion(base.index_dir, "v0002") as version:
        assert len(version.query(np.full(16, 0.25, dtype=np.float32), 5)) == 5
    assert problems(base, "v0002", manifest) == []  # its index files, too, although it was opened and queried


def test_stock_client_sees_no_difference_between_a_delta_and_a_full_build(base: Any, rows: list[ChunkRow]) -> None:
    after = [*rows[30:], *new_rows(40)]
    assert (build(base, after).kind, build(base, after, "v0003", None).kind) == ("delta", "full")
    assert content(version_dir(base.index_dir, "v0002")) == content(version_dir(base.index_dir, "v0003"))


def test_parent_is_left_as_it_was_while_a_reader_has_it_open(base: Any, rows: list[ChunkRow]) -> None:
    folder = version_dir(base.index_dir, "v0001")
    before, vector = content(folder), np.full(16, 0.25, dtype=np.float32)
    with OpenVersion(base.index_dir, "v0001") as reader:
        hits = reader.query(vector, 20)
        build(base, [*rows[100:], *new_rows(20)])
        assert reader.query(vector, 20) == hits
    assert content(folder) == before
    assert problems(base, "v0001", OpenVersion(base.index_dir, "v0001").manifest) == []
    shared = {path.stat().st_ino for path in folder.rglob("*")} & {
        path.stat().st_ino for path in version_dir(base.index_dir, "v0002").rglob("*")
    }
    assert shared == set()


def test_row_first_seen_at_another_time_goes_and_comes_anew(base: Any, rows: list[ChunkRow]) -> None:
    """The time stands in Chroma and is no part of the id."""
    after = [replace(rows[0], fetched_at="2027-01-01T00:00:00+00:00"), *rows[1:]]
    facts = build(base, after)
    assert (facts.kind, facts.added, facts.removed) == ("delta", 1, 1)
    assert (
        content(version_dir(base.index_dir, "v0002"))[rows[0].chunk_id][1]["fetched_at"] == "2027-01-01T00:00:00+00:00"
    )
    assert problems(base, "v0002") == []


@pytest.mark.slow
def test_versions_made_one_from_another_hold_what_a_plain_set_holds(base: Any, rows: list[ChunkRow]) -> None:
    chance, live, coming = random.Random(4), list(rows), 9000
    for number in range(2, 7):
        name, before = f"v{number:04d}", f"v{number - 1:04d}"
        live = [row for row in live if chance.random() > 0.06] + new_rows(chance.randrange(30), coming)
        coming += 100
        facts = build(base, live, name, before)
        assert facts.kind == "delta"
        assert problems(base, name) == []
        finish(base, name, live, facts)
    assert set(content(version_dir(base.index_dir, name))) == {row.chunk_id for row in live}
    assert problems(base, name, OpenVersion(base.index_dir, name).manifest) == []
    vectors = VectorStore(base.vectors, base.job().embedder).read([row.text_sha256 for row in live])
    with OpenVersion(base.index_dir, name) as version:
        cosines = [version.query(vector, 1)[0][1] for vector in vectors[::7]]
    assert cosines == pytest.approx([1.0] * len(cosines), abs=1e-5)


def _flip(path: Path) -> None:
    changed = bytearray(path.read_bytes())
    changed[len(changed) // 2] ^= 1
    path.write_bytes(changed)


def _execute(folder: Path, *statements: str) -> None:
    with closing(sqlite3.connect(folder / "chroma" / "chroma.sqlite3")) as database, database:
        for statement in statements:
            database.execute(statement)


def _in_manifest(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        stored = json.loads((folder / "manifest.json").read_text())
        change(stored)
        (folder / "manifest.json").write_text(json.dumps(stored))

    return edit


NO_DELTA: dict[str, tuple[Callable[[Path], object], str, bool]] = {
    "index file flipped": (
        lambda folder: _flip(next(folder.rglob("data_level0.bin"))),
        "data_level0.bin was altered|file was altered",
        True,
    ),
    "index file missing": (lambda folder: next(folder.rglob("link_lists.bin")).unlink(), "file is missing", True),
    "database missing": (lambda folder: (folder / "chroma" / "chroma.sqlite3").unlink(), "file is missing", True),
    "database ruined": (
        lambda folder: (folder / "chroma" / "chroma.sqlite3").write_bytes(b"no database" * 999),
        "cannot go on",
        True,
    ),
    "database without its segments": (
        lambda folder: _execute(folder, "DROP TABLE segments"),
        "cannot go on",
        True,
    ),
    "table flipped": (lambda folder: _flip(folder / "chunks.parquet"), "its table is damaged", True),
    "manifest torn": (lambda folder: (folder / "manifest.json").write_text("{"), "manifest", True),
    "parent gone": (lambda folder: shutil.rmtree(folder), "no version 'v0001'|no version", True),
    "other collection": (_in_manifest(lambda stored: stored.update(collection="others")), "another collection", False),
    "other embedder": (
        _in_manifest(lambda stored: stored["embedder"].update(fingerprint="f" * 16)),
        "embedder",
        False,
    ),
    "no facts": (_in_manifest(lambda stored: stored.update(lineage={})), "laid out in another way", False),
    "other layout": (
        _in_manifest(lambda stored: stored["lineage"]["build"].update(layout="old")),
        "laid out in another way",
        False,
    ),
    "half added": (
        _in_manifest(lambda stored: stored["lineage"]["build"].update(slots=599)),
        "has room for 599",
        False,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("cause", "why", "damaged"), NO_DELTA.values(), ids=NO_DELTA)
def test_full_build_where_no_delta_should_be_made(
    base: Any, rows: list[ChunkRow], cause: Callable[[Path], object], why: str, damaged: bool
) -> None:
    cause(version_dir(base.index_dir, "v0001"))
    after = [*rows[10:], *new_rows(10)]
    facts = build(base, after)
    assert (facts.kind, facts.added, facts.slots, facts.parent_damaged) == ("full", len(rows), len(rows), damaged)
    assert facts.why_full is not None
    assert any(part in facts.why_full for part in why.split("|"))
    assert problems(base, "v0002") == []


def test_full_build_where_it_is_cheaper(base: Any, rows: list[ChunkRow]) -> None:
    facts = build(base, [*rows[:20], *new_rows(20)])
    assert (facts.kind, facts.parent_damaged) == ("full", False)


def test_parent_of_one_row_or_none_is_followed_by_a_full_build(base: Any, rows: list[ChunkRow]) -> None:
    for number, count in ((2, 0), (3, 1), (4, 300)):
        after = rows[:count]
        facts = build(base, after, f"v{number:04d}", f"v{number - 1:04d}")
        assert facts.kind == "full"
        finish(base, f"v{number:04d}", after, facts)
        assert problems(base, f"v{number:04d}") == []


def _delete(collection: Collection, chunk_id: str) -> None:
    collection.delete(ids=[chunk_id])


def _add(collection: Collection, _chunk_id: str) -> None:
    collection.add(ids=["foreign"], embeddings=np.full((1, 16), 0.25, dtype=np.float32), documents=["spam"])


def _alter_text(collection: Collection, chunk_id: str) -> None:
    got = collection.get(ids=[chunk_id], include=["embeddings"])
    collection.update(ids=[chunk_id], documents=["spam"], embeddings=np.asarray(got["embeddings"], dtype=np.float32))


def _alter_metadata(collection: Collection, chunk_id: str) -> None:
    collection.update(ids=[chunk_id], metadatas=[{"number": 7.5}])


def _alter_vector(collection: Collection, chunk_id: str) -> None:
    collection.update(ids=[chunk_id], embeddings=np.full((1, 16), 0.25, dtype=np.float32))


@pytest.mark.slow
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
@pytest.mark.parametrize("tampered_row", ["new", "taken over"])
def test_verification_of_a_delta_finds_what_differs(
    base: Any, rows: list[ChunkRow], tamper: Callable[[Collection, str], None], expected: str, tampered_row: str
) -> None:
    after = [*rows[10:], *new_rows(10)]
    build(base, after)
    with stock_client(version_dir(base.index_dir, "v0002")) as collection:
        tamper(collection, after[-1 if tampered_row == "new" else 0].chunk_id)
    assert expected in {problem.kind for problem in problems(base, "v0002")}


def test_verification_of_a_delta_finds_a_table_that_is_not_what_was_built(base: Any, rows: list[ChunkRow]) -> None:
    build(base, [*rows[10:], *new_rows(10)])
    write_table(version_dir(base.index_dir, "v0002") / "chunks.parquet", chunks_table([*rows[9:], *new_rows(10)]))
    # and fewer vectors than rows
    assert {problem.kind for problem in problems(base, "v0002")} == {
        "row_missing",
        "row_altered",
        "unreadable",
    }


@pytest.mark.slow
def test_child_processes_build_and_verify_a_delta_and_tell_how_it_was_made(base: Any, rows: list[ChunkRow]) -> None:
    after = [*rows[10:], *new_rows(5)]
    base.embed(after)
    seen: list[tuple[int, int]] = []
    facts = build_version(base.job("v0002", "v0001"), on_progress=lambda done, total: seen.append((done, total)))
    assert (facts.kind, facts.added, facts.removed, facts.found, facts.slots) == ("delta", 5, 10, 390, 405)
    assert seen == [(395, 395)]
    assert verify_version(version_dir(base.index_dir, "v0002"), None, base.vectors, base.job().embedder) == []


def test_a_stock_client_that_opens_a_version_where_it_lies_damages_nothing(base: Any, rows: list[ChunkRow]) -> None:
    with stock_client(version_dir(base.index_dir, "v0001")) as collection:
        assert collection.count() == len(rows)
    assert problems(base, "v0001") == []
    facts = build(base, rows[10:])
    assert (facts.kind, facts.found) == ("delta", len(rows) - 10)
    assert problems(base, "v0002") == []


def test_what_a_stock_client_has_changed_is_sent_again_or_found_by_verification(
    base: Any, rows: list[ChunkRow]
) -> None:
    folder = version_dir(base.index_dir, "v0001")
    with stock_client(folder) as collection:
        _delete(collection, rows[1].chunk_id)
        _alter_text(collection, rows[2].chunk_id)
        _alter_metadata(collection, rows[3].chunk_id)
        _alter_vector(collection, rows[4].chunk_id)
        _add(collection, "")
    facts = build(base, rows)
    assert (facts.kind, facts.found, facts.added, facts.removed) == ("delta", len(rows) - 1, 1, 1)
    assert {problem.kind for problem in problems(base, "v0002")} == {"row_altered", "vector_altered"}


def test_layout_of_rows_follows_the_code_that_makes_them_and_chroma(monkeypatch: pytest.MonkeyPatch) -> None:
    before = module.row_layout()
    monkeypatch.setattr(module, "version", lambda _: "99")
    another_chroma = module.row_layout()
    monkeypatch.undo()
    monkeypatch.setattr(module, "code_fingerprint", lambda *_: "other code")
    assert len({before, another_chroma, module.row_layout()}) == 3


def test_manifest_hash_is_what_sha256sum_writes(base: Any) -> None:
    folder = version_dir(base.index_dir, "v0001")
    digest = hashlib.sha256((folder / "manifest.json").read_bytes()).hexdigest()
    assert (folder / "manifest.sha256").read_text() == f"{digest}  manifest.json\n"


def test_chroma_that_fails_on_a_full_disk_is_told_as_that(
    base: Any, rows: list[ChunkRow], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chroma names no cause. Every disk counts as full here, and an id that Chroma refuses makes it fail."""
    from almanac.index.chroma import chroma_client as engine

    folder = version_dir(base.index_dir, "v0001")
    monkeypatch.setattr(engine, "_HARDLY_ANY", 1 << 62)
    with pytest.raises(OSError, match="No space left"), engine.as_disk_full(folder), stock_client(folder) as collection:
        collection.add(ids=[rows[0].chunk_id], embeddings=np.ones((1, 3), dtype=np.float32))
