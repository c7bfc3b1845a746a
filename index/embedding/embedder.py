"""The embedder interface, the local embedder, and the validation of vectors that every embedder returns."""

from collections.abc import Sequence
from functools import cached_property, lru_cache, partial
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from almanac.core.settings import DataDir
from almanac.index.embedding.four_bits import FourBits
from almanac.index.embedding.model_folder import BUNDLED, FourBitModel, ModelFolder, describe_embedder, find_model
from almanac.index.embedding.precision import has_bfloat16, has_gpu, resolve
from almanac.schemas.errors import OperationalError
from almanac.schemas.hashing import sha256
from almanac.schemas.manifest import EmbedderInfo

if TYPE_CHECKING:
    from almanac.schemas.declaration.embed_section import Embed

__all__ = [
    "BUNDLED",
    "Embedder",
    "LocalEmbedder",
    "RemoteEmbedder",
    "Vectors",
    "checked_vectors",
    "describe_embedder",
    "load_embedder",
]

Vectors = npt.NDArray[np.float32]
_UNIT = 1e-6  # tolerance for unit length
_LOADING = Lock()


class Embedder(Protocol):
    """Converts texts to vectors. Both methods return unit vectors, float32 (n, dimension), in the order of `texts`; n
    may be 0.
    """

    @property
    def info(self) -> EmbedderInfo: ...

    def embed_documents(self, texts: Sequence[str]) -> Vectors: ...

    def embed_queries(self, texts: Sequence[str]) -> Vectors: ...


@runtime_checkable
class RemoteEmbedder(Embedder, Protocol):
    """An embedder behind an API, which bills tokens and may refuse single texts."""

    @property
    def tokens(self) -> int:
        """Tokens billed so far."""

    def embed_each(self, texts: Sequence[str]) -> tuple[Vectors, dict[int, str]]:
        """Returns the vectors of the accepted documents, float32 (n, dimension), in order, and row → reason for the
        refused ones.
        """


def load_embedder(embed: "Embed", data: DataDir | None = None, *, for_queries: bool = False) -> Embedder:
    """Returns the declared embedder, ready to use. Importing and loading a local model takes about 5 s, a bundled one
    half a second to two.

    `for_queries` gives vectors that differ by some 1e-7 at most: for questions, and for sentences that are compared
    with them and not kept. An API's declared rate limits are shared by all processes with the same `data`; None stands
    for the data directory that the environment determines. Raises DeclarationError where a local model cannot be
    loaded, CredentialRefused where an API's key is missing.
    """
    if embed.provider != "local":
        from almanac.schemas.declaration.api_section import EMBEDDERS, provided

        made: Embedder = provided(EMBEDDERS, embed.provider).load()(embed, data)
        return made
    return LocalEmbedder(embed, for_queries=for_queries)


class Encode(Protocol):
    """Encodes texts by a model on this machine. Safe to share among threads."""

    def __call__(self, texts: Sequence[str], kind: str, prompt: str) -> Vectors:
        """Returns unit vectors, float32 (n, dimension), in the order of the texts, each with the prompt before it.
        There is at least one; `kind` is query or document.
        """


