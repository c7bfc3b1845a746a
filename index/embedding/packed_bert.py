"""BERT on one processor core: texts side by side without padding, weights as oneDNN wants them, and Python's lock free from the first layer to the last.

Gives what the sentence-transformers model that it is made of gives, to some 1e-7, in float32. Alone, a question of 15 word pieces takes half the time; what is
saved is padding, the rearranging of weights at each product, and some 300 calls from Python.
"""

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from tokenizers import Tokenizer
from torch import Tensor

from almanac.index.embedding.unpack import TOKENIZER, WEIGHTS

_AT_ONCE = 2048  # word pieces in one pass: four of the longest texts, or more than a hundred questions


class PackedBert:
    """A BERT model with mean pooling. Safe to share among threads."""

    def __init__(self, tokenizer: Tokenizer, embeddings: list[Tensor], layers: list[list[Tensor]], heads: int, eps: float) -> None:
        self._tokenizer, self._embeddings, self._layers, self._heads, self._eps = tokenizer, embeddings, layers, heads, eps
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # compile() and export(), which torch would rather have, need a C++ compiler, or fixed lengths
            self._forward = torch.jit.script(_forward)  # one call from Python for all layers, with its lock released

    @classmethod
    def of(cls, model: Any) -> Self | None:
        """Takes the weights of a sentence-transformers model. None where it is another architecture, or lies on a GPU."""
        parts = list(model)
        if not _is_usual(parts) or model.truncate_dim is not None:
            return None
        bert = parts[0].model
        tokenizer = Tokenizer.from_str(model.tokenizer.backend_tokenizer.to_str())
        weights = {name: value.detach() for name, value in bert.state_dict().items()}
        return cls._made(tokenizer, model.max_seq_length, weights, bert.config.num_attention_heads, bert.config.layer_norm_eps)

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Reads a bundled model, each of which is such a BERT, in a third of the time: sentence-transformers alone takes seconds to import."""
        from safetensors.torch import load_file

        def said(name: str) -> Any:
            return json.loads((folder / name).read_text())

        config, weights = said("config.json"), {name: value.float() for name, value in load_file(folder / WEIGHTS).items()}
        tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
        return cls._made(tokenizer, said("sentence_bert_config.json")["max_seq_length"], weights, config["num_attention_heads"], config["layer_norm_eps"])

    @classmethod
    def _made(cls, tokenizer: Tokenizer, longest: int, weights: dict[str, Tensor], heads: int, eps: float) -> Self:
        tokenizer.no_padding()
        tokenizer.enable_truncation(longest)
        embeddings = [weights[f"embeddings.{name}"] for name in _EMBEDDINGS]
        count = sum(name.endswith(".attention.self.query.weight") for name in weights)
        return cls(tokenizer, embeddings, [_layer(weights, f"encoder.layer.{number}.") for number in range(count)], heads, eps)

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Unit vectors of texts, float32 (n, dimension), in their order. Of a text, what exceeds the model's length is left out."""
        pieces = [one.ids for one in self._tokenizer.encode_batch(list(texts))]
        found, begin = [], 0
        with torch.inference_mode():
            while begin < len(pieces):
                end, count = begin + 1, len(pieces[begin])
                while end < len(pieces) and count + len(pieces[end]) <= _AT_ONCE:
                    count, end = count + len(pieces[end]), end + 1
                lengths = [len(ids) for ids in pieces[begin:end]]
                ids = torch.tensor([piece for ids in pieces[begin:end] for piece in ids])
                positions = torch.tensor([place for length in lengths for place in range(length)])
                found.append(self._forward(ids, positions, lengths, self._embeddings, self._layers, self._heads, self._eps))
                begin = end
        vectors: npt.NDArray[np.float32] = torch.cat(found).numpy()
        return vectors


def _is_usual(parts: list[Any]) -> bool:
    """Whether a model consists of BERT in float32 on the processor, as it was published, and the mean of what it gives."""
    from transformers import BertModel

    bert = getattr(parts[0], "model", None)
    if type(bert) is not BertModel or [type(part).__name__ for part in parts[1:]] not in (["Pooling"], ["Pooling", "Normalize"]):
        return False
    config, pooling = bert.config, parts[1].get_config_dict()
    is_bert = config.hidden_act == "gelu" and getattr(config, "position_embedding_type", "absolute") == "absolute" and not config.is_decoder
    is_mean = pooling["pooling_mode"] == "mean" and pooling["include_prompt"]
    return bool(is_bert and is_mean and bert.device.type == "cpu" and bert.dtype == torch.float32)


