"""What Chroma holds of metadata, with real Chroma: whatever a table has, it is added, it comes back as it was put
there, and readers have the exact values.
"""

import json
import math
import random
import shutil
import string
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import chromadb
import numpy as np
import pytest
from chromadb.api.models.Collection import Collection
from chromadb.config import Settings

from almanac.index.chroma.chroma_client import add_rows, create_collection, open_client
from almanac.index.chroma.chroma_rows import OWN_KEYS, document_of, metadata_of
from almanac.index.reader import OpenVersion
from almanac.index.upkeep.export_chroma import export_chroma
from almanac.index.verify.verifier import VerifyJob, verify_here
from almanac.index.versions.publish import publish
from almanac.schemas.errors import OperationalError
from almanac.schemas.hashing import canonical_json
from almanac.schemas.items import ChunkRow
from almanac.schemas.reports import Problem
from tests.index.conftest import INFO, Base

_LOSSY = 121.48886955472557  # Chroma 1.5.9 gives …555 back
_ODD = {
    "lat": _LOSSY, "#": "hash", "# of seats": 4, "$ref": "x", "": "empty", "chroma:x": "c", "chroma:document": "d",
    "a\0b": "nul", "text": "c\0d",
    "big": 2**70, "least": -(2**63), "most": 2**63 - 1, "mass": 1.989e30, "tiny": 5e-324, "nothing": None,
    "nest": {"a": [1.1234567890123457, None]},
    "mixed": [1, "a", 2.5], "none": [], "yes": True, "source": "not ours", "so\0urce": "nor this",
    "_#": "a name of its own", "long": "x" * 300_000,
    "k" * 10_000: "long key",
}  # fmt: skip


def _row(metadata: dict[str, Any], number: int = 0, text: str = "text") -> ChunkRow:
    return ChunkRow(
        f"doc{number}",
        "shop",
        f"file:///doc{number}",
        "Title",
        "record",
        0,
        None,
        None,
        text,
        f"text {number}",
        metadata,
        "2026-01-01T00:00:00+00:00",
    )


def _stored(metadata: dict[str, Any], number: int = 0, text: str = "text") -> dict[str, Any]:
    """A row as the builder reads it from the table."""
    chunk = _row(metadata, number, text)
    names = ("chunk_id", *OWN_KEYS, "text", "text_sha256")
    return {name: getattr(chunk, name) for name in names} | {"metadata": canonical_json(chunk.metadata)}


def _publish(base: Base, rows: list[ChunkRow]) -> None:
    manifest = base.build(rows=rows)
    problems: list[Problem] = []
    verify_here(
        VerifyJob(version_dir=base.job().version_dir, manifest=manifest, vectors_root=base.vectors, embedder=INFO),
        problems.append,
    )
    assert problems == []
    publish(base.index_dir, "v0001")


def _in_chroma(folder: Path, name: str) -> dict[str, Any]:
    client = chromadb.PersistentClient(path=str(folder), settings=Settings(anonymized_telemetry=False))
    try:
        got = client.get_collection(name, embedding_function=None).get()
        return dict(zip(got["ids"], got["metadatas"] or [], strict=True))
    finally:
        client.close()  # type: ignore[attr-defined]


def test_a_version_is_built_and_verified_whatever_its_metadata_and_readers_have_the_exact_values(
    base: Base, tmp_path: Path
) -> None:
    rows = [_row(_ODD), _row({"lat": 19.990000000000002}, 1)]
    _publish(base, rows)
    with OpenVersion(base.index_dir, "v0001") as version:
        assert json.dumps(version.rows([rows[0].chunk_id])[0]["metadata"], sort_keys=True) == json.dumps(
            _ODD, sort_keys=True
        )
    copy = shutil.copytree(base.job().version_dir / "chroma", tmp_path / "copy")
    held = _in_chroma(copy, "notes")[rows[0].chunk_id]
    assert held.items() >= {
        "lat": 121.488869554726, "_# of seats": 4, "_$ref": "x", "_": "empty", "_chroma:x": "c",
        "_chroma:document": "d", "ab": "nul", "text": "cd",
        "big": str(2**70), "least": str(-(2**63)), "most": 2**63 - 1, "mass": "1.989e+30", "tiny": "5e-324",
        "nest": '{"a":[1.1234567890123457,null]}',
        "mixed": '[1,"a",2.5]', "none": "[]", "yes": True, "source": "shop", "_#": "a name of its own",
        "long": "x" * 300_000, "k" * 10_000: "long key",
    }.items()  # fmt: skip
    assert held.keys() - _ODD.keys() == {
        "_# of seats",
        "_$ref",
        "_",
        "_chroma:x",
        "_chroma:document",
        "ab",
        *OWN_KEYS,
    } - {"source", "start", "end"}
    export_chroma(base.index_dir, "v0001", tmp_path / "out")
    assert _in_chroma(tmp_path / "out", "notes")[rows[0].chunk_id] == held


