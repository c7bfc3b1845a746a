"""BERT without torch makes the vectors that the model itself makes of each text; questions are embedded together."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from almanac.index.embedding import embedder as subject
from almanac.index.embedding.bert import Bert, Engine, _passes
from almanac.index.embedding.bert_layers import OnnxLayers, OpenVinoLayers
from almanac.index.embedding.embedder import LocalEmbedder, Vectors
from almanac.index.embedding.model_folder import BUNDLED
from almanac.index.embedding.together import EmbedTogether
from almanac.schemas.declaration.embed import Embed
from tests.conftest import ROOT
from tests.index.small_models import save_embedder

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


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> LocalEmbedder:
    folder = save_embedder(tmp_path_factory.mktemp("model") / "small", prompts={"query": "asked: "})
    return LocalEmbedder(Embed(model=str(folder), precision="float32"))


def _by_the_model_itself(embedder: LocalEmbedder, texts: Sequence[str], kind: str = "query") -> Vectors:
    """Of each text alone, in float32."""
    prompt = embedder.info.query_prompt if kind == "query" else embedder.info.document_prompt
    return np.concatenate([embedder._encode(embedder._queries, f"encode_{kind}", prompt, [text]) for text in texts])


@given(texts=st.lists(st.text(max_size=200) | st.sampled_from(_ODD), min_size=1, max_size=40))
@settings(max_examples=60, deadline=None)
def test_each_text_gets_the_vector_that_the_model_makes_of_it_alone(small: LocalEmbedder, texts: list[str]) -> None:
    assert small._together is not None
    assert np.abs(small.embed_queries(texts) - _by_the_model_itself(small, texts)).max() < 1e-5
    assert np.abs(small.embed_documents(texts) - _by_the_model_itself(small, texts, "document")).max() < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("model", BUNDLED)
def test_a_bundled_model_makes_the_same_vectors_without_torch(model: str) -> None:
    bundled = LocalEmbedder(Embed(model=model, precision="float32"))
    texts = [*_ODD, *(f"What does a ticket for {count} children cost?" for count in range(20))]
    assert (bundled.embed_queries(texts) * _by_the_model_itself(bundled, texts)).sum(axis=1).min() > 0.999999
    assert (bundled.embed_documents(texts) * _by_the_model_itself(bundled, texts, "document")).sum(
        axis=1
    ).min() > 0.999999


@pytest.mark.parametrize(
    "engine", [OnnxLayers, partial(OpenVinoLayers, is_half=False)], ids=["onnxruntime", "openvino"]
)
def test_a_text_without_word_pieces_is_found_out(tmp_path: Path, engine: Engine) -> None:
    pytest.importorskip("torch", reason="needs the extra models")
    from sentence_transformers import SentenceTransformer
    from tokenizers.processors import Sequence as NoTokensAdded

    bert = Bert.of(SentenceTransformer(str(save_embedder(tmp_path / "small")), device="cpu", local_files_only=True))
    assert bert is not None
    bert._tokenizer.post_processor = NoTokensAdded([])
    encode = bert.encoder(engine)
    vectors = encode(["boats", "", "boats at noon"])
    assert (np.abs(np.linalg.norm(vectors, axis=1) - [1, 0, 1]) < 1e-5).all()
    assert not encode([""]).any()


def test_documents_come_in_their_order_when_threads_share_a_model(small: LocalEmbedder) -> None:
    texts = [f"{'word ' * (number % 23)}{number}" for number in range(300)]
    expected = small.embed_documents(texts)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(small.embed_documents, [texts] * 8):
            assert np.abs(found - expected).max() < 1e-5


def test_another_architecture_is_left_to_its_library(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs the extra models")
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    folder = save_embedder(tmp_path / "small")
    model = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    assert Bert.of(model) is not None
    model[1] = Pooling(model.get_embedding_dimension(), "cls")
    assert Bert.of(model) is None


def test_documents_of_another_architecture_keep_no_second_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch", reason="needs the extra models")
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    model = SentenceTransformer(str(save_embedder(tmp_path / "small")), device="cpu", local_files_only=True)
    model[1] = Pooling(model.get_embedding_dimension(), "cls")
    model.save(str(tmp_path / "other"))
    monkeypatch.setattr(subject, "has_bfloat16", lambda: True)
    embed = Embed(model=str(tmp_path / "other"), precision="bfloat16")
    written = LocalEmbedder(embed)
    assert written.embed_documents(["Boats leave at noon."]).shape == (1, written.info.dimension)
    assert "_queries" not in vars(written)
    asked = LocalEmbedder(embed, for_queries=True)
    assert "_queries" in vars(asked)
    assert np.array_equal(written.embed_queries(["When?"]), asked.embed_queries(["When?"]))


def test_who_asks_while_others_are_embedded_shares_the_next_pass() -> None:
    calls, is_begun, may_end = [], threading.Event(), threading.Event()

    def encode(texts: Sequence[str]) -> Vectors:
        calls.append(list(texts))
        is_begun.set()
        assert may_end.wait(20)
        return np.array([[float(text)] for text in texts], dtype=np.float32)

    together = EmbedTogether(encode)
    with ThreadPoolExecutor(9) as pool:
        first = pool.submit(together, ["1", "2"])
        assert is_begun.wait(20)
        others = [pool.submit(together, [str(number), "11", "11"]) for number in range(3, 11)]
        while len(together._waiting) < 8:
            pass
        may_end.set()
        assert first.result().tolist() == [[1.0], [2.0]]
        assert [one.result().tolist() for one in others] == [
            [[float(number)], [11.0], [11.0]] for number in range(3, 11)
        ]
    assert [sorted(call, key=int) for call in calls] == [["1", "2"], [str(number) for number in range(3, 12)]], (
        "each text once"
    )


def test_an_error_reaches_all_of_its_pass_and_nobody_after() -> None:
    def encode(texts: Sequence[str]) -> Vectors:
        if "bad" in texts:
            raise ValueError("bad")
        return np.zeros((len(texts), 1), dtype=np.float32)

    together = EmbedTogether(encode)
    with pytest.raises(ValueError, match="bad"):
        together(["bad"])
    assert together(["good"]).shape == (1, 1)


@pytest.mark.parametrize("call", ["for_queries=True).embed_queries", "for_queries=False).embed_documents"])
def test_a_bundled_model_needs_no_torch(call: str) -> None:
    asks = (
        "import sys; from almanac.index.embedding.embedder import load_embedder; from "
        "almanac.schemas.declaration.embed import Embed"
    )
    code = (
        f"{asks}; load_embedder(Embed(precision='float32'), {call}(['When do boats leave?']); print('torch' in "
        "sys.modules)"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], check=True, cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.strip() == "False"


def test_openvino_tells_nobody_that_it_was_imported() -> None:
    asks = (
        "import sys; from almanac.index.embedding.embedder import load_embedder; from "
        "almanac.schemas.declaration.embed import Embed"
    )
    code = (
        f"{asks}; load_embedder(Embed()).embed_documents(['Boats leave at noon.']); print('openvino' in "
        "sys.modules, sys.modules['openvino_telemetry'])"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], check=True, cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.strip() == "True None"


def test_onnxruntime_notes_nothing_about_its_use(tmp_path: Path) -> None:
    asks = (
        "from almanac.index.embedding.embedder import load_embedder; from almanac.schemas.declaration.embed "
        "import Embed"
    )
    code = (
        f"{asks}; load_embedder(Embed(precision='float32'), for_queries=True).embed_queries(['When do boats leave?'])"
    )
    environment = {
        name: value for name, value in os.environ.items() if name not in ("ORT_DISABLE_TELEMETRY", "XDG_CACHE_HOME")
    }
    subprocess.run([sys.executable, "-P", "-c", code], check=True, cwd=ROOT, env=environment | {"HOME": str(tmp_path)})
    assert not list(tmp_path.rglob("*onnxruntime*"))


_INTERRUPTED = """
import mmap, signal, sys, threading
from almanac.index.embedding.embedder import LocalEmbedder
from almanac.schemas.declaration.embed import Embed
embedders = [LocalEmbedder(Embed(model=sys.argv[1], precision="float32"))]
embedders[0].embed_documents(["Two are back."])
releasing = threading.Thread(target=embedders.clear)
releasing.start()
releasing.join()
kept = [mmap.mmap(-1, 4096, prot=mmap.PROT_READ) for _ in range(8)]  # takes the place of what is freed
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_a_process_is_interrupted_whichever_thread_released_its_model(tmp_path: Path) -> None:
    folder = save_embedder(tmp_path / "small")
    command = [sys.executable, "-c", _INTERRUPTED, str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "interrupted"), done.stderr


