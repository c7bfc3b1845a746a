"""Reranking by a real cross-encoder: what it does to a search, and which folders are none."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from almanac.cli.questions import search
from almanac.core.load import load_declaration
from almanac.core.settings import DataDir, installation
from almanac.flows.pipeline.ledger import Ledger
from almanac.flows.pipeline.plan import survey
from almanac.flows.pipeline.run import Run
from almanac.query import open_index
from almanac.query.models.rerank import CrossEncoderReranker, find_reranker, load_reranker
from almanac.schemas.declaration import Declaration
from almanac.schemas.errors import DeclarationError, OperationalError
from tests.index.small_models import READS, save_cross_encoder, save_embedder
from tests.query.small_base import NOTES, SmallBase

_QUESTION = "When does the garden close?"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    save_embedder(folder / "embedder")
    save_cross_encoder(folder / "reranker")
    return folder


def _declared(folder: Path) -> Declaration:
    sources = [{"name": "s", "kind": "files", "glob": "*"}]
    declared = {"name": "kb", "sources": sources, "retrieve": {"rerank": {"model": str(folder)}}}
    return Declaration.model_validate(declared).at(folder.parent / "kb.yaml")


@pytest.mark.slow
def test_a_search_follows_the_cross_encoder_and_tells_its_scores(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = SmallBase(tmp_path)
    (tmp_path / "models").symlink_to(models)
    path = base.publish(
        embed={"model": "./models/embedder"}, retrieve={"rerank": {"model": "./models/reranker", "candidates": 3}}
    )
    with open_index(path, data=base.data) as index:
        result = index.search(_QUESTION, k=4, explain=True)
    judge = CrossEncoderReranker(models / "reranker")
    scores = [hit.scores["rerank"] for hit in result.hits]
    assert [score is None for score in scores] == [False, False, False, True]
    read = [hit.text for hit in result.hits[:3]]
    assert scores[:3] == pytest.approx(judge.scores(_QUESTION, read).tolist(), abs=1e-5)
    assert scores[:3] == sorted((score for score in scores if score is not None), reverse=True)
    assert len(set(scores)) == 4, "a model that tells nothing apart proves nothing"
    assert [hit.score for hit in result.hits] == sorted((hit.score for hit in result.hits), reverse=True)
    step = next(step for step in result.explain or [] if step["step"] == "rerank")
    assert (step["candidates"], step["cut"]) == (3, 0)

    search(path, _QUESTION, explain=True, data=str(base.data))
    shown = capsys.readouterr().out
    assert "rerank" in shown and "candidates: 3" in shown


def test_texts_that_are_not_read_to_their_end_are_counted(models: Path) -> None:
    judge = load_reranker(_declared(models / "reranker"))
    assert judge is not None
    room = READS - 3 - 2  # marks, and a question of two words
    texts = ["word " * room, "word " * (room + 1), "short", "日" * 300, ""]
    assert judge.count_cut("two words", texts) == 2
    whole, cut = judge.scores("two words", [texts[0], texts[1]])
    assert whole == pytest.approx(cut, abs=1e-5), "what counts as cut off plays no part"
    assert judge.count_cut("two words", []) == 0


@pytest.mark.slow
def test_scores_come_in_the_order_of_the_texts_whatever_their_lengths(models: Path) -> None:
    judge = CrossEncoderReranker(models / "reranker")
    texts = [f"{number} " + "word " * (number * 7 % 23) for number in range(70)]
    together, alone = judge.scores(_QUESTION, texts), [float(judge.scores(_QUESTION, [text])[0]) for text in texts]
    assert np.allclose(together, alone, atol=1e-5)


def test_a_gpu_is_taken_where_there_is_one(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="needs the extra models")
    import sentence_transformers

    arguments = {}

    class Noted(sentence_transformers.CrossEncoder):
        def __init__(self, folder: str, **named: object) -> None:
            arguments.update(named)
            super().__init__(folder, **{**named, "device": "cpu"})

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(sentence_transformers, "CrossEncoder", Noted)
    CrossEncoderReranker(models / "reranker")
    assert arguments["device"] == "cuda"


def _breakages(models: Path, folder: Path) -> dict[str, Path]:
    """Folders that hold no cross-encoder, by what is said of them."""
    folders: dict[str, Path] = {}
    for name, wrong in {
        "no config.json": "config.json", "no weights": "model.safetensors",
        "is no cross-encoder, but SentenceTransformer": "", "cannot be read": "",
        "is no cross-encoder, but BertModel": "",
    }.items():  # fmt: skip
        made = folders[name] = folder / str(len(folders))
        made.mkdir()
        for file in (
            models / ("embedder" if "but Sentence" in name else "embedder-bare" if "but Bert" in name else "reranker")
        ).iterdir():
            if file.is_file() and file.name != wrong:
                (made / file.name).write_bytes(file.read_bytes())
    (folders["cannot be read"] / "config.json").write_text("{")
    folders["is no folder"] = folder / "nowhere"
    return folders


def test_a_folder_that_holds_no_cross_encoder_is_refused_before_anything_else(models: Path, tmp_path: Path) -> None:
    for finding, folder in _breakages(models, tmp_path).items():
        with pytest.raises(DeclarationError, match=finding) as raised:
            find_reranker(_declared(folder))
        assert raised.value.where == str(folder)
        assert "CrossEncoder.save()" in (raised.value.hint or "")
    assert find_reranker(_declared(models / "reranker-bare")) is not None, "an older model says it by its architecture"


@pytest.mark.slow
def test_a_broken_reranker_stops_validate_run_and_search_at_once(models: Path, tmp_path: Path) -> None:
    base = SmallBase(tmp_path)
    base.publish(embed={"model": str(models / "embedder")})
    path = base.declare(
        embed={"model": str(models / "embedder")}, retrieve={"rerank": {"model": str(models / "embedder")}}
    )
    done = subprocess.run(
        [sys.executable, "-m", "almanac.cli.main", "validate", path, "--json"],
        cwd=installation(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2
    assert "is no cross-encoder" in json.loads(done.stdout)["error"]["message"]
    with pytest.raises(DeclarationError, match="is no cross-encoder"):
        open_index(path, data=base.data)
    with pytest.raises(DeclarationError, match="is no cross-encoder"):
        survey(Ledger(Run(load_declaration(path), DataDir(base.data))))


def test_a_model_of_several_scores_and_one_of_none_are_refused(models: Path, tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match="gives a pair 3 scores"):
        load_reranker(_declared(save_cross_encoder(tmp_path / "three", scores=3)))
    (tmp_path / "cut").mkdir()
    for file in (models / "reranker").iterdir():
        content = file.read_bytes()
        (tmp_path / "cut" / file.name).write_bytes(content[:100] if file.suffix == ".safetensors" else content)
    with pytest.raises(DeclarationError, match="cannot be loaded"):
        load_reranker(_declared(tmp_path / "cut"))
    judge = CrossEncoderReranker(models / "reranker")
    judge._model.predict = lambda *_, **__: np.array([np.nan] * len(NOTES))
    with pytest.raises(OperationalError, match="no numbers"):
        judge.scores(_QUESTION, list(NOTES.values()))
