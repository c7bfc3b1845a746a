"""The layers of BERT as a graph of ONNX, which engines read: from the sum of a text's embeddings to what the last layer gives."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, TensorProto, helper, numpy_helper

_FUSED = "com.microsoft"  # onnxruntime's own operators, several of ONNX's in one; OpenVINO reads them, too

_Array = npt.NDArray[np.float32]


def layers_graph(weights: Mapping[str, _Array], config: Mapping[str, Any]) -> ModelProto:
    """Returns the layers: from `embedded`, float32 (texts, word pieces, width), and `mask`, int32 (texts, word pieces), to float32 of the first shape.

    Args:
        weights: Of the layers, by their names in transformers.
        config: The model's config.json, or what has the same keys.
    """
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
