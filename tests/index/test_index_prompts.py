"""Prompts, with real models: what is put before questions and texts, whose vectors may stand together, which tokens
count.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from almanac.core.load import load_declaration
from almanac.core.settings import DataDir
from almanac.flows.pipeline.run import Run
from almanac.index.api.batching import estimate_tokens
from almanac.index.embedding.api_embedder import ApiEmbedder
from almanac.index.embedding.embedder import LocalEmbedder, describe_embedder
from almanac.index.embedding.model_folder import prompts_of
from almanac.index.embedding.score_thresholds import score_thresholds
from almanac.index.embedding.tokens import count_tokens, count_truncated, max_tokens
from almanac.index.vectors.vector_store import VectorStore
from almanac.index.versions.version_store import read_manifest
from almanac.query import open_index
from almanac.schemas.declaration.embed_section import Embed, Prompts
from almanac.schemas.errors import DeclarationError, EmbedderMismatch
from tests.flows.commands import carry_out
from tests.index.making import without_children
from tests.index.small_models import READS, save_embedder
from tests.loopback.mistral import LoopbackMistral

pytestmark = pytest.mark.slow  # models are loaded

_TEXTS = ["Horaires d'ouverture du château", "חופשה שנתית", "Tàu ra vịnh lúc tám giờ. 🛶"]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_embedder(tmp_path_factory.mktemp("models") / "plain")


def _with(folder: Path, place: Path, prompts: dict[str, Any], default: str | None = None) -> Path:
    """The same model, whose folder says so of its prompts."""
    place.mkdir()
    for file in folder.rglob("*"):
        if file.is_file():
            (place / file.relative_to(folder)).parent.mkdir(exist_ok=True)
            (place / file.relative_to(folder)).write_bytes(file.read_bytes())
    settings = place / "config_sentence_transformers.json"
    settings.write_text(
        json.dumps({**json.loads(settings.read_text()), "prompts": prompts, "default_prompt_name": default})
    )
    return place


def _same(vectors: Any, others: Any) -> bool:
    return bool(np.allclose(vectors, others, atol=1e-5))


@pytest.mark.parametrize("is_bundled", [False, True])
def test_declared_prompts_stand_before_questions_and_texts(plain: Path, is_bundled: bool) -> None:
    model = {} if is_bundled else {"model": str(plain)}
    without = LocalEmbedder(Embed(precision="float32", **model))
    prompted = LocalEmbedder(
        Embed(precision="float32", **model, prompts=Prompts(query="query: ", document="passage: "))
    )
    assert _same(prompted.embed_queries(_TEXTS), without.embed_documents([f"query: {text}" for text in _TEXTS]))
    assert _same(prompted.embed_documents(_TEXTS), without.embed_documents([f"passage: {text}" for text in _TEXTS]))
    assert not _same(prompted.embed_documents(_TEXTS), without.embed_documents(_TEXTS))
    assert (prompted.info.query_prompt, prompted.info.document_prompt) == ("query: ", "passage: ")


@pytest.mark.parametrize(
    ("prompts", "default", "expected"),
    [
        ({"query": "query: ", "passage": "passage: "}, None, ("query: ", "passage: ")),  # E5's names
        # saved again by sentence-transformers 6
        ({"query": "query: ", "document": "", "passage": "passage: "}, None, ("query: ", "passage: ")),
        ({"query": "q: ", "document": "title: none | text: ", "corpus": "c: "}, None, ("q: ", "title: none | text: ")),
        ({"corpus": "c: "}, None, ("", "c: ")),
        ({"query": "Represent this sentence: "}, "query", ("Represent this sentence: ", "")),
        ({"query": "", "document": "", "similarity": "say: "}, "similarity", ("say: ", "say: ")),
        ({"clustering": "say: "}, None, ("", "")),
        ({"query": None, "document": None}, None, ("", "")),
        ({}, None, ("", "")),
    ],
)
def test_what_the_folder_says_holds_where_nothing_is_declared(
    plain: Path, tmp_path: Path, prompts: dict[str, Any], default: str | None, expected: tuple[str, str]
) -> None:
    folder = str(_with(plain, tmp_path / "m", prompts, default))
    embedder, without = (
        LocalEmbedder(Embed(precision="float32", model=folder)),
        LocalEmbedder(Embed(precision="float32", model=str(plain))),
    )
    assert prompts_of(Embed(model=folder)) == expected
    assert _same(embedder.embed_queries(_TEXTS), without.embed_documents([f"{expected[0]}{text}" for text in _TEXTS]))
    assert _same(embedder.embed_documents(_TEXTS), without.embed_documents([f"{expected[1]}{text}" for text in _TEXTS]))
    assert prompts_of(Embed(model=folder, prompts=Prompts(query="", document=""))) == ("", "")
    assert prompts_of(Embed(model=folder, prompts=Prompts(document="d: "))) == (expected[0], "d: ")


@pytest.mark.parametrize(
    "broken",
    ["{", "3", '{"prompts": ["a"]}', '{"prompts": {"query": 3}}', '{"prompts": {}, "default_prompt_name": "gone"}'],
)
def test_prompts_that_cannot_be_read_are_an_error_of_the_folder(plain: Path, tmp_path: Path, broken: str) -> None:
    folder = _with(plain, tmp_path / "m", {})
    (folder / "config_sentence_transformers.json").write_text(broken)
    with pytest.raises(DeclarationError, match="the prompts of") as raised:
        describe_embedder(Embed(model=str(folder)))
    assert raised.value.where == str(folder / "config_sentence_transformers.json")


def test_vectors_of_texts_under_another_prompt_are_of_another_embedder() -> None:
    none, query, document, both, other = (
        describe_embedder(Embed(prompts=Prompts(**prompts)))
        for prompts in (
            {},
            {"query": "q: "},
            {"document": "d: "},
            {"query": "q: ", "document": "d: "},
            {"document": "q: "},
        )
    )
    assert none == describe_embedder(Embed()) == describe_embedder(Embed(prompts=Prompts(query="", document="")))
    assert none.fingerprint == query.fingerprint and document.fingerprint == both.fingerprint
    assert len({none.fingerprint, document.fingerprint, other.fingerprint}) == 3
    assert query != none
    assert score_thresholds(none).floor > 0 == score_thresholds(query).floor, "calibrated without a prompt"


def test_a_prompt_counts_among_the_tokens(plain: Path) -> None:
    bare, prompted = (
        Embed(model=str(plain)),
        Embed(model=str(plain), prompts=Prompts(document="passage : ", query="query : ")),
    )
    assert max_tokens(bare) == READS
    fits, long = "word " * (READS - 2), "word " * (READS - 3)
    assert count_tokens(prompted, [fits, long]) == count_tokens(bare, [fits, long]) + 4  # type: ignore[operator]
    assert (count_truncated(bare, [fits, long, "word"]), count_truncated(prompted, [fits, long, "word"])) == (0, 2)
    embedder = LocalEmbedder(prompted)
    whole, cut = "word " * (READS - 4), "word " * (READS - 3)
    assert count_truncated(prompted, [whole, cut]) == 1
    assert _same(embedder.embed_documents([cut]), embedder.embed_documents([whole])), (
        "what counts as cut off is cut off"
    )
    remote = Embed(
        provider="mistral", model="intfloat/e5-mistral-7b-instruct", dimension=8, prompts=Prompts(document="passage: ")
    )
    assert count_tokens(remote, ["a", "b"]) == 2 * estimate_tokens("passage: a")


def test_prompts_are_sent_to_a_server_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MISTRAL_API_KEY", "any")
    with LoopbackMistral(dimension=8) as server:
        declared = {
            "provider": "mistral",
            "model": "intfloat/e5-mistral-7b-instruct",
            "dimension": 8,
            "server_url": server.url,
        }
        embed = Embed.model_validate(
            {**declared, "prompts": {"query": "Instruct: find it\nQuery: ", "document": "passage: "}}
        )
        embedder = ApiEmbedder(embed, DataDir(tmp_path))
        embedder.embed_queries(["a"])
        embedder.embed_documents(["a"])
        embedder.embed_each(["b", "c"])
        assert [request["input"] for request in server.requests] == [
            ["Instruct: find it\nQuery: a"],
            ["passage: a"],
            ["passage: b", "passage: c"],
        ]
        assert describe_embedder(embed) == embedder.info
        assert describe_embedder(Embed.model_validate(declared)).fingerprint != embedder.info.fingerprint


_DECLARATION = """
name: small
sources:
  - {name: notes, kind: files, glob: 'notes/*.txt', yields: documents}
