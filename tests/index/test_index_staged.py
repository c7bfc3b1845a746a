"""Rows go into the collection as soon as they have a vector, and a build that goes on after a kill sends only what is
missing: what it makes is what a build that was never killed makes.
"""

import os
import random
import shutil
import signal
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from almanac.core.tables import chunks_table, write_table
from almanac.index.build.builder import BUILDER, build_here, build_version
from almanac.index.build.child_process import ForkServer
from almanac.index.chroma.chroma_client import open_client, open_collection
from almanac.index.chroma.chroma_rows import CHROMA, DATABASE
from almanac.index.chroma.leftover import STAGED, leftover_of, remove_leftovers
from almanac.index.vectors.vector_store import VectorStore
from almanac.index.verify.verifier import verify_version
from almanac.index.versions.publish import finish_version
from almanac.index.versions.version_store import discard_unfinished, version_dir
from almanac.schemas.errors import DamagedVersion, OperationalError
from almanac.schemas.items import ChunkRow
from almanac.schemas.manifest import Verdict
from tests.index.conftest import INFO, Base, HashEmbedder, make_chunks
from tests.processes import children_of
from tests.proof.base import TORTURE

_ROWS = 3000
_PART = 500


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Base:
    """A base of embedded rows: copy it."""
    base = Base(tmp_path_factory.mktemp("staged"))
    base.embed(_rows(_ROWS))
    return base


@pytest.fixture
def base(made: Base, tmp_path: Path) -> Base:
    shutil.copytree(made.root, tmp_path / "base")
    return Base(tmp_path / "base")


def _rows(count: int) -> list[ChunkRow]:
    return make_chunks(count)


def _job(base: Base, version: str = "v0001", name: str | None = "content") -> Any:
    return base.job(version).model_copy(update={"name": name})


def _problems(base: Base) -> list[Any]:
    return verify_version(version_dir(base.index_dir, "v0001"), None, base.vectors, INFO)


def _stop_at(rows: int) -> Callable[[int, int], None]:
    """Ends the child by SIGKILL once so many rows are in the collection."""

    def watch(done: int, _: int) -> None:
        if done >= rows:
            raise KeyboardInterrupt

    return watch


def _kill_at(base: Base, rows: int) -> Path:
    """Has a build killed at so many rows; returns its collection, which is put aside."""
    with pytest.raises(KeyboardInterrupt):
        build_version(_job(base), on_progress=_stop_at(rows))
    assert discard_unfinished(base.index_dir) == ["v0001"]
    return leftover_of(base.index_dir, "content") / CHROMA


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 2000, _ROWS])
def test_a_build_after_a_kill_sends_only_what_is_missing(base: Base, rows: int) -> None:
    _kill_at(base, rows)
    facts = build_version(_job(base))
    assert facts.found + facts.added == _ROWS
    assert facts.found >= rows - 1000
    assert not leftover_of(base.index_dir, "content").exists()
    assert _problems(base) == []
    manifest = finish_version(
        base.index_dir, base.manifest("v0001", _rows(_ROWS), Verdict(verdict="passed", checks=[]))
    )
    assert not list(version_dir(base.index_dir, "v0001").rglob(".*"))
    assert all(not stored.path.startswith(".") for stored in manifest.files)


@pytest.mark.slow
def test_kills_at_any_moment_in_a_flush_too_end_in_the_same_version(base: Base) -> None:
    """The child is killed after a random time, again and again; each build goes on from what the last one has left."""
    chance = random.Random(7)
    for _ in range(40 if TORTURE else 8):
        before = set(children_of(os.getpid()))
        wait_s = chance.uniform(0.05, 1.2)
        seen = threading.Event()

        def strike(wait_s: float = wait_s, before: set[int] = before, seen: threading.Event = seen) -> None:
            while not (forking := set(children_of(os.getpid())) - before):
                time.sleep(0.01)
            while not (children := children_of(next(iter(forking)))) and not seen.is_set():
                time.sleep(0.005)
            time.sleep(wait_s)
            for child in children:
                with suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)

        striking = threading.Thread(target=strike)
        striking.start()
        try:
            build_version(_job(base))
        except OperationalError as error:
            assert "SIGKILL" in str(error)
        else:
            assert _problems(base) == []
        finally:
            seen.set()
            striking.join()
        discard_unfinished(base.index_dir)
    facts = build_version(_job(base))
    assert facts.found + facts.added == _ROWS
    assert _problems(base) == []


