"""The layers of BERT as graphs of ONNX, which engines read: from the sum of a text's embeddings to what the last layer
gives.

`padded_graph` takes texts padded to the longest one. `packed_graph` takes their word pieces one after the other, and
pads them for attention alone.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

_FUSED = "com.microsoft"  # onnxruntime's own operators, several of ONNX's in one; OpenVINO reads some of them, too
_PARTS = ("query", "key", "value")

_Array = npt.NDArray[np.float32]


def padded_graph(weights: Mapping[str, _Array], config: Mapping[str, Any]) -> ModelProto:
    """Returns the layers: from `embedded`, float32 (texts, word pieces, width), and `mask`, int32 (texts, word pieces),
    to float32 of the first shape.

    Args:
        weights: Of the layers, by their names in transformers.
        config: The model's config.json, or what has the same keys.
    """
    graph = _Graph(weights, config)

    def attended(x: str, layer: str) -> str:
        inputs = [
            x,
            graph.weight(f"{layer}joined.weight", graph.joined(layer, "weight").T),
            graph.joined_bias(layer),
            "mask",
        ]
        return graph.node("Attention", inputs, f"{layer}attended", _FUSED, num_heads=config["num_attention_heads"])

    def added(product: str, bias: str, to: str, norm: Sequence[str], name: str) -> str:
        return graph.node(
            "SkipLayerNormalization", [product, to, *norm, bias], name, _FUSED, epsilon=config["layer_norm_eps"]
        )

    last = graph.layers(attended, added)
    return graph.model(
        {
            "embedded": (TensorProto.FLOAT, ["texts", "pieces", config["hidden_size"]]),
            "mask": (TensorProto.INT32, ["texts", "pieces"]),
        },
        last,
    )


def packed_graph(weights: Mapping[str, _Array], config: Mapping[str, Any]) -> ModelProto:
    """Returns the layers: from `embedded`, float32 (word pieces of all texts, width), to float32 of that shape.

    Attention works on a grid of all texts, padded to the longest one. `places`, int64 (texts, longest), has the row of
    `embedded` for each place of the grid, any row for padding; `mask`, int32 of that shape, is 1 for a word piece and 0
    for padding; `pieces`, int64 (word pieces), are the flat indices in the grid of all word pieces, in the order of
    `embedded`.

    Args:
        weights: Of the layers, by their names in transformers.
        config: The model's config.json, or what has the same keys.
    """
    graph = _Graph(weights, config)
    flat = graph.weight("flat", np.array([-1, config["hidden_size"]]))

    def attended(x: str, layer: str) -> str:
        product = graph.node(
            "MatMul",
            [x, graph.weight(f"{layer}joined.weight", graph.joined(layer, "weight").T)],
            f"{layer}joined.product",
        )
        padded = graph.node("Gather", [product, "places"], f"{layer}padded", axis=0)
        parts = graph.nodes("Split", [padded], [f"{layer}{part}" for part in _PARTS], axis=-1)
        inputs = [*parts, graph.joined_bias(layer), "mask"]
        grid = graph.node(
            "MultiHeadAttention", inputs, f"{layer}attended.padded", _FUSED, num_heads=config["num_attention_heads"]
        )
        rows = graph.node("Reshape", [grid, flat], f"{layer}attended.rows")
        return graph.node("Gather", [rows, "pieces"], f"{layer}attended", axis=0)

    def added(product: str, bias: str, to: str, norm: Sequence[str], name: str) -> str:
        # onnxruntime takes three times as long for these three in one
        biased = graph.node("Add", [product, bias], f"{name}.biased")
        both = graph.node("Add", [biased, to], f"{name}.sum")
        return graph.node("LayerNormalization", [both, *norm], name, epsilon=config["layer_norm_eps"])

    last = graph.layers(attended, added)
    taken = {
        "embedded": (TensorProto.FLOAT, ["pieces", config["hidden_size"]]),
        "places": (TensorProto.INT64, ["texts", "longest"]),
        "mask": (TensorProto.INT32, ["texts", "longest"]),
        "pieces": (TensorProto.INT64, ["pieces"]),
    }
    return graph.model(taken, last)


class _Graph:
    """Nodes and weights of a graph as it is made. What a node is given, and gives, has a name."""

    def __init__(self, weights: Mapping[str, _Array], config: Mapping[str, Any]) -> None:
        self._weights, self._config = weights, config
        self._nodes: list[NodeProto] = []
        self._kept: list[TensorProto] = []

    def weight(self, name: str, value: npt.NDArray[Any]) -> str:
        self._kept.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def node(self, operator: str, inputs: Sequence[str], output: str, domain: str = "", **attributes: Any) -> str:
        return self.nodes(operator, inputs, [output], domain, **attributes)[0]

    def nodes(
        self, operator: str, inputs: Sequence[str], outputs: Sequence[str], domain: str = "", **attributes: Any
    ) -> Sequence[str]:
        self._nodes.append(helper.make_node(operator, inputs, outputs, domain=domain, **attributes))
        return outputs

    def joined(self, layer: str, kind: str) -> _Array:
        """Weights or biases of queries, keys and values, one after the other."""
        return np.concatenate([self._weights[f"{layer}attention.self.{part}.{kind}"] for part in _PARTS])

    def joined_bias(self, layer: str) -> str:
        return self.weight(f"{layer}joined.bias", self.joined(layer, "bias"))

    def layers(
        self, attended: Callable[[str, str], str], added: Callable[[str, str, str, Sequence[str], str], str]
    ) -> str:
        """Adds all layers, and returns the name of what the last one gives.

        Args:
            attended: Adds the attention of a layer, from what the layer before gives and the layer's name.
            added: Adds a sum that is normalised, from a product, its bias, what is added to it, weight and bias of the
                norm, and the name for the result.
        """

        def part(x: str, to: str, name: str) -> str:
            norm = [self._of(f"{name}.LayerNorm.weight"), self._of(f"{name}.LayerNorm.bias")]
            return added(self._product(x, f"{name}.dense"), self._of(f"{name}.dense.bias"), to, norm, name)

        first = ["embedded", self._of("embeddings.LayerNorm.weight"), self._of("embeddings.LayerNorm.bias")]
        x = self.node("LayerNormalization", first, "embeddings", epsilon=self._config["layer_norm_eps"])
        for number in range(self._config["num_hidden_layers"]):
            layer = f"encoder.layer.{number}."
            x = part(attended(x, layer), x, f"{layer}attention.output")
            inputs = [self._product(x, f"{layer}intermediate.dense"), self._of(f"{layer}intermediate.dense.bias")]
            x = part(self.node("BiasGelu", inputs, f"{layer}intermediate", _FUSED), x, f"{layer}output")
        return x

    def model(self, taken: Mapping[str, tuple[int, Sequence[str | int]]], given: str) -> ModelProto:
        """The graph as a model, from the types and shapes of what it takes; what it gives has those of the first."""
        inputs = [helper.make_tensor_value_info(name, *of) for name, of in taken.items()]
        output = helper.make_tensor_value_info(given, *next(iter(taken.values())))
        graph = helper.make_graph(self._nodes, "bert", inputs, [output], self._kept)
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(_FUSED, 1)], ir_version=8
        )

    def _of(self, name: str) -> str:
        return self.weight(name, self._weights[name])

    def _product(self, x: str, name: str) -> str:
        return self.node(
            "MatMul", [x, self.weight(f"{name}.weight", self._weights[f"{name}.weight"].T)], f"{name}.product"
        )
