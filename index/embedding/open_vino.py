"""Texts by OpenVINO: their word pieces, passes of texts of like length, some at once, and the vectors that a model
makes of them.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from almanac.core.processors import processors
from almanac.core.settings import quiet_engines

_AT_ONCE = 2048  # word pieces in one pass: four of the longest texts, or more than a hundred questions
_PADDING = 16  # word pieces of padding that cost less than another pass
_LOADING = Lock()

_Vectors = npt.NDArray[np.float32]
Pieces = Sequence[Sequence[int]]


class Encoder:
    """Encodes texts by a model of OpenVINO. Safe to share among threads.

    Args:
        model: The `openvino.Model`. It gives a vector for each text.
        cut: Gives the numbers of texts' word pieces.
        take: Makes of them what the model takes, in the order of its parameters.
        width: Of a vector.
        is_half: Whether it computes in bfloat16, else in float32.
    """

    # frozen
    def __init__(
        self,
        model: Any,
        cut: Callable[[Sequence[str]], Pieces],
        take: Callable[[Pieces], list[npt.NDArray[Any]]],
        width: int,
        *,
        is_half: bool,
    ) -> None:
        settings = {
            "INFERENCE_PRECISION_HINT": "bf16" if is_half else "f32",
            "PERFORMANCE_HINT": "THROUGHPUT",
            "INFERENCE_NUM_THREADS": _threads(),
            "ENABLE_CPU_PINNING": False,  # several processes would be bound to the same cores
            "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0,  # would round what passes between layers to 8 bits
        }
        with _LOADING:
            self._compiled = _core().compile_model(model, "CPU", settings)
        self._cut, self._take, self._width = cut, take, width
        self._at_once = int(self._compiled.get_property("OPTIMAL_NUMBER_OF_INFER_REQUESTS"))
        self._idle: list[Any] = []  # requests; those of several threads wait for each other inside

    def __call__(self, texts: Sequence[str], kind: str = "document", prompt: str = "") -> _Vectors:  # noqa: ARG002
        """Returns unit vectors, float32 (texts, width), in the order of the texts, each with the prompt before it;
        zeros for one without word pieces.
        """
        pieces = self._cut([prompt + text for text in texts])
        vectors = np.zeros((len(texts), self._width), dtype=np.float32)
        running: deque[tuple[Any, list[npt.NDArray[Any]], list[int]]] = deque()  # with what is read, and not copied
        together = list(passes([len(piece) for piece in pieces]))
        try:
            for rows in together:
                if len(running) == self._at_once:
                    self._finish(running, vectors)
                request = self._request()
                given = self._take([pieces[row] for row in rows])
                running.append((request, given, rows))
                if len(together) == 1:  # in this thread: on a busy machine, another one begins late
                    request.infer(given, share_inputs=True)
                else:
                    request.start_async(given, share_inputs=True)
            while running:
                self._finish(running, vectors)
        finally:  # whoever stops halfway must not free what is still read
            for request, *_ in running:
                with suppress(Exception):
                    request.wait()
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        return vectors

    def _request(self) -> Any:
        try:
            return self._idle.pop()
        except IndexError:
            return self._compiled.create_infer_request()

    def _finish(self, running: "deque[tuple[Any, list[npt.NDArray[Any]], list[int]]]", vectors: _Vectors) -> None:
        """Waits for the first that runs, and takes its vectors. It stays among them until then."""
        request, _, rows = running[0]
        request.wait()
        vectors[rows] = request.get_output_tensor().data
        running.popleft()
        self._idle.append(request)


def read_model(path: Path) -> Any:
    """Reads an `openvino.Model`, whose weights stay mapped."""
    with _LOADING:
        return _core().read_model(path)


@cache
def _core() -> Any:
    """OpenVINO's core, kept until the process ends. The caller has `_LOADING`.

    Its plugin gives the thread that loads it a stack for signal handlers, and frees that with the last model. In
    another thread it frees the stack without taking it back, and the next signal, such as Ctrl-C, ends the process with
    a crash. So does a second core.
    """
    quiet_engines()
    import openvino  # type: ignore[import-untyped]  # ships no types

    return openvino.Core()


def passes(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Rows of texts that go through the model together, the longest first: of like length, as far as padding to the
    first costs more than another pass. A text of length 0 is in none.
    """
    rows: list[int] = []
    padding = 0
    for row in sorted((row for row, length in enumerate(lengths) if length), key=lambda row: -lengths[row]):
        if rows:
            longest = lengths[rows[0]]
            padding += longest - lengths[row]
            if padding > _PADDING or (len(rows) + 1) * longest > _AT_ONCE:
                yield rows
                rows, padding = [], 0
        rows.append(row)
    if rows:
        yield rows


def _threads() -> int:
    """As many as this process may have, as torch counts them."""
    declared = os.environ.get("OMP_NUM_THREADS", "")
    return int(declared) if declared.isdecimal() and int(declared) > 0 else processors()
