"""Unpacks 4-bit weights and a tokenizer into a folder that sentence-transformers loads. The bytes written depend on the
two files alone.
"""

import hashlib
import json
import struct
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from almanac.core.durable import write_file
from almanac.index.embedding.q4_weights import Q4Weights, Sizes, Weights

WEIGHTS, TOKENIZER = "model.safetensors", "tokenizer.json"
_MAX_TOKENS = 512
_PROMPTS = {"query": "query: ", "passage": "passage: "}  # what the E5 models were trained with
_LAYER = {  # name in the 4-bit file → name in BERT, where both have weight and bias
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "aln": "attention.output.LayerNorm",
    "oln": "output.LayerNorm",
}


class _Target(NamedTuple):
    """A tensor of the BERT model: name, shape, and its name in the 4-bit file; None for one that is all zeros."""

    name: str
    shape: tuple[int, ...]
    source: str | None


def unpack_model(weights: bytes, tokenizer: bytes, folder: Path) -> dict[str, str]:
    """Writes the model into `folder` and returns relative path → SHA-256 of every file.

    Args:
        weights: Content of a file that `Q4Weights` reads, of an E5 model.
        tokenizer: Content of its tokenizer.json.
        folder: A folder of the caller's own, which appears in its place when it is complete.

    Raises ValueError where `weights` is not such a file, or not of a BERT model; OSError where the folder cannot be
    written.
    """
    packed = Q4Weights(weights)
    targets = _targets(packed.sizes)
    _require_all(packed, targets)
    digests = {
        path: _write(folder / path, content)
        for path, content in {**_settings(packed.sizes), TOKENIZER: tokenizer}.items()
    }
    digest = hashlib.sha256()

    def write_weights(file: IO[bytes]) -> None:
        for part in _safetensors(packed, targets):
            file.write(part)
            digest.update(part)

    write_file(folder / WEIGHTS, write_weights)
    return {**digests, WEIGHTS: digest.hexdigest()}


def _write(path: Path, content: bytes) -> str:
    write_file(path, content)
    return hashlib.sha256(content).hexdigest()


def _targets(sizes: Sizes) -> list[_Target]:
    hidden, wide = sizes.hidden, sizes.feed_forward
    shapes = {"fi": (wide, hidden), "fo": (hidden, wide), "aln": (hidden,), "oln": (hidden,)}
    targets = [
        _Target("embeddings.word_embeddings.weight", (sizes.vocabulary, hidden), "emb.word"),
        _Target("embeddings.position_embeddings.weight", (sizes.positions, hidden), "emb.pos"),
        _Target("embeddings.token_type_embeddings.weight", (sizes.token_types, hidden), "emb.type"),
        _Target("embeddings.LayerNorm.weight", (hidden,), "emb.ln.w"),
        _Target("embeddings.LayerNorm.bias", (hidden,), "emb.ln.b"),
    ]
    for layer in range(sizes.layers):
        for short, name in _LAYER.items():
            shape = shapes.get(short, (hidden, hidden))
            targets.append(_Target(f"encoder.layer.{layer}.{name}.weight", shape, f"l{layer}.{short}.w"))
            targets.append(_Target(f"encoder.layer.{layer}.{name}.bias", shape[:1], f"l{layer}.{short}.b"))
    # BERT's pooler, which mean pooling leaves alone: without it, transformers reports at each loading that it is
    # missing.
    return [
        *targets,
        _Target("pooler.dense.weight", (hidden, hidden), None),
        _Target("pooler.dense.bias", (hidden,), None),
    ]


def _require_all(packed: Q4Weights, targets: list[_Target]) -> None:
    """Raises ValueError unless the file has every tensor that the model needs, in its size, and no other."""
    wanted = {target.source: prod(target.shape) for target in targets if target.source is not None}
    found = {name: tensor.count for name, tensor in packed.tensors.items()}
    if missing := sorted(wanted.keys() - found.keys()):
        raise ValueError(f"it lacks {len(missing)} of the model's tensors, the first being {missing[0]}")
    if unknown := sorted(found.keys() - wanted.keys()):
        raise ValueError(f"it has {len(unknown)} tensors that no BERT model has, the first being {unknown[0]}")
    for name, count in wanted.items():
        if found[name] != count:
            raise ValueError(f"its tensor {name} has {found[name]} weights, and the model {count}")


def _safetensors(packed: Q4Weights, targets: list[_Target]) -> Iterator[bytes]:
    """Yields a safetensors file in parts of a few megabytes: u64 length of a JSON header, the header, the tensors one
    after the other.

    The safetensors library would want all 470 MB in memory twice, and promises no bytes: another version may order the
    header in another way.
    """
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for target in targets:
        begin, end = end, end + 4 * prod(target.shape)
        header[target.name] = {"dtype": "F32", "shape": list(target.shape), "data_offsets": [begin, end]}
    written = json.dumps(header, separators=(",", ":")).encode()
    written += b" " * (-len(written) % 8)  # tensors begin at a multiple of 8 bytes, for memory mapping
    yield struct.pack("<Q", len(written)) + written
    for target in targets:
        for weights in _zeros(target) if target.source is None else packed.read(target.source):
            yield weights.tobytes()


def _zeros(target: _Target) -> Iterator[Weights]:
    yield np.zeros(prod(target.shape), dtype="<f4")


def _settings(sizes: Sizes) -> dict[str, bytes]:
    """Relative path → content of the small files: what kind of model it is, how texts become its input, and its output
    a vector.
    """
    module = "sentence_transformers.models"
    settings: dict[str, Any] = {
        "config.json": {
            "architectures": ["BertModel"],
            "model_type": "bert",
            "hidden_act": "gelu",
            "hidden_size": sizes.hidden,
            "intermediate_size": sizes.feed_forward,
            "layer_norm_eps": float(f"{sizes.layer_norm_epsilon:.6g}"),  # it was a float32
            "max_position_embeddings": sizes.positions,
            "num_attention_heads": sizes.heads,
            "num_hidden_layers": sizes.layers,
            "pad_token_id": 0,
            "type_vocab_size": sizes.token_types,
            "vocab_size": sizes.vocabulary,
        },
        "modules.json": [
            {"idx": 0, "name": "0", "path": "", "type": f"{module}.Transformer"},
            {"idx": 1, "name": "1", "path": "1_Pooling", "type": f"{module}.Pooling"},
            {"idx": 2, "name": "2", "path": "2_Normalize", "type": f"{module}.Normalize"},
        ],
        "sentence_bert_config.json": {"max_seq_length": min(_MAX_TOKENS, sizes.positions), "do_lower_case": False},
        "1_Pooling/config.json": {
            "word_embedding_dimension": sizes.hidden,
            "pooling_mode_mean_tokens": True,
            "pooling_mode_cls_token": False,
        },
        "config_sentence_transformers.json": {
            "prompts": _PROMPTS,
            "default_prompt_name": None,
            "similarity_fn_name": "cosine",
        },
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": min(_MAX_TOKENS, sizes.positions),
            "bos_token": "<s>",
            "cls_token": "<s>",
            "eos_token": "</s>",
            "sep_token": "</s>",
            "unk_token": "<unk>",
            "pad_token": "<pad>",
            "mask_token": "<mask>",
        },
    }
    return {path: (json.dumps(content, indent=2) + "\n").encode() for path, content in settings.items()}