_EMBEDDINGS = (
    "word_embeddings.weight", "position_embeddings.weight", "token_type_embeddings.weight", "LayerNorm.weight", "LayerNorm.bias",
)  # fmt: skip


def _layer(weights: dict[str, Tensor], prefix: str) -> list[Tensor]:
    """Weights of a layer, as `_forward` unpacks them: the three products of attention in one."""

    def joined(kind: str) -> Tensor:
        return torch.cat([weights[f"{prefix}attention.self.{name}.{kind}"] for name in ("query", "key", "value")])

    def of(name: str) -> list[Tensor]:
        return [_arranged(weights[f"{prefix}{name}.weight"]), weights[f"{prefix}{name}.bias"]]

    def norm(name: str) -> list[Tensor]:
        return [weights[f"{prefix}{name}.weight"], weights[f"{prefix}{name}.bias"]]

    first = [_arranged(joined("weight")), joined("bias"), *of("attention.output.dense"), *norm("attention.output.LayerNorm")]
    return [*first, *of("intermediate.dense"), *of("output.dense"), *norm("output.LayerNorm")]


def _linear_by_onednn(x: Tensor, weight: Tensor, bias: Tensor, is_gelu: bool) -> Tensor:
    found: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "gelu" if is_gelu else "none", [], "none" if is_gelu else "")
    return found


def _linear_by_torch(x: Tensor, weight: Tensor, bias: Tensor, is_gelu: bool) -> Tensor:
    y = torch.nn.functional.linear(x, weight, bias)
    return torch.nn.functional.gelu(y) if is_gelu else y


def _arranged(weight: Tensor) -> Tensor:
    """A weight in the order that oneDNN's products read; as it is where these cannot be had."""
    arranged: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), None) if _HAS_ONEDNN else weight
    return arranged


def _has_onednn() -> bool:
    """Whether oneDNN makes these products here: torch may come without it, and without some of its products on some processors."""
    try:
        weight = torch.ops.mkldnn._reorder_linear_weight(torch.ones(16, 16), None)
        _linear_by_onednn(torch.ones(2, 16), weight, torch.zeros(16), True)
    except (AttributeError, RuntimeError):
        return False
    return True


_HAS_ONEDNN = _has_onednn()
_linear = _linear_by_onednn if _HAS_ONEDNN else _linear_by_torch


def _forward(
    ids: Tensor,
    positions: Tensor,
    lengths: list[int],
    embeddings: list[Tensor],
    layers: list[list[Tensor]],
    heads: int,
    eps: float,
) -> Tensor:
    width = embeddings[0].size(1)
    x = torch.embedding(embeddings[0], ids) + torch.embedding(embeddings[1], positions) + embeddings[2][0]
    x = torch.layer_norm(x, [width], embeddings[3], embeddings[4], eps)
    for w in layers:
        attended = _linear(x, w[0], w[1], False).view(-1, 3, heads, width // heads).permute(1, 2, 0, 3)
        of_texts: list[Tensor] = []
        begin = 0
        for length in lengths:  # each text attends to itself alone
            one = attended[:, :, begin : begin + length].unsqueeze(1)
            of_texts.append(torch.nn.functional.scaled_dot_product_attention(one[0], one[1], one[2])[0].transpose(0, 1).reshape(length, width))
            begin += length
        x = torch.layer_norm(x + _linear(torch.cat(of_texts), w[2], w[3], False), [width], w[4], w[5], eps)
        inner = _linear(x, w[6], w[7], True)
        x = torch.layer_norm(x + _linear(inner, w[8], w[9], False), [width], w[10], w[11], eps)
    pooled: list[Tensor] = []
    begin = 0
    for length in lengths:
        pooled.append(x[begin : begin + length].mean(0))
        begin += length
    return torch.nn.functional.normalize(torch.stack(pooled), dim=1)
