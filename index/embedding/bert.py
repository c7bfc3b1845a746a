"""BERT with mean pooling, as both bundled models are, written as a graph of OpenVINO: without torch, and without a
file of its own, from weights that stay where they are installed.

The sum of a text's embeddings is made here, since of a table of 250,000 words only the rows of that text are read.
"""

import json
import mmap
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from almanac.core.settings import quiet_engines
from almanac.index.embedding.four_bits import FourBits

_Array = npt.NDArray[np.float32]
_STEP = 8  # word pieces: of each other length OpenVINO prepares its operators, which takes as long as a question
_ATTENTION = ("query", "key", "value")


class Weights(Protocol):
    """The weights of a BERT model, by their names in transformers. `config` has what its config.json has."""

    @property
    def config(self) -> Mapping[str, Any]: ...

    def array(self, name: str) -> _Array:
        """A whole tensor; of a matrix, its outputs first."""

    def rows(self, name: str, numbers: Sequence[int]) -> _Array:
        """Rows of a matrix, of which no others are read."""

    def release(self) -> None:
        """Gives back the memory of what was read of the file; what is read again comes from there."""


class SafeTensors:
    """The float32 tensors of a model's folder, mapped: processes share what they read of them.

    A file has the u64 length of a JSON header, the header, the tensors. The library would copy what it reads.
    """

    def __init__(self, folder: Path) -> None:
        self.config = json.loads((folder / "config.json").read_text())
        with (folder / "model.safetensors").open("rb") as file:
            # writable, which OpenVINO wants, and never written: the file stays as it is in any case
            self._mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        content = np.frombuffer(self._mapped, dtype=np.uint8)
        (size,) = struct.unpack("<Q", content[:8].tobytes())
        header = json.loads(content[8 : 8 + size].tobytes())
        self._tensors = {
            name: content[8 + size + begin : 8 + size + end].view("<f4").reshape(tensor["shape"])
            for name, tensor in header.items()
            if tensor.get("dtype") == "F32"
            for begin, end in (tensor["data_offsets"],)
        }

    def array(self, name: str) -> _Array:
        return self._tensors[name]

    def release(self) -> None:
        self._mapped.madvise(mmap.MADV_DONTNEED)

    def rows(self, name: str, numbers: Sequence[int]) -> _Array:
        embedded_rows: _Array = self._tensors[name][numbers]
        return embedded_rows


class Embeddings:
    """Makes the input of `bert_graph` from the numbers of texts' word pieces."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self._places = (
            weights.array("embeddings.position_embeddings.weight")
            + weights.array("embeddings.token_type_embeddings.weight")[0]
        )

    def __call__(self, pieces: Sequence[Sequence[int]]) -> list[npt.NDArray[Any]]:
        longest, width = -(-max(map(len, pieces)) // _STEP) * _STEP, self._places.shape[1]
        embedded = np.zeros((len(pieces), longest, width), dtype=np.float32)
        mask = np.zeros((len(pieces), longest), dtype=np.float32)
        for row, numbers in enumerate(pieces):
            words = self._weights.rows("embeddings.word_embeddings.weight", numbers)
            embedded[row, : len(numbers)] = words + self._places[: len(numbers)]
            mask[row, : len(numbers)] = 1
        return [embedded, mask]


def bert_graph(weights: Weights, *, is_small: bool) -> Any:
    """Returns an `openvino.Model`, from the sums of embeddings, float32 (texts, word pieces, width), and a mask of that
    shape without width, 1 for a word piece and 0 for padding, to the mean of what the last layer gives for a text's
    word pieces, float32 (texts, width).

    `is_small`: weights of 4 bits stay so, which takes a tenth of the memory, and of the time of long texts a twentieth
    more, in bfloat16 an eighth.
    """
    quiet_engines()
    from openvino import Model, op  # type: ignore[import-untyped]  # ships no types
    from openvino import opset13 as ops

    heads, width = weights.config["num_attention_heads"], weights.config["hidden_size"]

    def whole(*numbers: int) -> Any:
        return ops.constant(np.array(numbers, dtype=np.int64))

    def constant(name: str) -> Any:
        return op.Constant(weights.array(name), shared_memory=True)

    def matrix(name: str) -> Any:
        if is_small and isinstance(weights, FourBits):
            return _of_four_bits(*weights.blocks(name))
        return constant(name)

    def dense(x: Any, name: str) -> Any:
        return ops.add(ops.matmul(x, matrix(f"{name}.weight"), False, True), constant(f"{name}.bias"))

    def normed(x: Any, name: str) -> Any:
        centred = ops.mvn(x, whole(-1), True, weights.config["layer_norm_eps"], "inside_sqrt")
        return ops.add(ops.multiply(centred, constant(f"{name}.weight")), constant(f"{name}.bias"))

    def divided(x: Any) -> Any:
        """Among the heads: (texts, heads, word pieces, width of a head)."""
        return ops.transpose(ops.reshape(x, whole(0, 0, heads, width // heads), True), whole(0, 2, 1, 3))

    embedded = ops.parameter([-1, -1, width], np.float32)
    mask = ops.parameter([-1, -1], np.float32)
    hidden = ops.multiply(ops.subtract(mask, ops.constant(np.float32(1))), ops.constant(np.float32(1e9)))
    hidden = ops.unsqueeze(hidden, whole(1, 2))
    x = normed(embedded, "embeddings.LayerNorm")
    for number in range(weights.config["num_hidden_layers"]):
        layer = f"encoder.layer.{number}"
        parts = [divided(dense(x, f"{layer}.attention.self.{part}")) for part in _ATTENTION]
        attended = ops.scaled_dot_product_attention(*parts, hidden)
        attended = ops.reshape(ops.transpose(attended, whole(0, 2, 1, 3)), whole(0, 0, width), True)
        x = normed(
            ops.add(dense(attended, f"{layer}.attention.output.dense"), x), f"{layer}.attention.output.LayerNorm"
        )
        wide = ops.gelu(dense(x, f"{layer}.intermediate.dense"), "erf")
        x = normed(ops.add(dense(wide, f"{layer}.output.dense"), x), f"{layer}.output.LayerNorm")
    counted = ops.unsqueeze(mask, whole(-1))
    means = ops.divide(ops.reduce_sum(ops.multiply(x, counted), whole(1)), ops.reduce_sum(counted, whole(1)))
    return Model([ops.result(means)], [embedded, mask], "bert")


def _of_four_bits(pairs: npt.NDArray[np.uint8], scales: _Array) -> Any:
    import openvino
    from openvino import opset13 as ops

    outputs, blocks, _ = scales.shape
    halves = openvino.Tensor(openvino.Type.u4, [outputs, blocks, 2 * pairs.shape[2]])
    halves.data.reshape(-1)[:] = pairs.reshape(-1)
    centred = ops.subtract(
        ops.convert(ops.constant(halves), np.float32), ops.constant(np.full((1, 1, 1), 8, np.float32))
    )
    decoded = ops.multiply(centred, ops.constant(scales))
    return ops.reshape(decoded, ops.constant(np.array([outputs, -1], dtype=np.int64)), False)