def _ruin(name: str, content: bytes | None = None) -> Callable[[Path], None]:
    def ruin(chroma: Path) -> None:
        [path] = chroma.rglob(name)
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 3] if content is None else content)

    return ruin


def _lose_segments(chroma: Path) -> None:
    with closing(sqlite3.connect(chroma / DATABASE)) as database, database:
        database.execute("DELETE FROM segments")


@pytest.mark.slow
@pytest.mark.parametrize(
    "damage",
    [
        _ruin("data_level0.bin"),
        _ruin("data_level0.bin", b""),
        _ruin("index_metadata.pickle", b"no pickle"),
        _ruin(DATABASE),
        _ruin(DATABASE, b"no database"),
        lambda chroma: (chroma / DATABASE).unlink(),
        _lose_segments,
    ],
)
def test_a_collection_that_cannot_be_trusted_is_begun_anew(base: Base, damage: Callable[[Path], None]) -> None:
    damage(_kill_at(base, 2000))
    facts = build_version(_job(base))
    assert facts.found + facts.added == _ROWS
    assert _problems(base) == []


@pytest.mark.slow
def test_what_is_left_is_compared_row_by_row(base: Base) -> None:
    chroma = _kill_at(base, 2000)
    with open_client(chroma.parent) as client:
        collection = open_collection(client, "notes")
        first, second, third = sorted(collection.get(include=[])["ids"])[:3]
        vector = np.full((1, INFO.dimension), 0.25, dtype=np.float32)
        collection.update(ids=[first], metadatas=[{"number": -1}])
        collection.update(ids=[second], embeddings=vector)
        collection.delete(ids=[third])
        collection.add(ids=["foreign"], embeddings=vector, documents=["of another content"])
        left = collection.count()
    facts = build_version(_job(base))
    assert (facts.found, facts.removed) == (left - 3, 3)
    assert _problems(base) == []


def test_other_content_takes_nothing_of_what_is_left(base: Base) -> None:
    _kill_at(base, 1)
    facts = build_here(_job(base, name="other"))
    assert (facts.found, facts.added) == (0, _ROWS)
    assert leftover_of(base.index_dir, "content").exists()
    remove_leftovers(base.index_dir)
    assert not (base.index_dir / STAGED).exists()


@pytest.mark.slow
def test_rows_are_sent_as_their_vectors_arrive(tmp_path: Path) -> None:
    base, rows = Base(tmp_path), _rows(3 * _PART)
    is_embedded = threading.Event()
    write_table(base.chunks, chunks_table(rows))
    seen: list[int] = []
    built: list[Any] = []
    building = threading.Thread(
        target=lambda: built.append(
            build_version(_job(base), on_progress=lambda done, _: seen.append(done), until=is_embedded)
        )
    )
    building.start()
    store, keys, embedder = VectorStore(base.vectors, INFO), set[str](), HashEmbedder()
    for begin in range(0, len(rows), _PART):
        part = {
            row.text_sha256: row.embedded_text for row in rows[begin : begin + _PART] if row.text_sha256 not in keys
        }
        keys |= part.keys()
        store.write_part(list(part), embedder.embed_documents(list(part.values())))
        while not seen or seen[-1] < begin + _PART:
            assert building.is_alive()
            time.sleep(0.01)
    is_embedded.set()
    building.join()
    assert (built[0].added, built[0].found) == (len(rows), 0)
    assert _problems(base) == []


def test_a_vector_that_never_arrives_is_named(tmp_path: Path) -> None:
    base, rows = Base(tmp_path), _rows(4)
    base.embed(rows[:3])
    write_table(base.chunks, chunks_table(rows))
    with pytest.raises(DamagedVersion, match=rows[3].text_sha256):
        build_here(_job(base), more=(None, None))


@pytest.mark.slow
def test_a_build_that_is_stopped_is_not_taken_for_one_that_crashed(base: Base) -> None:
    _kill_at(base, 1000)
    is_embedded, fork_server = threading.Event(), ForkServer()
    seen = threading.Event()
    failures: list[str] = []

    def build() -> None:
        try:
            build_version(_job(base), on_progress=lambda *_: seen.set(), until=is_embedded, fork_server=fork_server)
        except OperationalError as error:
            failures.append(error.message)

    with fork_server:
        fork_server.start(BUILDER)
        building = threading.Thread(target=build)
        building.start()
        assert seen.wait(60)
        fork_server.stop()
        is_embedded.set()
        building.join(60)
    assert failures == [f"{BUILDER} was stopped"]
    assert discard_unfinished(base.index_dir) == ["v0001"]
    assert build_version(_job(base)).found >= 1000
