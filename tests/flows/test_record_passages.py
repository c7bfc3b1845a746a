"""Passages of records through runs: what is not embedded costs nothing to change, and workspaces are not told of each
other.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from almanac.core.load import load_declaration
from almanac.core.settings import DataDir
from almanac.core.tables import CHUNKS
from almanac.index.reader import OpenVersion
from almanac.index.verify.verifier import verify_version
from almanac.index.versions.version_store import read_manifest, version_dir
from almanac.query.retrieval.request import Request
from almanac.query.retrieval.retriever import Retriever
from almanac.transforms import mapped_pages as mapped
from tests.index.conftest import INFO
from tests.proof.acts import run, small_and_here

_DECLARATION = """
name: proof
language: en
sources:
  - name: tours
    kind: files
    glob: tours.jsonl
    yields: records
    id: "{code}"
    title: "{name}"
    fields:
      code: {json: code, required: true}
      name: {json: name, required: true}
      price: {json: price, type: price}
      teams: {json: teams, many: true}
      terms: {json: terms, LABEL}
    text: "{name}."
retrieve: {workspace: teams}
"""


def _write(place: Path, price: str = "32.00 EUR", label: str = "label: Terms") -> None:
    tours = [
        {
            "code": f"t{n}",
            "name": f"Tour number {n}",
            "price": "10 EUR",
            "terms": "None.",
            "teams": ["red", "blue"][: 1 + n % 2],
        }
        for n in range(4)
    ]
    tours[1]["price"] = price
    place.mkdir(exist_ok=True)
    (place / "tours.jsonl").write_text("".join(f"{json.dumps(tour)}\n" for tour in tours))
    (place / "proof.yaml").write_text(_DECLARATION.replace("LABEL", label))


def _chunks(place: Path, version: str) -> list[dict[str, Any]]:
    table = pq.read_table(version_dir(DataDir(place / "data").index("proof"), version) / CHUNKS)
    return sorted(table.to_pylist(), key=lambda row: row["document_id"])


def test_a_change_of_what_is_only_shown_embeds_nothing_and_a_delta_equals_a_full_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index_dir, vectors = DataDir(tmp_path / "a" / "data").index("proof"), DataDir(tmp_path / "a" / "data").vectors
    with small_and_here(tmp_path / "a"):
        _write(tmp_path / "a")
        assert run(tmp_path / "a")["chunks"]["embedded"] == 4
        assert (
            _chunks(tmp_path / "a", "v0001")[1]["passage"]
            == "Code: t1\nName: Tour number 1\nPrice: €32.00\nTerms: None."
        )
        _write(tmp_path / "a", price="40.00 EUR")
        second = run(tmp_path / "a")
        assert (
            second["outcome"],
            second["items"]["changed"],
            second["items"]["unchanged"],
            second["chunks"]["embedded"],
        ) == ("published", 1, 3, 0)
        assert read_manifest(index_dir, "v0002").lineage["build"]["kind"] == "delta"
        assert "Price: €40.00" in _chunks(tmp_path / "a", "v0002")[1]["passage"]
        _write(tmp_path / "a", price="40.00 EUR", label="label: Conditions")
        third = run(tmp_path / "a")
        assert (third["items"]["changed"], third["chunks"]["embedded"]) == (4, 0)
        assert all("Conditions: None." in row["passage"] for row in _chunks(tmp_path / "a", "v0003"))
        manifest = read_manifest(index_dir, "v0003")
        assert verify_version(version_dir(index_dir, "v0003"), manifest, vectors, INFO) == []
        monkeypatch.setattr(mapped, "prepare_items", lambda *_, **__: pytest.fail("a passage is written again"))
        assert run(tmp_path / "a")["outcome"] == "unchanged"
    monkeypatch.undo()
    with small_and_here(tmp_path / "b"):
        _write(tmp_path / "b", price="40.00 EUR", label="label: Conditions")
        run(tmp_path / "b")
    assert read_manifest(DataDir(tmp_path / "b" / "data").index("proof"), "v0001").digest == manifest.digest
    assert [row["passage"] for row in _chunks(tmp_path / "b", "v0001")] == [
        row["passage"] for row in _chunks(tmp_path / "a", "v0003")
    ]


def test_a_workspace_is_told_of_itself_alone(tmp_path: Path) -> None:
    with small_and_here(tmp_path):
        _write(tmp_path)
        run(tmp_path)
    declaration = load_declaration(str(tmp_path / "proof.yaml"))
    with OpenVersion(DataDir(tmp_path / "data").index("proof"), "v0001") as opened:
        retriever = Retriever(declaration, opened, lambda texts: np.ones((len(texts), INFO.dimension), np.float32))

        def find_teams(text: str, workspace: str | None) -> dict[str, Any]:
            hits = retriever.find(Request(text, None, 9, "lexical", workspace=workspace)).hits
            assert not any("red" in hit.readable or "blue" in hit.readable for hit in hits)
            return {hit.document_id: hit.metadata["teams"] for hit in hits}

        assert find_teams("tour", None) == {"t0": ["red"], "t1": ["red", "blue"], "t2": ["red"], "t3": ["red", "blue"]}
        assert find_teams("tour", "blue") == {"t1": ["blue"], "t3": ["blue"]}
        assert find_teams("red", "blue") == find_teams("red", None) == {}
