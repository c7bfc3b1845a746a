"""Runs whose chunker needs the embedder, and whose chunks are longer than it reads."""

import json
from pathlib import Path

import pytest

from almanac.core.load import load_declaration
from almanac.core.settings import DataDir
from almanac.flows.pipeline.run import Run
from almanac.schemas.scope import Scope
from tests.conftest import Almanac
from tests.flows.commands import carry_out
from tests.index.making import without_children

pytestmark = pytest.mark.slow


def _declare(folder: Path, chunk: str) -> str:
    path = folder / "notes.yaml"
    path.write_text(
        f"name: notes\nsources: [{{name: notes, kind: files, glob: 'notes/*.md', yields: documents}}]\nchunk: "
        f"{chunk}\n",
        encoding="utf-8",
    )
    return str(path)


def _write(folder: Path, name: str, text: str) -> None:
    (folder / "notes").mkdir(exist_ok=True)
    (folder / "notes" / f"{name}.md").write_text(text, encoding="utf-8")


def test_topics_and_tokens_are_planned_and_cut_by_the_declared_embedder(almanac: Almanac, tmp_path: Path) -> None:
    _write(
        tmp_path,
        "a",
        "# Pets\n\n"
        + "Cats purr and sleep all day. Kittens chase mice. " * 4
        + "Interest rates rose again. The bank lends less money. " * 4,
    )
    kb = _declare(tmp_path, "{by: semantic, size: 60, unit: tokens, headings: true}")
    plan = almanac("plan", kb, "--json").json
    report = almanac("run", kb, "--json").json
    assert plan["chunks_to_embed"] == report["chunks"]["embedded"] > 1
    assert (report["outcome"], report["chunks"]["truncated"]) == ("published", 0)
    assert almanac("run", kb, "--json").json["outcome"] == "unchanged"


def test_what_the_embedder_cuts_off_is_told_in_every_run(almanac: Almanac, tmp_path: Path) -> None:
    kb = _declare(tmp_path, "{by: none}")
    for name in ("one", "two"):
        _write(tmp_path, name, f"{name} " * 300)
    _write(tmp_path, "short", "A short one.")
    first = almanac("run", kb, "--json")
    assert first.json["chunks"].items() >= {"total": 3, "embedded": 3, "cached": 0, "truncated": 2}.items()
    assert "only the beginning is embedded" in first.stderr and "another chunk.by than none" in first.stderr

    def run(*, full: bool = False) -> dict[str, int]:
        """What is told of the chunks; where that is shown again, a process proves nothing more."""
        with without_children():
            chunks: dict[str, int] = carry_out(Run(load_declaration(kb, ""), DataDir(almanac.data), Scope(full=full)))[
                "chunks"
            ]
        return chunks

    assert run().items() >= {"total": 3, "embedded": 0, "cached": 3, "truncated": 2}.items()
    _write(tmp_path, "one", "Short by now.")
    _write(tmp_path, "three", "three " * 400)
    _write(tmp_path, "four", "four " * 400)
    assert run()["truncated"] == 3
    assert run(full=True)["truncated"] == 3


def test_a_record_that_is_cut_off_is_not_told_to_be_cut_smaller(almanac: Almanac, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(json.dumps({"id": 1, "text": "word " * 400}), encoding="utf-8")
    fields = 'id: "{id}", text: "{text}", fields: {id: {json: id}, text: {json: text}}'
    (tmp_path / "kb.yaml").write_text(
        f"name: rows\nsources: [{{name: rows, kind: files, glob: rows.jsonl, yields: records, {fields}}}]\n",
        encoding="utf-8",
    )
    printed = almanac("plan", str(tmp_path / "kb.yaml")).stderr
    assert "for records, a shorter `text`" in printed and "chunk.size" not in printed


def test_a_plan_tells_the_time_of_a_run_by_this_machine_and_then_by_the_last_run(
    almanac: Almanac, tmp_path: Path
) -> None:
    """Embedding 320 texts takes seconds on any machine, and a survey of one file less."""
    rows = [
        json.dumps({"id": n, "text": f"Lantern {n} hangs at pier {n * 7} and is lit from dusk until dawn. " * 8})
        for n in range(320)
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(rows), encoding="utf-8")
    fields = 'id: "{id}", text: "{text}", fields: {id: {json: id}, text: {json: text}}'
    kb = str(tmp_path / "kb.yaml")
    Path(kb).write_text(
        f"name: rows\nsources: [{{name: rows, kind: files, glob: rows.jsonl, yields: records, {fields}}}]\n",
        encoding="utf-8",
    )
    foretold = almanac("plan", kb, "--json").json["seconds"]
    took = almanac("run", kb, "--json").json["seconds"]
    assert took["embed"] / 5 < foretold < sum(took.values()) * 5
    rows += [json.dumps({"id": n, "text": f"Buoy {n}"}) for n in range(1000, 1400)]
    (tmp_path / "rows.jsonl").write_text("\n".join(rows), encoding="utf-8")
    assert almanac("plan", kb, "--json").json["seconds"] > 400 * took["embed"] / 320


def test_metadata_may_have_the_file_name_and_the_length_of_a_document(almanac: Almanac, tmp_path: Path) -> None:
    source = '{name: notes, kind: files, glob: "notes/*.md", yields: documents, metadata: [filename, length]}'
    (tmp_path / "kb.yaml").write_text(
        f"name: notes\nsources: [{source}]\nchunk: {{size: 80, overlap: 0}}\n", encoding="utf-8"
    )
    _write(tmp_path, "Über uns", "# About us\n\n" + "We mend lanterns, and light them from dusk until dawn. " * 4)
    kb = str(tmp_path / "kb.yaml")
    assert almanac("run", kb, "--json").json["outcome"] == "published"
    (document,) = [json.loads(line) for line in almanac("export", kb, "documents").stdout.splitlines()]
    chunks = [json.loads(line) for line in almanac("export", kb, "chunks").stdout.splitlines()]
    assert len(chunks) > 1
    assert {json.dumps(chunk["metadata"]) for chunk in chunks} == {
        json.dumps({"filename": "Über uns.md", "length": len(document["text"])})
    }
    assert len(almanac("search", kb, "lanterns", "--where", '{"filename": "Über uns.md"}', "--json").json["hits"]) > 0
