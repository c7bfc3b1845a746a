"""What encodes texts for a model on this machine: one for each model and way of computing it, which all embedders of a
process share.
"""

from collections.abc import Sequence
from functools import lru_cache, partial
from threading import Lock
from typing import Protocol

import numpy as np
import numpy.typing as npt

from almanac.index.embedding.four_bits import FourBits
from almanac.index.embedding.model_folder import BUNDLED, FourBitModel, ModelFolder
from almanac.index.embedding.precision import has_gpu
from almanac.schemas.manifest import EmbedderInfo

_Vectors = npt.NDArray[np.float32]
_loading = Lock()


class Encode(Protocol):
    """Safe to share among threads."""

    def __call__(self, texts: Sequence[str], kind: str, prompt: str) -> _Vectors:
        """Returns unit vectors, float32 (n, dimension), in the order of the texts, each with the prompt before it.
        There is at least one; `kind` is query or document.
        """


def load_encoder(folder: ModelFolder, info: EmbedderInfo, *, is_half: bool, is_asked: bool) -> Encode:
    """Returns the encoder of a model, in bfloat16 with `is_half`; `is_asked` for questions, which keep
    weights of 4 bits as they are.

    Raises DeclarationError where the model cannot be loaded.
    """
    with _loading:
        is_small = is_asked and isinstance(folder, FourBitModel) and not has_gpu()
        return _load(folder, info.revision, info.dimension, is_half, is_small)


@lru_cache(maxsize=8)
def _load(folder: ModelFolder, _revision: str, dimension: int, is_half: bool, is_small: bool) -> Encode:
    from almanac.index.embedding.library_models import LibraryModel, convert

    if has_gpu():
        return LibraryModel(folder, dimension, is_half=is_half)
    if folder.name in BUNDLED:
        return _bundled(folder, is_half=is_half, is_small=is_small)
    found = convert(folder, dimension)
    if found is None:
        return LibraryModel(folder, dimension, is_half=is_half)
    return found.encoder(is_half=is_half)


def _bundled(folder: ModelFolder, *, is_half: bool, is_small: bool) -> Encode:
    from almanac.index.embedding.bert import Embeddings, SafeTensors, bert_graph
    from almanac.index.embedding.open_vino import Encoder
    from almanac.index.embedding.word_pieces import read_word_pieces

    weights = FourBits(folder.path) if folder.path.is_file() else SafeTensors(folder.path)
    tokenizer = folder.tokenizer()
    assert tokenizer is not None
    cut = partial(read_word_pieces(tokenizer).numbers, longest=folder.max_seq_length())
    graph = bert_graph(weights, is_small=is_small)
    encoder = Encoder(graph, cut, Embeddings(weights), folder.dimension(), is_half=is_half)
    weights.release()  # it has its own copy
    return encoder