class LocalEmbedder:
    """A sentence-transformers model on this machine, on a GPU where available. Safe to share among threads.

    Documents are embedded in the declared precision, in float32 where this machine lacks bfloat16; queries in float32,
    so that they are alike everywhere. On a processor OpenVINO computes the model, without torch.
    """

    def __init__(self, embed: "Embed", *, for_queries: bool = False) -> None:
        self._embed = resolve(embed)
        self._info = describe_embedder(self._embed)
        self._for_queries = for_queries
        _spare_cores()
        _ = self._query_encoder if for_queries else self._document_encoder

    @property
    def info(self) -> EmbedderInfo:
        return self._info

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        encode = self._query_encoder if self._for_queries else self._document_encoder
        return self._checked(encode, "document", self._info.document_prompt, texts)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        return self._checked(self._query_encoder, "query", self._info.query_prompt, texts)

    @cached_property
    def _document_encoder(self) -> "Encode":
        """Encodes documents."""
        is_half = self._embed.precision == "bfloat16" and has_bfloat16()
        return self._encoder(is_half=is_half, is_asked=False)

    @cached_property
    def _query_encoder(self) -> "Encode":
        """Encodes queries, and what is compared with them and not kept."""
        return self._encoder(is_half=False, is_asked=True)

    def _encoder(self, *, is_half: bool, is_asked: bool) -> "Encode":
        """In bfloat16 with `is_half`; weights of 4 bits stay so with `is_asked`. Raises DeclarationError where the
        model cannot be loaded.
        """
        folder = find_model(self._embed)
        with _LOADING:
            is_small = is_asked and isinstance(folder, FourBitModel) and not has_gpu()
            return _load(folder, self._info.revision, self._info.dimension, is_half, is_small)

    def _checked(self, encode: "Encode", kind: str, prompt: str, texts: Sequence[str]) -> Vectors:
        if not texts:
            return np.empty((0, self._info.dimension), dtype=np.float32)
        return checked_vectors(encode(texts, kind, prompt), texts, self._info)


@lru_cache(maxsize=8)
def _load(folder: ModelFolder, _revision: str, dimension: int, is_half: bool, is_small: bool) -> Encode:
    """The encoder of a model, which all embedders of a process share."""
    from almanac.index.embedding.library_models import LibraryModel, convert

    if has_gpu():
        return LibraryModel(folder, dimension, is_half=is_half)
    if folder.name in BUNDLED:
        return _load_bundled(folder, is_half=is_half, is_small=is_small)
    converted = convert(folder, dimension)
    if converted is None:
        return LibraryModel(folder, dimension, is_half=is_half)
    return converted.encoder(is_half=is_half)


def _load_bundled(folder: ModelFolder, *, is_half: bool, is_small: bool) -> Encode:
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


def checked_vectors(vectors: Any, texts: Sequence[str], info: EmbedderInfo) -> Vectors:
    """Returns the vectors of `texts` as float32 (n, dimension) of unit length.

    Raises OperationalError, with the hash of the text concerned, for a wrong number or dimension of vectors, and for a
    zero or non-finite vector.
    """
    array = np.asarray(vectors, dtype=np.float32)
    if array.ndim != 2 or len(array) != len(texts):
        first = f", the first with sha256 {sha256(texts[0])}" if texts else ""
        raise OperationalError(
            f"{len(texts)} texts were sent{first}; the answer has the shape {array.shape}",
            where=info.model,
            hint="run again; completed parts are kept",
        )
    if array.shape[1] != info.dimension:
        raise OperationalError(
            f"a vector of dimension {array.shape[1]} instead of {info.dimension} for the text with sha256 "
            f"{sha256(texts[0])}",
            where=info.model,
            hint="the model has changed: check embed.model",
        )
    norms = np.linalg.norm(array.astype(np.float64), axis=1)
    off = ~(np.abs(norms - 1) <= _UNIT)
    if not off.any():
        return array  # vectors that are of unit length stay identical to the bit
    unusable = np.flatnonzero(~np.isfinite(norms) | (norms < 1e-9))
    if len(unusable):
        what = "zero" if np.isfinite(norms[unusable[0]]) else "not finite"
        raise OperationalError(
            f"the vector is {what} for the text with sha256 {sha256(texts[int(unusable[0])])}",
            where=info.model,
            hint="find the text in chunks.parquet by text_sha256",
        )
    array = array.copy()
    array[off] = array[off] / norms[off, None]
    return array


def _spare_cores() -> None:
    from threadpoolctl import threadpool_limits

    # NumPy's BLAS threads busy-wait for a tenth of a second after each product and block the model's: a query takes 110
    # ms instead of 20.
    threadpool_limits(1, user_api="blas")
