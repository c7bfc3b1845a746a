"""The layers of BERT by two engines: onnxruntime, which is ready sooner, for questions; OpenVINO, which takes less for
each text, for documents.

Both give the mean of the last layer over the word pieces of a text.
"""

import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from threading import Lock
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from almanac.core.processors import processors
from almanac.core.settings import quiet_engines
from almanac.index.embedding.bert_graph import packed_graph, padded_graph

_PADDING = 16  # word pieces of padding that cost less than another pass
# where only attention sees padding: word pieces of padding, times those of the longest text, that cost less than
# another pass
_ATTENDED = 8192
_LOADING = Lock()

_Array = npt.NDArray[np.float32]
_Weights = Mapping[str, _Array]
_Config = Mapping[str, Any]
# texts that go through the layers together, the longest first: each the sum of its embeddings, (word pieces, width)
Embedded = Sequence[_Array]


class Layers(Protocol):
    """Safe to share among threads."""

    def padding(self, longest: int) -> int:
        """Returns how much padding to the length of the longest text costs less than another pass, in word pieces."""

    def means(self, passes: Iterable[Embedded]) -> Iterator[_Array]:
        """Yields what the last layer gives for each pass, in order: the means over the word pieces of each text,
        float32 (texts, width).
        """


class OnnxLayers:
    """In float32 by onnxruntime: it is imported in a tenth of the time that torch takes, and computes with Python's
    lock free.

    Only attention pads texts; all else, which takes the time, sees their word pieces one after the other.
    """

    def __init__(self, weights: _Weights, config: _Config) -> None:
        quiet_engines()
        import onnxruntime  # type: ignore[import-untyped]  # ships no types

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = _threads(), 1
        options.log_severity_level = 3
        # beyond, it joins nodes again that are quicker apart
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        # threads that wait for each other leave the cores to others
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        graph = packed_graph(weights, config)
        self._session = onnxruntime.InferenceSession(
            graph.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )

    def padding(self, longest: int) -> int:
        return _ATTENDED // longest

    def means(self, passes: Iterable[Embedded]) -> Iterator[_Array]:
        for texts in passes:
            lengths = np.array([len(text) for text in texts])
            begins = np.cumsum(lengths) - lengths
            column = np.arange(lengths[0])
            is_piece = column < lengths[:, None]
            given = {
                "embedded": np.concatenate(texts),
                "places": np.where(is_piece, begins[:, None] + column, 0),
                "mask": is_piece.astype(np.int32),
                "pieces": np.flatnonzero(is_piece),
            }
            means: _Array = np.add.reduceat(self._session.run(None, given)[0], begins, axis=0)
            means /= lengths[:, None]
            yield means


class OpenVinoLayers:
    """By OpenVINO, in bfloat16 or float32: some passes at once, each on one core or a few, while the next ones are
    prepared.
    """

    def __init__(self, weights: _Weights, config: _Config, *, is_half: bool) -> None:
        with _LOADING:
            core = _open_vino()
        told = {
            "INFERENCE_PRECISION_HINT": "bf16" if is_half else "f32",
            "PERFORMANCE_HINT": "THROUGHPUT",
            "INFERENCE_NUM_THREADS": _threads(),
            "ENABLE_CPU_PINNING": False,  # several processes would be bound to the same cores
        }
        self._layers = core.compile_model(
            core.read_model(padded_graph(weights, config).SerializeToString()), "CPU", told
        )
        self._at_once = int(self._layers.get_property("OPTIMAL_NUMBER_OF_INFER_REQUESTS"))

    def padding(self, longest: int) -> int:  # noqa: ARG002  # it costs as much in texts of any length
        return _PADDING

    def means(self, passes: Iterable[Embedded]) -> Iterator[_Array]:
        idle = [self._layers.create_infer_request() for _ in range(self._at_once)]
        # with what it reads, which is not copied, and the lengths of its texts
        running: deque[tuple[Any, dict[str, Any], list[int]]] = deque()
        try:
            for texts in passes:
                if not idle:
                    yield _means(running[0][0], running[0][2])
                    idle.append(running.popleft()[0])
                request, given = idle.pop(), _padded(texts)
                request.start_async(given, share_inputs=True)
                running.append((request, given, [len(text) for text in texts]))
            for request, _, lengths in running:
                yield _means(request, lengths)
        finally:  # whoever stops halfway must not free what is still read
            for request, *_ in running:
                with suppress(Exception):
                    request.wait()


@cache
def _open_vino() -> Any:
    """OpenVINO's core, kept until the process ends.

    Its plugin gives the thread that loads it a stack for signal handlers, and frees that with the last model. In
    another thread it frees the stack without taking it back, and the next signal, such as Ctrl-C, ends the process with
    a crash. So does a second core, which is why loading takes a lock.
    """
    quiet_engines()
    import openvino  # type: ignore[import-untyped]  # ships no types

    return openvino.Core()


def _padded(texts: Embedded) -> dict[str, Any]:
    embedded = np.zeros((len(texts), *texts[0].shape), dtype=np.float32)  # the first is the longest
    mask = np.zeros(embedded.shape[:2], dtype=np.int32)
    for row, text in enumerate(texts):
        embedded[row, : len(text)] = text
        mask[row, : len(text)] = 1
    return {"embedded": embedded, "mask": mask}


def _means(request: Any, lengths: Sequence[int]) -> _Array:
    request.wait()
    output = request.get_output_tensor().data
    return np.stack([row[:length].mean(axis=0) for row, length in zip(output, lengths, strict=True)])


def _threads() -> int:
    """As many as this process may have, as torch counts them; named, so that onnxruntime binds none of them to a
    core.
    """
    said = os.environ.get("OMP_NUM_THREADS", "")
    return int(said) if said.isdecimal() and int(said) > 0 else processors()
