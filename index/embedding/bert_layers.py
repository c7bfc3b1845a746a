"""The layers of BERT by two engines: onnxruntime, which is ready sooner, for questions; OpenVINO, which takes less for each text, for documents."""

import os
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from almanac.core.settings import quiet_engines

if TYPE_CHECKING:
    from onnx import ModelProto

_Array = npt.NDArray[np.float32]
_LOADING = Lock()


class Pass(NamedTuple):
    """What goes through the layers together: texts that are padded to the longest."""

    embedded: _Array  # (texts, word pieces, width)
    mask: npt.NDArray[np.int32]  # (texts, word pieces): 1 for a word piece, 0 for padding


class Layers(Protocol):
    """Safe to share among threads."""

    def outputs(self, passes: Iterable[Pass]) -> Iterator[_Array]:
        """Yields what the last layer gives for each pass, in order, of the shape of `embedded`; it is valid until the next one is asked for."""


class OnnxLayers:
    """In float32 by onnxruntime: it is imported in a tenth of the time that torch takes, and computes with Python's lock free."""

    def __init__(self, graph: "ModelProto") -> None:
        quiet_engines()
        import onnxruntime  # type: ignore[import-untyped]  # ships no types

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = _threads(), 1
        options.log_severity_level = 3
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # threads that wait for each other leave the cores to others
        self._session = onnxruntime.InferenceSession(graph.SerializeToString(), options, providers=["CPUExecutionProvider"])

    def outputs(self, passes: Iterable[Pass]) -> Iterator[_Array]:
        for one in passes:
            yield self._session.run(None, one._asdict())[0]


class OpenVinoLayers:
    """By OpenVINO, in bfloat16 or float32: some passes at once, each on one core or a few, while the next ones are prepared."""

    def __init__(self, graph: "ModelProto", *, is_half: bool) -> None:
        with _LOADING:
            core = _open_vino()
        told = {
            "INFERENCE_PRECISION_HINT": "bf16" if is_half else "f32",
            "PERFORMANCE_HINT": "THROUGHPUT",
            "INFERENCE_NUM_THREADS": _threads(),
            "ENABLE_CPU_PINNING": False,  # several processes would be bound to the same cores
        }
        self._layers = core.compile_model(core.read_model(graph.SerializeToString()), "CPU", told)
        self._at_once = int(self._layers.get_property("OPTIMAL_NUMBER_OF_INFER_REQUESTS"))

    def outputs(self, passes: Iterable[Pass]) -> Iterator[_Array]:
        idle = [self._layers.create_infer_request() for _ in range(self._at_once)]
        running: deque[tuple[Any, Pass]] = deque()  # with what it reads, which is not copied
        try:
            for one in passes:
                if not idle:
                    yield _output(running[0][0])
                    idle.append(running.popleft()[0])
                request = idle.pop()
                request.start_async(one._asdict(), share_inputs=True)
                running.append((request, one))
            for request, _ in running:
                yield _output(request)
        finally:  # whoever stops halfway must not free what is still read
            for request, _ in running:
                with suppress(Exception):
                    request.wait()


@cache
def _open_vino() -> Any:
    """OpenVINO's core, kept until the process ends.

    Its plugin gives the thread that loads it a stack for signal handlers, and frees that with the last model. In another thread it frees the stack without
    taking it back, and the next signal, such as Ctrl-C, ends the process with a crash. So does a second core, which is why loading takes a lock.
    """
    quiet_engines()
    import openvino  # type: ignore[import-untyped]  # ships no types

    return openvino.Core()


def _output(request: Any) -> _Array:
    request.wait()
    output: _Array = request.get_output_tensor().data
    return output


def _threads() -> int:
    """As many as this process may have, as torch counts them; named, so that onnxruntime binds none of them to a core."""
    said = os.environ.get("OMP_NUM_THREADS", "")
    return int(said) if said.isdecimal() and int(said) > 0 else len(os.sched_getaffinity(0))
