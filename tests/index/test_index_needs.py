"""Which vectors are needed: by versions, segments and runs of all knowledge bases, each table read by itself."""

import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from almanac.core.digests import digests_of
from almanac.core.settings import DataDir
from almanac.core.tables import CHUNKS
from almanac.index.upkeep import prune as module
from almanac.index.upkeep.prune import needed_keys
from almanac.index.vectors.keys import keys_in
from almanac.index.vectors.retention import prune_vectors
from almanac.index.vectors.vector_store import VectorStore
from almanac.schemas.hashing import sha256
from almanac.schemas.manifest import EmbedderInfo


def _table(
    data: DataDir,
    place: str,
    keys: str,
    embedder: str | None = None,
    *,
    manifest: str = "manifest.json",
    content: str | None = None,
) -> Path:
    import pyarrow.parquet as pq

    path = data.root / place / CHUNKS
    path.parent.mkdir(parents=True)
    pq.write_table(pa.table({"text_sha256": pa.array([sha256(key) for key in keys], pa.string())}), path)
    if embedder is not None:
        files = [] if content is None else [{"path": CHUNKS, "sha256": content}]
        path.with_name(manifest).write_text(json.dumps({"embedder": {"fingerprint": embedder}, "files": files}))
    return path


@pytest.fixture
def data(tmp_path: Path) -> DataDir:
    data = DataDir(tmp_path)
    _table(data, "index/shop/versions/v0001", "ab", "one", content="first")
    _table(data, "index/shop/versions/v0002", "ab", "one", content="first")
    _table(data, "index/shop/versions/v0003", "bc", "one", content="third")
    _table(data, "index/other/versions/v0001", "x", "two")
    _table(data, "index/shop/segments/5f", "de", "one", manifest="segment.json")
    _table(data, "index/shop/segments/60", "f")  # not sealed yet
    _table(data, "processed/shop", "g")
    _table(data, "processed/shop/.staging/run", "h")
    return data


def _needed(data: DataDir, fingerprint: str | None, *, overlook_unreadable: bool = False) -> str | None:
    keys = needed_keys(data, fingerprint, overlook_unreadable=overlook_unreadable)
    letters = "abcdefghxyz"
    return (
        None
        if keys is None
        else "".join(np.array(list(letters))[keys.has(digests_of([sha256(letter) for letter in letters]))])
    )


def test_needed_is_what_any_table_of_the_embedder_or_of_an_unknown_one_has(data: DataDir) -> None:
    assert (_needed(data, "one"), _needed(data, "two"), _needed(data, "three")) == (
        "abcdefgh",
        "fghx",
        "fgh",
    )
    keys = needed_keys(data)
    assert keys is not None
    assert keys.has(digests_of([sha256(letter) for letter in "xyac"])).tolist() == [True, False, True, True]


def test_an_unreadable_table_keeps_the_vectors_that_may_be_its_own(data: DataDir) -> None:
    broken = data.root / "index/shop/segments/5f" / CHUNKS
    broken.write_bytes(b"PAR1 and no more")
    assert (_needed(data, "one"), _needed(data, "two")) == (None, "fghx")
    assert _needed(data, "one", overlook_unreadable=True) == "abcfgh"
    assert needed_keys(data) is None
    broken.with_name("segment.json").unlink()
    assert _needed(data, "two") is None


def test_a_table_that_moves_while_others_are_read_is_read_where_it_is_then(
    data: DataDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    def moved(path: Path) -> Any:
        if path.parent.name == "run" and path.is_file():
            path.replace(data.root / "processed/shop" / CHUNKS)
        return keys_in(path)

    monkeypatch.setattr(module, "keys_in", moved)
    assert _needed(data, "three") == "fh"


def test_no_table_is_read_for_an_embedder_without_old_vectors(tmp_path: Path) -> None:
    fingerprints: list[str] = []
    for fingerprint, age in (("old", 1000), ("young", 0)):
        store = VectorStore(
            tmp_path, EmbedderInfo(provider="t", model="m", revision="1", dimension=2, fingerprint=fingerprint)
        )
        part = store.write_part([sha256("a"), sha256("b")], np.eye(2, dtype=np.float32))
        os.utime(part, (time.time() - age, time.time() - age))

    def needed(fingerprint: str) -> None:
        fingerprints.append(fingerprint)

    assert prune_vectors(tmp_path, needed, time.time() - 500) == (0, 0)
    assert fingerprints == ["old"]
