"""The engine makes the vectors that sentence-transformers makes, of the bundled models without torch, of others by a
conversion that is kept.
"""

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from almanac.index.embedding.bert import Embeddings, SafeTensors, bert_graph
from almanac.index.embedding.embedder import LocalEmbedder, Vectors, _load, load_embedder
from almanac.index.embedding.library_models import LibraryModel
from almanac.index.embedding.model_folder import BUNDLED, find_model
from almanac.index.embedding.open_vino import Encoder, passes
from almanac.schemas.declaration.embed_section import Embed
from tests.conftest import ROOT
from tests.index.small_models import KINDS, save_embedder, save_kind

_ODD = [
    "",
    " ",
    "  two  words ",
    "é" * 3_000,
    "a b " * 700,
    "質問ですか？",
    "line\nbreak\ttab",
    "[MASK] [SEP] </s>",
    "🎉",
]


@pytest.fixture(autouse=True)
def empty_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of converted models for each test."""
    monkeypatch.setenv("ALMANAC_CACHE", str(cache := tmp_path_factory.mktemp("cache")))
    _load.cache_clear()
    return cache


def _by_the_library(embed: Embed, texts: Sequence[str], kind: str) -> Vectors:
    """Of each text alone, in float32."""
    pytest.importorskip("torch", reason="needs the extra models")
    info = LocalEmbedder(embed).info
    model = LibraryModel(find_model(embed), info.dimension, is_half=False)
    prompt = info.query_prompt if kind == "query" else info.document_prompt
    return np.concatenate([model([text], kind, prompt) for text in texts])


def _assert_same(embed: Embed, texts: Sequence[str]) -> None:
    embedder = load_embedder(embed)
    for kind, embed_all in (("query", embedder.embed_queries), ("document", embedder.embed_documents)):
        assert (embed_all(texts) * _by_the_library(embed, texts, kind)).sum(axis=1).min() > 0.99999


@pytest.mark.slow
@pytest.mark.parametrize("model", BUNDLED)
def test_a_bundled_model_makes_the_vectors_of_sentence_transformers(model: str) -> None:
    texts = [*_ODD, *(f"What does a ticket for {count} children cost?" for count in range(20))]
    _assert_same(Embed(model=model, precision="float32"), texts)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_model_of_another_kind_makes_the_vectors_of_sentence_transformers(tmp_path: Path, kind: str) -> None:
    embed = Embed(model=str(save_kind(tmp_path / kind, kind)), precision="float32")
    _assert_same(embed, [*_ODD, *(f"What does a ticket for {count} children cost?" for count in range(9))])
    assert isinstance(LocalEmbedder(embed)._document_encoder, Encoder)


@pytest.mark.slow
def test_a_prompt_stands_before_the_text(tmp_path: Path) -> None:
    folder = save_embedder(tmp_path / "small", prompts={"query": "asked: ", "document": "told: "})
    _assert_same(Embed(model=str(folder), precision="float32"), _ODD)


_ASKS = (
    "import sys, numpy; from almanac.index.embedding.embedder import load_embedder; from "
    "almanac.schemas.declaration.embed_section import Embed; found = load_embedder(Embed(model=sys.argv[1], "
    "precision='float32')).embed_documents(sys.argv[3:]); numpy.save(sys.argv[2], found); "
    "sys.exit('torch' in sys.modules)"
)


def _embedded_apart(folder: Path) -> tuple[Any, bool, bytes]:
    """Vectors of `_ODD` by a process of its own, as a command makes them; whether it has loaded torch, and its stderr.

    What other tests leave in this process may keep torch from tracing a model.
    """
    made = folder.parent / "vectors.npy"
    command = [sys.executable, "-P", "-c", _ASKS, str(folder), str(made), *_ODD]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    return np.load(made), done.returncode == 1, done.stderr


@pytest.mark.usefixtures("empty_cache")
def test_a_model_is_converted_once_and_then_needs_no_torch(tmp_path: Path) -> None:
    folder = save_embedder(tmp_path / "small")
    first, has_torch, _ = _embedded_apart(folder)
    assert has_torch
    again, has_torch, errors = _embedded_apart(folder)
    assert np.abs(again - first).max() < 1e-5
    assert (has_torch, errors) == (False, b"")


def test_a_damaged_conversion_is_made_again(tmp_path: Path, empty_cache: Path) -> None:
    folder = save_embedder(tmp_path / "small")
    first, _, _ = _embedded_apart(folder)
    [converted] = (empty_cache / "models").iterdir()
    (converted / "model.bin").write_bytes(bytes((converted / "model.bin").stat().st_size))
    again, has_torch, _ = _embedded_apart(folder)
    assert has_torch
    assert np.abs(again - first).max() < 1e-5
    assert _embedded_apart(folder)[1:] == (False, b"")


def test_what_cannot_be_converted_is_computed_by_its_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def convert_model(*_: Any, **__: Any) -> None:
        raise RuntimeError("an operator is missing")

    embed = Embed(model=str(save_embedder(tmp_path / "small")), precision="float32")
    monkeypatch.setattr("openvino.convert_model", convert_model)
    with capture_logs() as logs:
        _assert_same(embed, _ODD)
    assert [log["why"] for log in logs if log["event"] == "model_left_to_its_library"] == ["an operator is missing"], (
        "once"
    )
    assert isinstance(LocalEmbedder(embed)._document_encoder, LibraryModel)


def test_where_nothing_can_be_kept_a_model_is_computed_by_its_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("ALMANAC_CACHE", str(tmp_path / "file" / "cache"))
    with capture_logs() as logs:
        _assert_same(Embed(model=str(save_embedder(tmp_path / "small")), precision="float32"), _ODD)
    assert "ALMANAC_CACHE" in next(log["hint"] for log in logs if log["event"] == "model_not_kept")


def test_what_a_killed_conversion_has_left_is_removed(tmp_path: Path, empty_cache: Path) -> None:
    embed = Embed(model=str(save_embedder(tmp_path / "small")), precision="float32")
    load_embedder(embed)
    [converted] = (empty_cache / "models").iterdir()
    left = converted.parent / f".{converted.name}-abcd"
    left.mkdir()
    os.utime(left, (0, 0))
    shutil.rmtree(converted)
    _load.cache_clear()
    load_embedder(embed)
    assert list(converted.parent.iterdir()) == [converted]


@pytest.fixture(scope="module")
def small() -> LocalEmbedder:
    return LocalEmbedder(Embed(precision="float32"))


@given(texts=st.lists(st.text(max_size=200) | st.sampled_from(_ODD[5:]), min_size=1, max_size=20))
@settings(max_examples=10, deadline=None)
def test_a_text_has_its_vector_whatever_else_is_embedded(small: LocalEmbedder, texts: list[str]) -> None:
    for embed_all in (small.embed_queries, small.embed_documents):
        alone = np.concatenate([embed_all([text]) for text in texts])
        assert np.abs(embed_all(texts) - alone).max() < 1e-5


def test_a_text_without_word_pieces_has_no_direction() -> None:
    weights = SafeTensors(find_model(Embed()).path)
    encode = Encoder(
        bert_graph(weights, is_small=False),
        lambda texts: [[1000] * len(text) for text in texts],
        Embeddings(weights),
        384,
        is_half=False,
    )
    assert (np.abs(np.linalg.norm(encode(["boats", "", "noon"]), axis=1) - [1, 0, 1]) < 1e-5).all()
    assert not encode([""]).any()


def test_documents_come_in_their_order_when_threads_share_a_model(small: LocalEmbedder) -> None:
    texts = [f"{'word ' * (number % 23)}{number}" for number in range(100)]
    for embed_all in (small.embed_queries, small.embed_documents):
        expected = embed_all(texts)
        with ThreadPoolExecutor(4) as pool:
            for vectors in pool.map(embed_all, [texts] * 6):
                assert np.abs(vectors - expected).max() < 1e-5


def test_who_is_stopped_halfway_frees_nothing_that_is_read(small: LocalEmbedder) -> None:
    class Stopped(BaseException):
        pass

    encode = small._document_encoder
    assert isinstance(encode, Encoder)
    take, calls = encode._take, 0

    def stopping(pieces: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls % 3 == 0:
            raise Stopped
        return take(pieces)

    texts = [f"{'word ' * (3 * number)}{number}" for number in range(60)]
    expected = small.embed_documents(texts)
    encode._take = stopping
    try:
        for _ in range(5):
            with pytest.raises(Stopped):
                small.embed_documents(texts)
    finally:
        encode._take = take
    assert np.abs(small.embed_documents(texts) - expected).max() < 1e-5


def test_embedders_of_a_model_share_it() -> None:
    declared = Embed(precision="float32", prompts={"query": "asked: "})
    prompted, plain = (
        load_embedder(declared, for_queries=True),
        load_embedder(Embed(precision="float32"), for_queries=True),
    )
    assert (
        isinstance(prompted, LocalEmbedder)
        and isinstance(plain, LocalEmbedder)
        and prompted._query_encoder is plain._query_encoder
    )
    encoders: list[Any] = []
    threads = [
        threading.Thread(target=lambda: encoders.append(LocalEmbedder(declared)._document_encoder)) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, encoders))) == 1


@pytest.mark.parametrize("call", ["for_queries=True).embed_queries", "for_queries=False).embed_documents"])
@pytest.mark.parametrize("model", BUNDLED)
def test_a_bundled_model_needs_no_torch_and_tells_nobody(call: str, model: str) -> None:
    code = (
        "import sys; from almanac.index.embedding.embedder import load_embedder; from "
        "almanac.schemas.declaration.embed_section import Embed; "
        f"load_embedder(Embed(model='{model}', precision='float32'), {call}(['When do boats leave?']); "
        "print({'torch', 'onnxruntime'} & set(sys.modules), sys.modules['openvino_telemetry'])"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], check=True, cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("set() None", "")


_INTERRUPTED = """
import mmap, signal, sys, threading
from almanac.index.embedding.embedder import LocalEmbedder
from almanac.index.embedding.embedder import _load
from almanac.schemas.declaration.embed_section import Embed
embedders = [LocalEmbedder(Embed(precision="float32"))]
embedders[0].embed_documents(["Two are back."])
_load.cache_clear()
releasing = threading.Thread(target=embedders.clear)
releasing.start()
releasing.join()
kept = [mmap.mmap(-1, 4096, prot=mmap.PROT_READ) for _ in range(8)]  # takes the place of what is freed
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_a_process_is_interrupted_whichever_thread_released_its_model() -> None:
    command = [sys.executable, "-c", _INTERRUPTED]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "interrupted"), done.stderr


@given(lengths=st.lists(st.integers(0, 512), max_size=60))
def test_passes_hold_each_text_once_and_little_padding(lengths: list[int]) -> None:
    all_passes = list(passes(lengths))
    assert sorted(row for rows in all_passes for row in rows) == [row for row, length in enumerate(lengths) if length]
    for rows in all_passes:
        of_rows = [lengths[row] for row in rows]
        assert of_rows[0] == max(of_rows)
        assert len(rows) == 1 or len(rows) * of_rows[0] <= 2048
        assert len(rows) * of_rows[0] - sum(of_rows) <= 16
