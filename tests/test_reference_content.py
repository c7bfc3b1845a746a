"""Other people's sites, files and retrieval sets with known truth, where they lie beside the checkout; nothing of them is kept here."""

from pathlib import Path

import pytest
from ruamel.yaml import YAML

from schemas.items import file_sha256
from tests.conftest import ROOT, Almanac
from tests.reference.journey import SHARED, served
from tests.reference.measure import MEASURES

_DECLARATIONS = ROOT / "tests/reference"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not SHARED.is_dir(), reason=f"reference content is not at {SHARED}"),
]


@pytest.mark.parametrize("name", MEASURES)
def test_what_is_read_meets_the_known_truth(name: str) -> None:
    """Every figure reaches its floor; without one, the truth itself. `python -m tests.reference.measure` prints them all."""
    assert [str(figure) for figure in MEASURES[name]() if not figure.holds] == []


def test_a_page_that_only_a_script_fills_is_no_version(almanac: Almanac) -> None:
    with served("quotes") as site:
        done = almanac("run", str(_DECLARATIONS / "quotes_js_by_css.yaml"), "--json", SITE=site)
    assert (done.code, done.json["outcome"], done.json["version"]) == (3, "no_records", None)


def _declared(folder: Path, language: str, declared: Path) -> str:
    fields = {"id": {"json": "id", "required": True}, "title": {"json": "title", "default": ""}, "text": {"json": "text", "required": True}}
    source = {"name": "corpus", "kind": "files", "glob": str(folder / "corpus.jsonl"), "yields": "records", "id": "{id}", "title": "{title}"}
    sources = [{**source, "fields": fields, "text": "{title}. {text}"}]
    YAML().dump({"name": "xquad", "language": language, "sources": sources, "clean": "none"}, declared)
    return str(declared)


def test_dense_retrieval_reaches_the_published_figure(almanac: Almanac, tmp_path: Path) -> None:
    """nDCG@10 of all-MiniLM-L6-v2 on XQuAD in English is .944."""
    folder = SHARED / "eval/xquad/en"
    declared = _declared(folder, "en", tmp_path / "xquad.yaml")
    assert almanac("run", declared, "--json").code == 0
    measured = almanac("eval", declared, "--queries", str(folder / "queries.jsonl"), "--qrels", str(folder / "qrels.tsv"), "--mode", "dense", "--json").json
    assert (measured["unit"], measured["queries"]) == ("document", 1185)
    assert measured["metrics"]["ndcg@10"] == pytest.approx(0.944, abs=0.005)


def test_both_sides_together_are_no_worse_than_the_better_one(almanac: Almanac, tmp_path: Path) -> None:
    """In Spanish, which the embedder does not know; every fourth question of the set."""
    folder = SHARED / "eval/xquad/es"
    assert file_sha256(folder / "corpus.jsonl")[:8] == "f738f28d"
    qrels = tmp_path / "qrels.tsv"
    qrels.write_text("".join((folder / "qrels.tsv").read_text().splitlines(keepends=True)[::4]))
    declared = _declared(folder, "es", tmp_path / "xquad.yaml")
    assert almanac("run", declared, "--json").code == 0
    found = {
        mode: almanac("eval", declared, "--queries", str(folder / "queries.jsonl"), "--qrels", str(qrels), "--mode", mode, "--json").json["metrics"]
        for mode in ("dense", "lexical", "hybrid")
    }
    assert found["lexical"]["ndcg@10"] >= 0.955
    assert found["hybrid"]["ndcg@10"] >= max(found["dense"]["ndcg@10"], found["lexical"]["ndcg@10"]) - 0.001
