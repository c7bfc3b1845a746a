"""The embedder interface, the local embedder, and the validation of vectors that every embedder returns."""

import threading
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from almanac.core.extras import require_extra
from almanac.core.settings import DataDir
from almanac.index.embedding.model_folder import BUNDLED, describe_embedder, find_model
from almanac.index.embedding.precision import has_bfloat16, has_gpu, resolve
from almanac.index.embedding.score_thresholds import ScoreThresholds, score_thresholds
from almanac.index.embedding.together import EmbedTogether
from almanac.index.embedding.unpack import TOKENIZER, WEIGHTS
from almanac.schemas.errors import DeclarationError, OperationalError
from almanac.schemas.hashing import sha256
from almanac.schemas.manifest import EmbedderInfo

if TYPE_CHECKING:
    from almanac.index.embedding.bert import Bert, Encode
    from almanac.schemas.declaration.embed import Embed

__all__ = [
    "BUNDLED",
    "Embedder",
    "LocalEmbedder",
    "RemoteEmbedder",
    "ScoreThresholds",
    "Vectors",
    "checked_vectors",
    "describe_embedder",
    "load_embedder",
]

Vectors = npt.NDArray[np.float32]
# texts in one forward pass; longer ones gain nothing on a CPU, and shorter ones leave a GPU idle
_REQUESTS = {"cpu": 32, "cuda": 1024}
_UNIT = 1e-6  # tolerance for unit length
_TOKENISED = 512  # texts tokenised at once to measure their lengths: padded to the longest, 3 MB


class Embedder(Protocol):
    """Converts texts to vectors. Both methods return unit vectors, float32 (n, dimension), in the order of `texts`; n
    may be 0.
    """

    @property
    def info(self) -> EmbedderInfo: ...

    @property
    def score_thresholds(self) -> ScoreThresholds: ...

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
        from almanac.schemas.declaration.api import EMBEDDERS, provided

        made: Embedder = provided(EMBEDDERS, embed.provider).load()(embed, data)
        return made
    return LocalEmbedder(embed, for_queries=for_queries)


class LocalEmbedder:
    """A sentence-transformers model on this machine, on a GPU where available. Safe to share among threads.

    Documents are embedded in the declared precision, in float32 where this machine lacks bfloat16; queries in float32,
    so that they are alike everywhere, and together with those that other threads ask for meanwhile. On a processor the
    usual BERT is computed without torch (`Bert`), any other model by its library.
    """

    def __init__(self, embed: "Embed", *, for_queries: bool = False) -> None:
        self._embed = resolve(embed)
        self._info = describe_embedder(self._embed)
        self._is_half = self._embed.precision == "bfloat16" and has_bfloat16()
        # fast tokenizers keep padding as state: two threads at once raise "Already borrowed"
        self._lock = threading.Lock()
        self._for_queries = for_queries
        _spare_cores()
        if self._encoder is None:
            _ = self._documents

    @property
    def info(self) -> EmbedderInfo:
        return self._info

    @property
    def score_thresholds(self) -> ScoreThresholds:
        return score_thresholds(self._info)

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        with self._lock:
            encode = self._encoder
            model = self._documents if encode is None else None
        if encode is not None:
            return self._encode_alike(encode, self._info.document_prompt, texts)
        return self._encode(model, "encode_document", self._info.document_prompt, texts)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        with self._lock:
            together = self._together
        if together is not None:
            return self._encode_alike(together, self._info.query_prompt, texts)
        return self._encode(self._queries, "encode_query", self._info.query_prompt, texts)

    @cached_property
    def _bert(self) -> "Bert | None":
        """The model where it can be computed without torch; None for another architecture, or on a GPU."""
        from almanac.index.embedding.bert import Bert

        if has_gpu():
            return None
        if self._embed.model in BUNDLED:
            return Bert.read(find_model(self._embed, reading=[WEIGHTS, TOKENIZER]).path)
        bert = Bert.of(self._queries)
        if bert is None and self._is_half and not self._for_queries:
            del self._queries  # a run that asks nothing needs that of documents alone
        return bert

    @property
    def _encoder(self) -> "Encode | None":
        """Encodes documents: that of queries for what is compared with queries and not kept."""
        return self._asked if self._for_queries else self._written

    @cached_property
    def _written(self) -> "Encode | None":
        """Encodes documents."""
        from almanac.index.embedding.bert_layers import OpenVinoLayers

        return None if self._bert is None else self._bert.encoder(partial(OpenVinoLayers, is_half=self._is_half))

    @cached_property
    def _asked(self) -> "Encode | None":
        """Encodes queries, of which one is encoded sooner."""
        from almanac.index.embedding.bert_layers import OnnxLayers

        return None if self._bert is None else self._bert.encoder(OnnxLayers)

    @cached_property
    def _together(self) -> EmbedTogether | None:
        return EmbedTogether(self._asked) if self._asked is not None else None

    @cached_property
    def _documents(self) -> Any:
        return self._load(is_half=True) if self._is_half else self._queries

    @cached_property
    def _queries(self) -> Any:
        return self._load(is_half=False)

    def _load(self, *, is_half: bool) -> Any:
        model = _load_model(self._embed, is_half=is_half)
        found, name = model.get_embedding_dimension(), self._embed.model
        if found != self._info.dimension:
            raise DeclarationError(
                f"embed.model: '{name}' declares dimension {self._info.dimension} and produces {found}",
                where=name,
                hint="save the model again",
            )
        return model

    def _encode_alike(self, encode: Callable[[Sequence[str]], Vectors], prompt: str, texts: Sequence[str]) -> Vectors:
        if not texts:
            return np.empty((0, self._info.dimension), dtype=np.float32)
        return checked_vectors(encode([prompt + text for text in texts]), texts, self._info)

    def _encode(self, model: Any, method: str, prompt: str, texts: Sequence[str]) -> Vectors:
        if not texts:
            return np.empty((0, self._info.dimension), dtype=np.float32)
        with self._lock:
            size = _REQUESTS[model.device.type]
            encode, order = getattr(model, method), _longest_first(model, texts, size)
            ordered = [texts[row] for row in order]
            requests = (ordered[begin : begin + size] for begin in range(0, len(ordered), size))
            told = {"prompt": prompt, "batch_size": size, "normalize_embeddings": True, "show_progress_bar": False}
            vectors = np.concatenate([encode(request, **told) for request in requests])
        out = np.empty((len(texts), self._info.dimension), dtype=np.float32)
        out[order] = checked_vectors(vectors, ordered, self._info)
        return out


