"""Embedding by an API. Every vector is validated, and a refused text does not block the others."""

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from almanac.core.settings import DataDir
from almanac.index.api.api_client import AnswerMalformed, Api, ApiKey, Unanswered, shared_limit
from almanac.index.api.batching import MAX_TOKENS, estimate_tokens, pack_requests
from almanac.index.api.retry import Retry
from almanac.index.api.sdks import SDKS
from almanac.schemas.declaration.embed_section import Embed
from almanac.schemas.errors import DeclarationError, OperationalError
from almanac.schemas.hashing import canonical_json, sha256
from almanac.schemas.manifest import EmbedderInfo

_PROBE = "A text that every embedder takes."
_PLAUSIBLE = (1e-6, 1e6)  # accepted range of a vector's length; Mistral's are 1
_ATTEMPTS_TO_DIVIDE = 2  # for a part of a failed request: it may have to be divided further
_ATTEMPTS_FOR_A_QUESTION = 3  # fewer than for documents: a user is waiting
_Row = tuple[int | None, list[float] | None]
_Vectors = npt.NDArray[np.float32]  # (n, dimension)


class ApiEmbedder:
    """Embedder behind an API; texts are packed into requests. Safe to share among threads.

    `tokens` counts the tokens billed so far, estimated where the server does not report them. Raises CredentialRefused
    where the key is missing, and in its methods the errors of `Api.call`.
    """

    # frozen
    def __init__(self, embed: Embed, data: DataDir | None = None, *, retry: Retry = Retry()) -> None:  # noqa: B008
        self._info = self.describe(embed)
        limit = shared_limit(data, embed.server, embed.model, embed.requests_per_second, embed.tokens_per_minute)
        sdk, key = SDKS[embed.provider], ApiKey(embed.key_variable)
        self._api = Api(sdk, embed.server, key, limit, timeout_s=embed.timeout_s, retry=retry)
        self._ask = _ASK[embed.provider]
        self._dimensions = embed.dimensions
        self._max_tokens = int(min(MAX_TOKENS, embed.tokens_per_minute or MAX_TOKENS))
        self._lock = threading.Lock()
        self.tokens = 0

    @staticmethod
    def describe(embed: Embed) -> EmbedderInfo:
        """Returns the identity of an embedder behind an API, without a request.

        The server is part of the fingerprint, since two servers may use one name for different weights; `same_as`
        declares that they are the same.
        """
        server = (embed.same_as or embed.server).removesuffix("/v1")
        assert embed.dimension is not None
        query, document = embed.prompts.query or "", embed.prompts.document or ""
        made_by = {
            "provider": embed.provider,
            "model": embed.model,
            "server": server,
            "dimension": embed.dimension,
            "normalise": True,
            **({"dimensions": embed.dimensions} if embed.dimensions else {}),
        }
        fingerprint = sha256(canonical_json({**made_by, "document_prompt": document} if document else made_by))[:16]
        return EmbedderInfo(
            provider=embed.provider, model=embed.model, revision=server, dimension=embed.dimension,
            fingerprint=fingerprint, query_prompt=query, document_prompt=document,
        )  # fmt: skip

    @property
    def info(self) -> EmbedderInfo:
        return self._info

    def embed_documents(self, texts: Sequence[str]) -> _Vectors:
        return self._embed_all(texts, self._info.document_prompt)

    def embed_queries(self, texts: Sequence[str]) -> _Vectors:
        """Embeds queries like documents, except for a declared prompt and fewer attempts: models behind an API
        do not distinguish the two.
        """
        return self._embed_all(texts, self._info.query_prompt, attempts=_ATTEMPTS_FOR_A_QUESTION)

    def _embed_all(self, texts: Sequence[str], prompt: str, *, attempts: int | None = None) -> _Vectors:
        vectors, refused = self._embed_each(texts, prompt, attempts=attempts)
        for row, reason in refused.items():
            raise OperationalError(
                f"the text with sha256 {sha256(texts[row])} is refused: {reason}",
                where=self._api.server,
                hint="shorten or change the text",
            )
        return vectors

    def embed_each(self, texts: Sequence[str]) -> tuple[_Vectors, dict[int, str]]:
        """Returns the vectors of the accepted texts, float32 (n, dimension), in order, and row → reason for the refused
        ones.

        A text counts as refused when it fails in a request of its own while a known good text passes; where that fails
        as well, the error is raised.
        """
        return self._embed_each(texts, self._info.document_prompt)

    def _embed_each(
        self, texts: Sequence[str], prompt: str, *, attempts: int | None = None
    ) -> tuple[_Vectors, dict[int, str]]:
        sent = [(prompt + text).encode("utf-8", "replace").decode() for text in texts]
        counts = [estimate_tokens(text) for text in sent]
        vectors = np.zeros((len(texts), self._info.dimension), dtype=np.float32)
        refused: dict[int, str] = {}
        for rows in pack_requests(counts, max_tokens=self._max_tokens):
            try:
                vectors[rows] = self._request([sent[row] for row in rows], attempts=attempts)
            except Unanswered as failure:
                self._require_that_others_pass(failure)
                self._divide(sent, rows, failure, vectors, refused)
        return vectors[[row for row in range(len(texts)) if row not in refused]], refused

    def _divide(
        self, texts: Sequence[str], rows: list[int], failure: Unanswered, vectors: _Vectors, refused: dict[int, str]
    ) -> None:
        """Repeats a failed request in parts, down to single texts, and fills `vectors` and `refused`.

        Where the response showed which rows failed, the remaining rows are sent together and each failed row alone;
        otherwise the request is halved.
        """
        if len(rows) == 1:
            refused[rows[0]] = failure.error.message
            return
        if 0 < len(failure.rows) < len(rows):
            parts = [
                [row for place, row in enumerate(rows) if place not in failure.rows],
                *([rows[place]] for place in sorted(failure.rows)),
            ]
        else:
            parts = [rows[: len(rows) // 2], rows[len(rows) // 2 :]]
        for part in parts:
            try:
                vectors[part] = self._request(
                    [texts[row] for row in part], attempts=None if len(part) == 1 else _ATTEMPTS_TO_DIVIDE
                )
            except Unanswered as inner:
                if len(part) == 1:  # checked again: by now the server itself may have gone down
                    self._require_that_others_pass(inner)
                self._divide(texts, part, inner, vectors, refused)

    def _require_that_others_pass(self, failure: Unanswered) -> None:
        """Embeds a known good text, and raises the original error if that fails too: the cause is then not the content,
        but for example an unknown model.
        """
        try:
            self._request([_PROBE])
        except Unanswered:
            raise failure.error from None

    def _request(self, texts: Sequence[str], *, attempts: int | None = None) -> _Vectors:
        counts = sum(map(estimate_tokens, texts))

        def send(client: Any) -> _Vectors:
            rows, billed = self._ask(client, self._info.model, texts, self._dimensions)
            with self._lock:
                self.tokens += counts if billed is None else billed
            return self._checked(rows, texts)

        return self._api.call(send, tokens=counts, attempts=attempts)

    def _checked(self, rows: list[_Row], texts: Sequence[str]) -> _Vectors:
        """Returns the vectors in the order of `texts`, float32 of unit length.

        Raises AnswerMalformed with the rows whose vectors are unusable, and DeclarationError where all vectors have a
        dimension other than the declared one.
        """
        vectors = _in_order(rows, len(texts))
        lengths = {len(vector) for vector in vectors if vector}
        if len(lengths) == 1 and lengths != {self._info.dimension}:
            raise DeclarationError(
                f"embed.dimension: {self._info.model} makes vectors of dimension {lengths.pop()}, not "
                f"{self._info.dimension}",
                where=self._api.server,
                hint="write embed.dimension, or check embed.model",
            )
        array = np.zeros((len(texts), self._info.dimension))
        unusable = [row for row, vector in enumerate(vectors) if vector is None or len(vector) != self._info.dimension]
        for row, vector in enumerate(vectors):
            if row not in unusable:
                array[row] = vector
        with np.errstate(over="ignore", invalid="ignore"):
            norms = np.linalg.norm(array, axis=1)
        off = ~(np.isfinite(norms) & (norms > _PLAUSIBLE[0]) & (norms < _PLAUSIBLE[1]))
        if off.any():
            bad = np.flatnonzero(off).tolist()
            what = "is missing or has another dimension" if bad[0] in unusable else "is zero, not finite or implausible"
            raise AnswerMalformed(f"{len(bad)} of {len(texts)} vectors are of no use: the first of them {what}", bad)
        return np.asarray(array / norms[:, None], dtype=np.float32)


def _in_order(rows: list[_Row], count: int) -> list[list[float] | None]:
    """Sorts vectors by their index; where a server omits the indexes, their order is taken to be that of the texts."""
    if len(rows) != count:
        raise AnswerMalformed(f"{count} texts were sent, and {len(rows)} vectors came back")
    numbers = [number for number, _ in rows]
    if all(number is None for number in numbers):
        return [vector for _, vector in rows]
    by_number = dict(rows)
    if set(by_number) != set(range(count)):
        raise AnswerMalformed(f"the vectors of {count} texts are numbered {str(numbers[:5])[1:-1]}…")
    return [by_number[number] for number in range(count)]


class _Lenient(BaseModel):
    """The required part of a response. Mistral's library also requires an `id`, which those of several compatible
    servers do not have.
    """

    model_config = ConfigDict(strict=True)

    class Data(BaseModel):
        model_config = ConfigDict(strict=True)
        embedding: list[float] | None = None
        index: int | None = None

    class Usage(BaseModel):
        prompt_tokens: int | None = None

    data: list[Data]
    usage: Usage | None = Field(None)


def _ask_mistral(client: Any, model: str, texts: Sequence[str], _: int | None) -> tuple[list[_Row], int | None]:
    """Sends one request; returns (index, vector) pairs in the order received, and the tokens billed, None where the
    server does not report them.
    """
    from mistralai.client.errors import ResponseValidationError

    try:
        answer = client.embeddings.create(model=model, inputs=list(texts))
    except ResponseValidationError as error:
        if error.status_code != 200:
            raise
        try:
            return _read(error.body)
        except ValidationError:
            raise error from None
    return [(embedding.index, embedding.embedding) for embedding in answer.data], _billed(answer.usage.prompt_tokens)


def _ask_openai(client: Any, model: str, texts: Sequence[str], dimensions: int | None) -> tuple[list[_Row], int | None]:
    """As `_ask_mistral`. `dimensions`: the length of vectors that is asked for; None: the model's own."""
    options = {} if dimensions is None else {"dimensions": dimensions}
    answer = client.embeddings.with_raw_response.create(
        model=model, input=list(texts), encoding_format="float", **options
    )
    try:
        return _read(answer.content)
    except ValidationError:
        kind = answer.headers.get("content-type", "no type")
        raise AnswerMalformed(f"its answer is not what the API says ({kind})") from None


_ASK = {"mistral": _ask_mistral, "openai": _ask_openai}


def _read(body: str | bytes) -> tuple[list[_Row], int | None]:
    answer = _Lenient.model_validate_json(body)
    billed = _billed(answer.usage.prompt_tokens if answer.usage else None)
    return [(embedding.index, embedding.embedding) for embedding in answer.data], billed


def _billed(tokens: int | None) -> int | None:
    """Returns the tokens billed; None where they are missing or implausible (zero or negative)."""
    return tokens if tokens is not None and tokens > 0 else None
