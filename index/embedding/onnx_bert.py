"""BERT for questions, by onnxruntime: it is imported in a tenth of the time that torch takes, and computes with Python's lock free.

Gives what the sentence-transformers model that it is made of gives, to some 1e-7, in float32.
"""

import json
import mmap
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import onnxruntime  # type: ignore[import-untyped]  # ships no types
from onnx import ModelProto, TensorProto, helper, numpy_helper
from tokenizers import Tokenizer

from almanac.index.embedding.unpack import TOKENIZER, WEIGHTS

_AT_ONCE = 2048  # word pieces in one pass: four of the longest texts, or more than a hundred questions
_PADDING = 16  # word pieces of padding that cost less than another pass
_MOST_BYTES = 1 << 30  # of layers: what onnxruntime reads in one piece ends at 2 GiB
_FUSED = "com.microsoft"  # onnxruntime's own operators, several of ONNX's in one

_Array = npt.NDArray[np.float32]
_Weights = Mapping[str, _Array]


class OnnxBert:
    """A BERT model with mean pooling. Safe to share among threads.

    Args:
        tokenizer: Its padding and truncation are set here.
        longest: Word pieces of a text that are read.
        weights: By their names in transformers. Those of the embeddings are kept, so they may be mapped from a file.
        config: The model's config.json, or what has the same keys.
    """

    def __init__(self, tokenizer: Tokenizer, longest: int, weights: _Weights, config: Mapping[str, Any]) -> None:
        tokenizer.no_padding()
        tokenizer.enable_truncation(longest)
        self._tokenizer = tokenizer
        self._words = weights["embeddings.word_embeddings.weight"]
        self._places = weights["embeddings.position_embeddings.weight"] + weights["embeddings.token_type_embeddings.weight"][0]
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = _threads(), 1
        options.log_severity_level = 3
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # threads that wait for each other leave the cores to others
        self._session = onnxruntime.InferenceSession(_graph(weights, config).SerializeToString(), options, providers=["CPUExecutionProvider"])

    @classmethod
    def of(cls, model: Any) -> Self | None:
        """Takes the weights of a sentence-transformers model. None where it is another architecture, lies on a GPU, or is too large."""
        parts = list(model)
        if not _is_usual(parts) or model.truncate_dim is not None:
            return None
        bert = parts[0].model
        weights = {name: value.detach().numpy() for name, value in bert.state_dict().items()}
        if sum(value.nbytes for name, value in weights.items() if name.startswith("encoder.")) > _MOST_BYTES:
            return None
        return cls(Tokenizer.from_str(model.tokenizer.backend_tokenizer.to_str()), model.max_seq_length, weights, bert.config.to_dict())

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Reads a bundled model, each of which is such a BERT. Its embeddings stay in the file, and processes share what they read of them."""
        config, sentences = (json.loads((folder / name).read_text()) for name in ("config.json", "sentence_bert_config.json"))
        return cls(Tokenizer.from_file(str(folder / TOKENIZER)), sentences["max_seq_length"], _mapped(folder / WEIGHTS), config)

    def encode(self, texts: Sequence[str]) -> _Array:
        """Unit vectors of texts, float32 (n, dimension), in their order. Of a text, what exceeds the model's length is left out."""
        pieces = [one.ids for one in self._tokenizer.encode_batch(list(texts))]
        vectors = np.empty((len(pieces), self._words.shape[1]), dtype=np.float32)
        for rows in _passes([len(ids) for ids in pieces]):
            vectors[rows] = self._pooled([pieces[row] for row in rows])
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        return vectors

    def _pooled(self, pieces: Sequence[Sequence[int]]) -> _Array:
        mask = np.zeros((len(pieces), len(pieces[0])), dtype=np.int32)  # the first is the longest
        embedded = np.zeros((*mask.shape, self._words.shape[1]), dtype=np.float32)
        for row, ids in enumerate(pieces):
            mask[row, : len(ids)] = 1
            embedded[row, : len(ids)] = self._words[ids] + self._places[: len(ids)]
        (last,) = self._session.run(None, {"embedded": embedded, "mask": mask})
        weighed = mask.astype(np.float32)
        means: _Array = np.einsum("tph,tp->th", last, weighed) / weighed.sum(axis=1, keepdims=True)
        return means


def _threads() -> int:
    """As many as this process may have, as torch counts them; named, so that onnxruntime binds none of them to a core."""
    said = os.environ.get("OMP_NUM_THREADS", "")
    return int(said) if said.isdecimal() and int(said) > 0 else len(os.sched_getaffinity(0))