gate: {golden: golden.jsonl, min_recall: 0.0, max_recall_drop: 1.0}
"""


def test_a_new_prompt_for_questions_embeds_questions_alone(plain: Path, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    for number, text in enumerate(["The garden closes at six.", "Children enter for free.", "Dogs stay outside."]):
        (tmp_path / "notes" / f"{number}.txt").write_text(text)
    (tmp_path / "golden.jsonl").write_text('{"question": "When does the garden close?", "answer_contains": "six"}\n')
    path, data = tmp_path / "small.yaml", DataDir(tmp_path / "data")

    def run(prompts: dict[str, str]) -> dict[str, Any]:
        path.write_text(f"{_DECLARATION}embed: {json.dumps({'model': str(plain), 'prompts': prompts})}\n")
        return carry_out(Run(load_declaration(str(path)), data))

    def find_score(question: str) -> float:
        with open_index(str(path), data=data.root) as index:
            return index.search(question, k=1, mode="dense").hits[0].score

    with without_children():
        first = run({})
        alone = find_score("When does the garden close?")
        second = run({"query": "query: "})
        assert [(report["outcome"], report["chunks"]["embedded"]) for report in (first, second)] == [
            ("published", 3),
            ("published", 0),
        ]
        assert read_manifest(data.index("small"), second["version"]).embedder.query_prompt == "query: "
        assert find_score("When does the garden close?") != alone
        assert run({"query": "query: "})["outcome"] == "unchanged"

        path.write_text(path.read_text().replace('"prompts": {', '"prompts": {"document": "passage: ", '))
        with open_index(str(path), data=data.root) as index, pytest.raises(EmbedderMismatch):
            index.search("garden")
        third = run({"query": "query: ", "document": "passage: "})
        assert (third["outcome"], third["chunks"]["embedded"]) == ("published", 3)
    store = VectorStore(data.vectors, describe_embedder(Embed(model=str(plain))))
    assert len(list(store.keys())) == 3 + 2, "three texts, and the question under each of its two prompts"
