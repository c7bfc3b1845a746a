"""The local embedder: what can be told about a model without loading it, and the bundled model itself."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from structlog.testing import capture_logs

from almanac.core.settings import installation
from almanac.index.embedding import precision
from almanac.index.embedding.embedder import LocalEmbedder, describe_embedder, load_embedder
from almanac.index.embedding.model_folder import ModelFolder
from almanac.index.embedding.precision import require_precision, resolve
from almanac.index.embedding.score_thresholds import ScoreThresholds, score_thresholds
from almanac.schemas.declaration.embed_section import Embed
from almanac.schemas.errors import DeclarationError
from tests.index.conftest import INFO
from tests.proof.base import LONG


def model_folder(path: Path, **pooling: object) -> Path:
    (path / "1_Pooling").mkdir(parents=True)
    (path / "config.json").write_text(json.dumps({"hidden_size": 32, "max_position_embeddings": 128}))
    (path / "modules.json").write_text(
        json.dumps(
            [
                {"path": "", "type": "sentence_transformers.models.Transformer"},
                {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
            ]
        )
    )
    (path / "1_Pooling" / "config.json").write_text(
        json.dumps({"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True, **pooling})
    )
    (path / "model.safetensors").write_bytes(b"weights")
    return path


@pytest.mark.slow
def test_bundled_model_is_described_without_loading_it() -> None:
    code = (
        "import sys; from almanac.index.embedding.embedder import describe_embedder; from "
        "almanac.schemas.declaration.embed_section import Embed\n"
        "print(describe_embedder(Embed()).model_dump_json()); assert not {'torch', 'transformers', "
        "'chromadb'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=installation(), check=True)
    info = json.loads(done.stdout)
    assert (info["model"], info["dimension"], info["metric"]) == ("all-MiniLM-L6-v2", 384, "cosine")
    assert info["revision"].startswith("53aa5117") and info["revision"].endswith("128d9db")
    assert len(info["fingerprint"]) == 16


def test_what_lists_versions_imports_no_engine() -> None:
    code = (
        "import sys, almanac.index.versions.publish, almanac.index.versions.lock\n"
        "import almanac.index.versions.version_store\n"
        "assert not {'torch', 'chromadb', 'pyarrow', 'numpy'} & set(sys.modules), sorted(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=installation(), check=True)


def test_unknown_model_is_a_path_and_never_a_hub_name(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match="neither a bundled model nor") as raised:
        describe_embedder(Embed(model="sentence-transformers/all-mpnet-base-v2"))
    assert "all-MiniLM-L6-v2" in (raised.value.hint or "")
    with pytest.raises(DeclarationError, match="no weights"):
        (model_folder(tmp_path / "m") / "model.safetensors").unlink()
        describe_embedder(Embed(model=str(tmp_path / "m")))


def test_fingerprint_follows_whatever_changes_the_vectors(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "m")
    declared = Embed(model=str(folder))
    prints = [describe_embedder(declared).fingerprint]
    (folder / "model.safetensors").write_bytes(b"other weights")
    prints.append(describe_embedder(declared).fingerprint)
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 64}')
    prints.append(describe_embedder(declared).fingerprint)
    (folder / "tokenizer.json").write_text("{}")
    prints.append(describe_embedder(declared).fingerprint)
    assert len(set(prints)) == 4
    (folder / "README.md").write_text("about")
    assert describe_embedder(declared).fingerprint == prints[-1]
    moved = folder.rename(tmp_path / "elsewhere")
    assert describe_embedder(Embed(model=str(moved))).fingerprint == prints[-1]


def test_dimension_is_that_of_the_last_module_that_changes_it(tmp_path: Path) -> None:
    assert ModelFolder("m", model_folder(tmp_path / "one")).dimension() == 32
    assert ModelFolder("m", model_folder(tmp_path / "two", pooling_mode_max_tokens=True)).dimension() == 64
    dense = model_folder(tmp_path / "dense")
    modules = json.loads((dense / "modules.json").read_text())
    (dense / "modules.json").write_text(
        json.dumps([*modules, {"path": "2_Dense", "type": "sentence_transformers.models.Dense"}])
    )
    (dense / "2_Dense").mkdir()
    (dense / "2_Dense" / "config.json").write_text('{"out_features": 8}')
    assert ModelFolder("m", dense).dimension() == 8


def test_model_that_nobody_measured_refuses_nothing_by_itself(tmp_path: Path) -> None:
    assert score_thresholds(describe_embedder(Embed())) == ScoreThresholds(0.30, 0.50)
    assert score_thresholds(describe_embedder(Embed(model=str(model_folder(tmp_path / "m"))))).floor == 0


def pretend_processor(monkeypatch: pytest.MonkeyPatch, folder: Path, text: str) -> None:
    (folder / "cpuinfo").write_text(text)
    monkeypatch.setattr(precision, "_CPU", folder / "cpuinfo")
    monkeypatch.setattr(precision, "_GPU_DRIVER", folder / "no driver")


def test_precision_is_part_of_the_fingerprint_and_floors_are_the_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_processor(monkeypatch, tmp_path, "model name\t: Some CPU\nflags\t\t: fpu avx512f avx512_bf16 sse\n")
    single, half = describe_embedder(Embed(precision="float32")), describe_embedder(Embed(precision="bfloat16"))
    assert single.fingerprint == "e66a7194713b02af"  # vectors that lie on disk are of this one
    assert half.fingerprint != single.fingerprint
    assert half.model_copy(update={"fingerprint": single.fingerprint, "precision": "float32"}) == single
    assert describe_embedder(Embed()) == half, "auto"
    assert score_thresholds(half) == score_thresholds(single)


@pytest.mark.parametrize(
    ("cpuinfo", "message"),
    [
        ("processor\t: 0\nmodel name\t: Old Xeon\nflags\t\t: fpu avx2 avx512f avx512_bf16x\n", "Old Xeon without them"),
        ("processor\t: 0\nFeatures\t: fp asimd\n", "a processor without them"),
        ("", "nothing is known"),
    ],
)
def test_half_precision_is_refused_where_the_processor_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cpuinfo: str, message: str
) -> None:
    pretend_processor(monkeypatch, tmp_path, cpuinfo)
    with pytest.raises(DeclarationError, match=message) as raised:
        require_precision(Embed(precision="bfloat16"))
    assert raised.value.where == "embed.precision"
    assert all(way in (raised.value.hint or "") for way in ("reuse: tolerant", "precision: float32"))
    with capture_logs() as logs:
        require_precision(Embed(precision="bfloat16", reuse="tolerant"))
    assert [(log["event"], log["log_level"]) for log in logs] == [("float32_for_bfloat16", "warning")]
    assert describe_embedder(Embed()) == describe_embedder(Embed(precision="float32"))
    require_precision(resolve(Embed()))


@pytest.mark.parametrize("has", [True, False])
def test_a_base_keeps_the_precision_of_its_first_build(
    has: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_processor(monkeypatch, tmp_path, f"flags\t\t: fpu {'amx_bf16' if has else 'avx2'}\n")
    single, half = describe_embedder(Embed(precision="float32")), describe_embedder(Embed(precision="bfloat16"))
    assert resolve(Embed(), single).precision == "float32"
    assert resolve(Embed(), half).precision == "bfloat16"
    assert resolve(Embed(), single.model_copy(update={"precision": None})).precision == "float32", (
        "as manifests were that said nothing of it"
    )
    assert resolve(Embed(), None).precision == resolve(Embed(), INFO).precision == ("bfloat16" if has else "float32")
    assert resolve(Embed(precision="float32"), half).precision == "float32", "what is declared counts"


def test_half_precision_is_taken_from_arm_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_processor(monkeypatch, tmp_path, "processor\t: 0\nFeatures\t: fp asimd sve bf16 i8mm\n")
    require_precision(Embed(precision="bfloat16"))
    assert resolve(Embed()).precision == "bfloat16"


@pytest.fixture(scope="module")
def bundled() -> LocalEmbedder:
    return LocalEmbedder(Embed(precision="float32"))


@pytest.mark.slow
def test_bundled_model_makes_the_published_models_vectors(bundled: LocalEmbedder) -> None:
    embedder = bundled
    assert embedder.info == describe_embedder(Embed(precision="float32"))
    texts = ["A man is eating food.", "A man is eating a piece of bread.", "The girl is carrying a baby.", ""]
    vectors = embedder.embed_documents(texts)
    assert vectors.shape == (4, 384)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert vectors[0] @ vectors[1] == pytest.approx(0.7553, abs=2e-3)  # the model card's own example of semantic search
    assert vectors[0] @ vectors[2] < 0.2
    assert np.allclose(embedder.embed_queries(texts[::-1]), vectors[::-1], atol=1e-5)
    assert embedder.embed_queries([]).shape == (0, 384)


# The same length in characters, from 20 to 120 word pieces: what is grouped by word pieces has to come back in the
# order asked for.
MIXED = [("word " * 40)[:100], "ăệữ" * 33, "12345 " * 16, "Đà Nẵng, phố cổ Hội An, sông Hàn " * 3, "", "?"]


@pytest.mark.slow
def test_vectors_come_in_the_order_of_the_texts_however_they_are_grouped(bundled: LocalEmbedder) -> None:
    texts = [f"{number} {text}" for number in range(7) for text in MIXED]
    alone = np.concatenate([bundled.embed_documents([text]) for text in texts])
    assert np.allclose(bundled.embed_documents(texts), alone, atol=1e-5)


@LONG
@pytest.mark.slow
@pytest.mark.skipif(not precision.has_bfloat16(), reason="this processor has no bfloat16")
def test_half_precision_makes_nearly_the_same_vectors(bundled: LocalEmbedder) -> None:
    text = (installation() / "docs" / "reference" / "declaration.md").read_text()
    texts = [text[begin : begin + 600] for begin in range(0, 24_000, 600)] + MIXED
    half = load_embedder(Embed(precision="bfloat16"))
    vectors = half.embed_documents(texts)
    assert half.info == describe_embedder(Embed(precision="bfloat16"))
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    cosines = (vectors * bundled.embed_documents(texts)).sum(axis=1)
    assert cosines.min() >= 0.999
    assert not np.array_equal(vectors, bundled.embed_documents(texts)), "single precision under another name"
    assert np.array_equal(half.embed_queries(texts[:5]), bundled.embed_queries(texts[:5])), (
        "questions are alike everywhere"
    )


@pytest.mark.slow
def test_single_precision_stands_in_where_that_is_tolerated(
    bundled: LocalEmbedder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_processor(monkeypatch, tmp_path, "flags\t\t: fpu avx2\n")
    half = load_embedder(Embed(precision="bfloat16", reuse="tolerant"))
    assert half.info.precision == "bfloat16", "its vectors join those of bfloat16"
    assert np.array_equal(half.embed_documents(MIXED), bundled.embed_documents(MIXED))
