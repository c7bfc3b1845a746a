"""Runs whose chunker needs the embedder, and whose chunks are longer than it reads."""

from pathlib import Path

import pytest

from almanac.core.load import load_declaration
from almanac.core.settings import DataDir
from almanac.flows.pipeline.refresh import carry_out
from almanac.flows.pipeline.run import Run
from almanac.schemas.scope import Scope
from tests.conftest import Almanac
from tests.index.making import without_children

pytestmark = pytest.mark.slow


def _declare(folder: Path, chunk: str) -> str:
    path = folder / "notes.yaml"
    path.write_text(f"name: notes\nsources: [{{name: notes, kind: files, glob: 'notes/*.md', yields: documents}}]\nchunk: {chunk}\n", encoding="utf-8")
    return str(path)


def _write(folder: Path, name: str, text: str) -> None:
    (folder / "notes").mkdir(exist_ok=True)
    (folder / "notes" / f"{name}.md").write_text(text, encoding="utf-8")


def test_topics_and_tokens_are_planned_and_cut_by_the_declared_embedder(almanac: Almanac, tmp_path: Path) -> None:
    _write(tmp_path, "a", "# Pets\n\n" + "Cats purr and sleep all day. Kittens chase mice. " * 4 + "Interest rates rose again. The bank lends less money. " * 4)
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
    assert "only the beginning is embedded" in first.stderr

    def run(*, full: bool = False) -> dict[str, int]:
        """What is told of the chunks; where that is shown again, a process proves nothing more."""
        with without_children():
            chunks: dict[str, int] = carry_out(Run(load_declaration(kb, ""), DataDir(almanac.data), Scope(full=full)))["chunks"]
        return chunks

    assert run().items() >= {"total": 3, "embedded": 0, "cached": 3, "truncated": 2}.items()
    _write(tmp_path, "one", "Short by now.")
    _write(tmp_path, "three", "three " * 400)
    _write(tmp_path, "four", "four " * 400)
    assert run()["truncated"] == 3
    assert run(full=True)["truncated"] == 3
