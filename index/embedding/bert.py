"""BERT without torch: texts become word pieces and the sum of their embeddings, an engine computes the layers, and the
mean of the last one is the vector.

Gives what the sentence-transformers model that it is made of gives, in float32 to some 1e-7.
"""

import json
import mmap
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from almanac.index.embedding.bert_layers import Layers
from almanac.index.embedding.unpack import TOKENIZER, WEIGHTS

_AT_ONCE = 2048  # word pieces in one pass: four of the longest texts, or more than a hundred questions
_MOST_BYTES = 1 << 30  # of layers: what engines read in one piece ends at 2 GiB

_Array = npt.NDArray[np.float32]
_Weights = Mapping[str, _Array]
Engine = Callable[[_Weights, Mapping[str, Any]], Layers]  # makes what computes the layers
Encode = Callable[[Sequence[str]], _Array]  # texts → unit vectors, float32 (n, dimension), in their order


class Bert:
    """A BERT model with mean pooling, whose layers an engine computes.

    Args:
        tokenizer: Its padding and truncation are set here.
        longest: Word pieces of a text that are read.
        weights: By their names in transformers. They are kept, so they should be mapped from a file.
        config: The model's config.json, or what has the same keys.
    """

    def __init__(self, tokenizer: Tokenizer, longest: int, weights: _Weights, config: Mapping[str, Any]) -> None:
        tokenizer.no_padding()
        tokenizer.enable_truncation(longest)
        self._tokenizer = tokenizer
        self._words = weights["embeddings.word_embeddings.weight"]
        self._places = (
            weights["embeddings.position_embeddings.weight"] + weights["embeddings.token_type_embeddings.weight"][0]
        )
        self._weights, self._config = weights, config

    @classmethod
    def of(cls, model: Any) -> Self | None:
        """Takes the weights of a sentence-transformers model. None where it is another architecture, lies on a GPU, or
        is too large.
        """
        parts = list(model)
        if not _is_usual(parts) or model.truncate_dim is not None:
            return None
        bert = parts[0].model
        weights = {name: value.detach().numpy() for name, value in bert.state_dict().items()}
        if sum(value.nbytes for name, value in weights.items() if name.startswith("encoder.")) > _MOST_BYTES:
            return None
        return cls(
            Tokenizer.from_str(model.tokenizer.backend_tokenizer.to_str()),
            model.max_seq_length,
            weights,
            bert.config.to_dict(),
        )

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Reads a bundled model, each of which is such a BERT. Its embeddings stay in the file, and processes share
        what they read of them.
        """
        config, sentences = (
            json.loads((folder / name).read_text()) for name in ("config.json", "sentence_bert_config.json")
        )
        return cls(
            Tokenizer.from_file(str(folder / TOKENIZER)), sentences["max_seq_length"], _mapped(folder / WEIGHTS), config
        )

    def encoder(self, engine: Engine) -> Encode:
        """Returns what encodes texts by an engine. Of a text, what exceeds the model's length is left out. Safe to
        share among threads.
        """
        return partial(self._encoded, engine(self._weights, self._config))

    def _encoded(self, layers: Layers, texts: Sequence[str]) -> _Array:
        pieces = [one.ids for one in self._tokenizer.encode_batch(list(texts))]
        # as it stays for a text without word pieces
        vectors = np.zeros((len(pieces), self._words.shape[1]), dtype=np.float32)
        passes = list(_passes([len(ids) for ids in pieces], layers.padding))
        for rows, means in zip(
            passes, layers.means([self._embedded(pieces[row]) for row in rows] for rows in passes), strict=True
        ):
            vectors[rows] = means
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        return vectors

    def _embedded(self, pieces: Sequence[int]) -> _Array:
        embedded: _Array = self._words[pieces] + self._places[: len(pieces)]
        return embedded


def _passes(lengths: Sequence[int], most_padding: Callable[[int], int]) -> Iterator[list[int]]:
    """Rows of texts that go through the model together, the longest first: of like length, as far as padding to the
    first costs more than another pass.
    """
    rows: list[int] = []
    padding = 0
    for row in sorted((row for row, length in enumerate(lengths) if length), key=lambda one: -lengths[one]):
        if rows:
            longest = lengths[rows[0]]
            padding += longest - lengths[row]
            if padding > most_padding(longest) or (len(rows) + 1) * longest > _AT_ONCE:
                yield rows
                rows, padding = [], 0
        rows.append(row)
    if rows:
        yield rows


def _is_usual(parts: list[Any]) -> bool:
    """Whether a model consists of BERT in float32 on the processor, as it was published, and the mean of what it
    gives.
    """
    import torch
    from transformers import BertModel

    bert = getattr(parts[0], "model", None)
    if type(bert) is not BertModel or [type(part).__name__ for part in parts[1:]] not in (
        ["Pooling"],
        ["Pooling", "Normalize"],
    ):
        return False
    config, pooling = bert.config, parts[1].get_config_dict()
    is_bert = (
        config.hidden_act == "gelu"
        and getattr(config, "position_embedding_type", "absolute") == "absolute"
        and not config.is_decoder
    )
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
    return {
        name: content[8 + size + begin : 8 + size + end].view("<f4").reshape(shape)
        for name, ((begin, end), shape) in places.items()
    }