@given(
    lengths=st.lists(st.integers(2, 512), max_size=60),
    padding=st.sampled_from([lambda _: 16, lambda longest: 8192 // longest]),
)
def test_passes_hold_each_text_once_and_little_padding(lengths: list[int], padding: Callable[[int], int]) -> None:
    passes = list(_passes(lengths, padding))
    assert sorted(row for rows in passes for row in rows) == list(range(len(lengths)))
    for rows in passes:
        of_rows = [lengths[row] for row in rows]
        assert of_rows[0] == max(of_rows)
        assert len(rows) * of_rows[0] <= 2048
        assert len(rows) * of_rows[0] - sum(of_rows) <= padding(of_rows[0])


@pytest.mark.parametrize("is_next", [False, True])
def test_who_is_interrupted_while_it_waits_leaves_the_next_pass_to_others(is_next: bool) -> None:
    is_begun, may_end = threading.Event(), threading.Event()

    def encode(texts: Sequence[str]) -> Vectors:
        is_begun.set()
        assert may_end.wait(20)
        return np.zeros((len(texts), 1), dtype=np.float32)

    def interrupt(*_: object) -> None:
        if is_next:  # the pass before ends first, so that the next one is for this thread to make
            may_end.set()
            first.result(20)
        raise KeyboardInterrupt

    def interrupt_who_waits() -> None:
        while not together._waiting:
            time.sleep(0.01)
        time.sleep(0.1)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

    together, before = EmbedTogether(encode), signal.signal(signal.SIGUSR1, interrupt)
    try:
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(together, ["1"])
            assert is_begun.wait(20)
            pool.submit(interrupt_who_waits)
            with pytest.raises(KeyboardInterrupt):
                together(["2"])
            may_end.set()
            assert first.result(20).shape == (1, 1)
            assert pool.submit(together, ["3"]).result(20).shape == (1, 1)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_many_threads_each_get_their_own() -> None:
    together = EmbedTogether(lambda texts: np.array([[float(text)] for text in texts], dtype=np.float32))

    def ask(number: int) -> bool:
        texts = [str(1000 * number + one) for one in range(number % 4 + 1)]
        return bool((together(texts)[:, 0] == [float(text) for text in texts]).all())

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(ask, range(2_000)))
