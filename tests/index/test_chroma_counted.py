"""That another program has changed Chroma's rows is told by counts, and that a version was read is not."""

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from chromadb.api.models.Collection import Collection

from almanac.index.chroma.client import open_client, open_collection
from almanac.index.chroma.counted import misfit
from almanac.index.chroma.rows import CHROMA, DATABASE
from almanac.index.versions.store import require_whole, version_dir
from almanac.schemas.errors import DamagedVersion
from tests.index.conftest import INFO, Base, make_chunks


def _change(folder: Path, change: Callable[[Collection], object]) -> None:
    with open_client(folder) as client:
        change(open_collection(client, "notes"))


_VECTOR = np.ones((1, INFO.dimension), dtype=np.float32)


def _first(collection: Collection) -> list[str]:
    return sorted(collection.get(include=[])["ids"])[:1]


@pytest.mark.parametrize("count", [0, 1, 2, 40])
def test_a_version_that_is_read_and_asked_stays_whole(base: Base, count: int) -> None:
    manifest, folder = base.build(count=count), version_dir(base.index_dir, "v0001")
    for _ in range(3):
        _change(folder, lambda collection: (collection.count(), collection.get(), collection.query(_VECTOR)))
        require_whole(base.index_dir, manifest)


def test_a_delta_is_whole(base: Base) -> None:
    rows = make_chunks(1500)
    base.build(rows=rows)
    manifest = base.build("v0002", rows=rows[3:], parent="v0001")
    assert manifest.lineage["build"]["kind"] == "delta"
    require_whole(base.index_dir, manifest)


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        (lambda collection: collection.delete(ids=_first(collection)), "Chroma has 39 rows instead of 40"),
        (
            lambda collection: collection.add(ids=["more"], embeddings=_VECTOR, documents=["more"]),
            "41 rows instead of 40",
        ),
        (
            lambda collection: collection.update(ids=_first(collection), metadatas=[{"number": -1}]),
            "another program has changed rows",
        ),
        (
            lambda collection: collection.update(
                ids=_first(collection), embeddings=_VECTOR, documents=["another text"]
            ),
            "another program has changed rows",
        ),
    ],
)
def test_what_another_program_changes_is_told(base: Base, change: Callable[[Collection], object], finding: str) -> None:
    manifest, folder = base.build(count=40), version_dir(base.index_dir, "v0001")
    _change(folder, change)
    with pytest.raises(DamagedVersion, match=finding) as raised:
        require_whole(base.index_dir, manifest)
    assert "almanac rebuild KB v0001" in str(raised.value.hint)


def test_a_database_that_is_no_chromas_is_told_and_one_that_somebody_has_locked_is_not_judged(base: Base) -> None:
    base.build(count=4)
    folder = version_dir(base.index_dir, "v0001")
    database = folder / CHROMA / DATABASE
    with contextlib.closing(sqlite3.connect(database, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert misfit(folder, 5) is None
    with contextlib.closing(sqlite3.connect(database)) as other:
        other.execute("DROP TABLE max_seq_id")
    assert "cannot be read: no such table" in str(misfit(folder, 4))
    database.write_bytes(b"no database")
    assert "cannot be read" in str(misfit(folder, 4))
