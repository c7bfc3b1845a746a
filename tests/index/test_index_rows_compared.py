"""Digests and derived parameters: the same as plain Python gives, however the table is divided and
however little memory there is.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from almanac.core import tables
from almanac.core.tables import batches_of, write_table
from almanac.index.build import digest
from almanac.index.build.derived import derive
from almanac.index.build.digest import digest_of
from almanac.schemas.declaration.embed_section import Embed
from almanac.schemas.hashing import sha256


def _digested(count: int) -> list[dict[str, Any]]:
    rows = np.random.default_rng(count).permutation(count).tolist()
    return [
        {
            "chunk_id": sha256(str(n))[:32],
            "text_sha256": sha256(str(n % 7)),
            "metadata": json.dumps({"n": n, "of": "é\n" * n}),
        }
        for n in rows
    ]


@pytest.mark.parametrize("count", [0, 1, 300])
def test_the_digest_is_that_of_the_sorted_rows(tmp_path: Path, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_SORTED", 70)
    monkeypatch.setattr(digest, "_STEP", 20)
    rows = _digested(count)
    wanted = _reference(rows)
    schema = pa.schema([(name, pa.string()) for name in ("chunk_id", "text_sha256", "metadata")])
    table = pa.Table.from_pylist(rows, schema=schema)
    write_table(tmp_path / "chunks.parquet", table)
    assert digest_of(table, "f") == digest_of(batches_of(tmp_path / "chunks.parquet", rows=17), "f") == wanted
    assert [path.name for path in tmp_path.iterdir()] == ["chunks.parquet"]


def _reference(rows: list[dict[str, Any]]) -> str:
    digest = hashlib.sha256(f"{len(rows)} f\n".encode())
    for row in sorted(rows, key=lambda row: str(row["chunk_id"])):
        digest.update("\n".join([row["chunk_id"], row["text_sha256"], row["metadata"]]).encode())
    return digest.hexdigest()


def test_parameters_are_derived_of_all_batches(tmp_path: Path) -> None:
    rows = [
        {**row, "metadata": json.dumps({"language": ["en", "de", None][n % 3]})} for n, row in enumerate(_digested(50))
    ]
    write_table(tmp_path / "chunks.parquet", pa.Table.from_pylist(rows))
    derived = derive(batches_of(tmp_path / "chunks.parquet"), Embed(), known={"en": 0.5, "de": 0.25, "": 1.0})
    assert derived.language_fit == {"en": 0.5, "de": 0.25, "": 1.0}
