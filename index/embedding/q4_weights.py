"""Reads weights of a BERT model in 4 bits, from a file that begins with `E5S1`.

The file is little-endian: magic, u32 version, the model's sizes, tables of a tokenizer (not read here), then a
directory of tensors: name, kind, number of weights, place. A tensor is stored as float32, or as blocks of 18 bytes for
32 weights: a float16 scale, then 16 bytes whose low halves are weights 0 to 15 and whose high halves are weights 16 to
31. A weight is (half - 8) * scale, which float32 holds exactly.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

_MAGIC = b"E5S1"
_VERSION = 1
_BLOCK = 32  # weights that share a scale
_BLOCK_BYTES = 18
_FLOAT32, _BLOCKS = 0, 1
_AT_ONCE = 32_768  # blocks that are unpacked at once: 4 MB of weights

Weights = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of the model, as its file states them."""

    hidden: int
    layers: int
    heads: int
    feed_forward: int
    vocabulary: int
    positions: int
    token_types: int
    layer_norm_epsilon: float


@dataclass(frozen=True, slots=True)
class Tensor:
    """Where a tensor lies in the file: `kind` 0 for float32, 1 for blocks; `count` weights in `size` bytes from
    `offset`.
    """

    kind: int
    count: int
    offset: int
    size: int


class Q4Weights:
    """The sizes and tensors of a file's content. Raises ValueError where that is not such a file, or not a whole
    one.
    """

    def __init__(self, content: bytes) -> None:
        self._content = content
        reader = _Reader(content)
        if reader.bytes(4) != _MAGIC:
            raise ValueError(f"it does not begin with {_MAGIC.decode()}")
        if (version := reader.one("I")) != _VERSION:
            raise ValueError(f"it has version {version}, and {_VERSION} is read")
        self.sizes = Sizes(*reader.many("7if"))
        if (block := reader.one("i")) != _BLOCK:
            raise ValueError(f"its blocks have {block} weights, and {_BLOCK} are read")
        _skip_tokenizer(reader)
        self.tensors = dict(_tensor(reader) for _ in range(reader.one("i")))
        for name, tensor in self.tensors.items():
            expected = tensor.count * 4 if tensor.kind == _FLOAT32 else tensor.count // _BLOCK * _BLOCK_BYTES
            if (
                tensor.kind not in (_FLOAT32, _BLOCKS)
                or (tensor.kind == _BLOCKS and tensor.count % _BLOCK)
                or tensor.size != expected
            ):
                raise ValueError(
                    f"its tensor {name} has {tensor.count} weights of kind {tensor.kind} in {tensor.size} bytes"
                )
            if tensor.offset + tensor.size > len(content):
                raise ValueError(f"it ends before its tensor {name}")

    def read(self, name: str) -> Iterator[Weights]:
        """Yields a tensor's weights in order, as flat float32 arrays of a few megabytes each."""
        tensor = self.tensors[name]
        stored = np.frombuffer(self._content, np.uint8, tensor.size, tensor.offset)
        if tensor.kind == _FLOAT32:
            yield stored.view("<f4")
            return
        blocks = stored.reshape(-1, _BLOCK_BYTES)
        for begin in range(0, len(blocks), _AT_ONCE):
            part = blocks[begin : begin + _AT_ONCE]
            scales, halves = part[:, :2].copy().view("<f2").astype("<f4"), part[:, 2:]
            weights = np.concatenate([halves & 15, halves >> 4], axis=1).astype("<f4")
            weights -= 8
            weights *= scales
            yield weights.reshape(-1)


class _Reader:
    """Reads values one after the other. Raises ValueError at the end of the content."""

    def __init__(self, content: bytes) -> None:
        self._content, self._at = content, 0

    def bytes(self, size: int) -> bytes:
        begin, self._at = self._at, self._at + size
        if size < 0 or self._at > len(self._content):
            raise ValueError(f"it ends after {len(self._content)} bytes, before its directory of tensors does")
        return self._content[begin : self._at]

    def many(self, form: str) -> tuple[Any, ...]:
        return struct.unpack(f"<{form}", self.bytes(struct.calcsize(f"<{form}")))

    def one(self, form: str) -> Any:
        return self.many(form)[0]


def _skip_tokenizer(reader: _Reader) -> None:
    pieces, *_special_ids = reader.many("5i")
    reader.bytes(reader.one("Q") + (pieces + 1) * 4 + pieces * 4)
    _, size = reader.many("iI")
    reader.bytes(size)


def _tensor(reader: _Reader) -> tuple[str, Tensor]:
    name = reader.bytes(reader.one("H")).decode()
    kind, count = reader.many("BI")
    offset, size = reader.many("QQ")
    return name, Tensor(kind, count, offset, size)