def _round_trip(folder: Path, rows: list[dict[str, Any]]) -> dict[str, tuple[str, dict[str, Any]]]:
    """Chunk id → document and metadata, as another client reads them."""
    (folder / "chroma").mkdir()
    vectors = np.ones((len(rows), INFO.dimension), dtype=np.float32)
    with open_client(folder) as client:
        collection = create_collection(client, "notes", "notes", INFO, 1000)
        for begin in range(0, len(rows), 1000):
            add_rows(collection, rows[begin : begin + 1000], vectors[begin : begin + 1000])
    with open_client(folder) as client:
        got = client.get_collection("notes", embedding_function=None).get(include=["metadatas", "documents"])
    pairs = zip(got["documents"] or [], got["metadatas"] or [], strict=True)
    return {
        chunk_id: (text, dict(metadata or {})) for chunk_id, (text, metadata) in zip(got["ids"], pairs, strict=True)
    }


def test_a_row_of_a_hundred_thousand_keys_is_held_with_the_first_ones(tmp_path: Path) -> None:
    rows = [_stored({f"key {number:06}": number for number in range(100_000)}), _stored({"other": 1}, 1)]
    _, held = _round_trip(tmp_path, rows)[rows[0]["chunk_id"]]
    assert len(held) == 5000 and held["key 000000"] == 0 and "key 099999" not in held


def _random_text(draw: random.Random) -> str:
    return "".join(
        draw.choices(
            [*string.printable, "#", "$", "chroma:", "\0", "_", "é", "😀", "\u200b", "\ufffe", "{", "'"],
            k=draw.randrange(6),
        )
    )


def _random_value(draw: random.Random) -> Any:
    kinds: Sequence[Callable[[], Any]] = (
        lambda: struct.unpack("d", draw.randbytes(8))[0],
        lambda: draw.uniform(-180, 180),
        lambda: draw.uniform(-1, 1) * 10 ** draw.randint(-30, 30),
        lambda: round(draw.uniform(-1e6, 1e6), draw.randrange(8)),
        lambda: float(draw.randrange(10 ** draw.randint(1, 20))),
        lambda: math.ldexp(draw.random(), draw.randint(-80, 60)),
        lambda: draw.choice(
            [
                1e15 - 1,
                1e15,
                999999999999999.9,
                1e-22,
                1.5e-22,
                1e22,
                1e23,
                2.0**53 + 2,
                -0.0,
                math.nan,
                math.inf,
                1.7976931348623157e308,
            ]
        ),
        lambda: draw.choice([1, -1]) * draw.randrange(10 ** draw.randint(1, 40)),
        lambda: draw.choice([True, False, None]),
        lambda: _random_text(draw),
        lambda: [_random_value(draw) for _ in range(draw.randrange(3))],
        lambda: {_random_text(draw): _random_value(draw) for _ in range(draw.randrange(3))},
    )
    return draw.choice(kinds)()


def test_chroma_gives_back_what_it_was_given(tmp_path: Path) -> None:
    """Of random floats with all of their digits, an eighth came back with another last bit."""
    draw = random.Random(7)
    rows = []
    for number in range(1000):
        metadata = {_random_text(draw): _random_value(draw) for _ in range(draw.randrange(6))}
        if draw.random() < 0.2:
            metadata[draw.choice(OWN_KEYS)] = _random_value(draw)
        rows.append(_stored(metadata, number, _random_text(draw)))
    read_rows = _round_trip(tmp_path, rows)
    assert len(read_rows) == len(rows)
    for row in rows:
        text, metadata = read_rows[row["chunk_id"]]
        assert text == document_of(row)
        assert {key: (type(value), value) for key, value in metadata.items()} == {
            key: (type(value), value) for key, value in metadata_of(row).items()
        }


@pytest.mark.parametrize(
    ("text", "metadata", "what"),
    [("a\ud800b", {}, "text"), ("text", {"colour": "red", "size": "a\ud800b"}, "field size")],
)
def test_what_chroma_refuses_all_the_same_is_named_with_its_row_and_field(
    tmp_path: Path, text: str, metadata: dict[str, Any], what: str
) -> None:
    """No table holds a lone surrogate, which stands in for what a later Chroma may refuse."""
    rows = [_stored({"n": number}, number) for number in range(5)]
    rows[3] |= {"text": text, "metadata": json.dumps(metadata)}
    (tmp_path / "chroma").mkdir()
    with open_client(tmp_path) as client:
        collection: Collection = create_collection(client, "notes", "notes", INFO, 5)
        with pytest.raises(OperationalError, match=f"the {what} of doc3") as raised:
            add_rows(collection, rows, np.ones((5, INFO.dimension), dtype=np.float32))
    assert raised.value.where == "source shop, file:///doc3" and "run again" not in str(raised.value.hint)