def _passes(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Rows of texts that go through the model together, the longest first: of like length, since each is padded to the first."""
    rows: list[int] = []
    padding = 0
    for row in sorted(range(len(lengths)), key=lambda one: -lengths[one]):
        if rows:
            longest = lengths[rows[0]]
            padding += longest - lengths[row]
            if padding > _PADDING or (len(rows) + 1) * longest > _AT_ONCE:
                yield rows
                rows, padding = [], 0
        rows.append(row)
    if rows:
        yield rows


def _is_usual(parts: list[Any]) -> bool:
    """Whether a model consists of BERT in float32 on the processor, as it was published, and the mean of what it gives."""
    import torch
    from transformers import BertModel

    bert = getattr(parts[0], "model", None)
    if type(bert) is not BertModel or [type(part).__name__ for part in parts[1:]] not in (["Pooling"], ["Pooling", "Normalize"]):
        return False
    config, pooling = bert.config, parts[1].get_config_dict()
    is_bert = config.hidden_act == "gelu" and getattr(config, "position_embedding_type", "absolute") == "absolute" and not config.is_decoder
    is_mean = pooling["pooling_mode"] == "mean" and pooling["include_prompt"]
    return bool(is_bert and is_mean and bert.device.type == "cpu" and bert.dtype == torch.float32)


def _mapped(path: Path) -> dict[str, _Array]:
    """The float32 tensors of a safetensors file, mapped: u64 length of a JSON header, the header, the tensors.

    The safetensors library copies what it reads into NumPy, 384 MB of one model's embeddings into each process.
    """
    with path.open("rb") as file:
        content = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), dtype=np.uint8)
    (size,) = struct.unpack("<Q", content[:8].tobytes())
    header = json.loads(content[8 : 8 + size].tobytes())
    header.pop("__metadata__", None)
    places = {name: (said["data_offsets"], said["shape"]) for name, said in header.items() if said["dtype"] == "F32"}
    return {name: content[8 + size + begin : 8 + size + end].view("<f4").reshape(shape) for name, ((begin, end), shape) in places.items()}


def _graph(weights: _Weights, config: Mapping[str, Any]) -> ModelProto:
    """The model from the sum of its embeddings, float32 (texts, word pieces, width), and their mask, int32, to what the last layer gives."""
    epsilon, heads, width = config["layer_norm_eps"], config["num_attention_heads"], config["hidden_size"]
    nodes, kept = [], []

    def weight(name: str, value: _Array) -> str:
        kept.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def node(operator: str, inputs: list[str], output: str, domain: str = "", **attributes: Any) -> str:
        nodes.append(helper.make_node(operator, inputs, [output], domain=domain, **attributes))
        return output

    def of(name: str) -> str:
        return weight(name, weights[name])

    def product(x: str, name: str) -> str:
        return node("MatMul", [x, weight(f"{name}.weight", weights[f"{name}.weight"].T)], f"{name}.product")

    def added(x: str, to: str, layer: str, part: str) -> str:
        """The product with the part's weights, its bias and what came before, normalised."""
        norm = f"{layer}{part}.LayerNorm"
        inputs = [product(x, f"{layer}{part}.dense"), to, of(f"{norm}.weight"), of(f"{norm}.bias"), of(f"{layer}{part}.dense.bias")]
        return node("SkipLayerNormalization", inputs, f"{layer}{part}", _FUSED, epsilon=epsilon)

    x = node("LayerNormalization", ["embedded", of("embeddings.LayerNorm.weight"), of("embeddings.LayerNorm.bias")], "embeddings", epsilon=epsilon)
    for number in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{number}."
        joined = {kind: np.concatenate([weights[f"{layer}attention.self.{name}.{kind}"] for name in ("query", "key", "value")]) for kind in ("weight", "bias")}
        inputs = [x, weight(f"{layer}joined.weight", joined["weight"].T), weight(f"{layer}joined.bias", joined["bias"]), "mask"]
        attended = node("Attention", inputs, f"{layer}attended", _FUSED, num_heads=heads)
        x = added(attended, x, layer, "attention.output")
        inner = node("BiasGelu", [product(x, f"{layer}intermediate.dense"), of(f"{layer}intermediate.dense.bias")], f"{layer}intermediate", _FUSED)
        x = added(inner, x, layer, "output")
    taken = [
        helper.make_tensor_value_info("embedded", TensorProto.FLOAT, ["texts", "pieces", width]),
        helper.make_tensor_value_info("mask", TensorProto.INT32, ["texts", "pieces"]),
    ]
    graph = helper.make_graph(nodes, "bert", taken, [helper.make_tensor_value_info(x, TensorProto.FLOAT, ["texts", "pieces", width])], kept)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(_FUSED, 1)], ir_version=8)