def _longest_first(model: Any, texts: Sequence[str], size: int) -> npt.NDArray[np.intp]:
    """Returns the order of texts, longest first in word pieces, that needs the least padding within requests of this
    size.

    `encode` itself sorts by characters, which leaves a quarter of the model's input as padding for mixed languages, and
    an eighth for English; sorted by word pieces it is a hundredth. Counting word pieces takes a hundredth of the time
    of embedding.
    """
    if len(texts) <= size:
        return np.arange(len(texts))
    slices = (list(texts[begin : begin + _TOKENISED]) for begin in range(0, len(texts), _TOKENISED))
    lengths = np.concatenate([_word_pieces(model.preprocess(part), part) for part in slices])
    return np.argsort(-lengths, kind="stable")


def _word_pieces(features: Any, texts: Sequence[str]) -> npt.NDArray[np.int64]:
    mask = features.get("attention_mask")
    if mask is None:  # a model of static word vectors, which needs no padding
        return np.asarray([len(text) for text in texts], dtype=np.int64)
    counts: npt.NDArray[np.int64] = mask.sum(dim=1).numpy()
    return counts


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


def _load_model(embed: "Embed", *, is_half: bool) -> Any:
    require_extra("models", f"embed.model: {embed.model}", embed.model, f"one of the bundled: {', '.join(BUNDLED)}")
    from almanac.core.settings import quiet_engines

    quiet_engines()
    import torch
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    folder = find_model(embed, reading=[WEIGHTS, TOKENIZER])
    try:
        model = SentenceTransformer(
            str(folder.path),
            device="cuda" if has_gpu() else "cpu",
            local_files_only=True,
            trust_remote_code=False,
            model_kwargs={"torch_dtype": torch.float32},
        )
    except Exception as error:  # transformers raises many unrelated types for a folder that it cannot read
        raise DeclarationError(
            f"embed.model: '{embed.model}' cannot be loaded: {error}",
            where=str(folder.path),
            hint="save the model again",
        ) from error
    if is_half:
        model[0].to(torch.bfloat16).register_forward_hook(_pool_in_single_precision)
    return model


def _pool_in_single_precision(_module: Any, _inputs: Any, features: Any) -> Any:
    """Casts the layers' outputs to float32, so that only the layers run in bfloat16.

    The cosine to vectors made in float32 throughout is .9999; with mean pooling in bfloat16 it is .996, and lengths are
    off.
    """
    import torch

    return {
        name: value.float() if isinstance(value, torch.Tensor) and value.dtype == torch.bfloat16 else value
        for name, value in features.items()
    }
