"""Requests to Mistral's API or a compatible server: classification of failures, retries, and errors that never reveal
the key.

Retries are done here and not by Mistral's SDK, which would honour a Retry-After of any length. The SDK is also
prevented from following redirects, which would send the key and the texts to another host, from logging headers
(MISTRAL_DEBUG) and from sending telemetry (MISTRAL_SDK_TELEMETRY).
"""

import itertools
import json
import math
import os
import re
import time
import weakref
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic_core import from_json

from almanac.core.extras import require_extra
from almanac.core.logs import get_logger
from almanac.core.retry_after import read_retry_after
from almanac.core.settings import DataDir, mistral_api_key
from almanac.index.mistral.rate_limit import RateLimit
from almanac.index.mistral.retry import Retry
from almanac.schemas.errors import (
    AlmanacError,
    CredentialRefused,
    DeclarationError,
    OperationalError,
    RateLimited,
    Retriable,
    Unreachable,
)
from almanac.schemas.hashing import sha256

if TYPE_CHECKING:
    import httpx2
    from mistralai.client import Mistral

MISTRAL_URL = "https://api.mistral.ai"
_KEY = re.compile(r"[\x21-\x7e]+")  # characters allowed in an HTTP header value
_SAID = 300  # characters of a server's message shown in an error
_LARGEST_ANSWER = 256 << 20  # bytes; 128 vectors of 4,096 numbers are 12 MB
_WORTH_ANOTHER_TRY = frozenset({408, 409, 425, 429})
_ABOUT_THE_CONTENT = frozenset({400, 413, 422, 500})
_log = get_logger("almanac.mistral")
T = TypeVar("T")


class AnswerMalformed(Exception):
    """A response that does not match the request. `rows` are the inputs whose results are unusable; empty where the
    response as a whole is.
    """

    def __init__(self, finding: str, rows: Collection[int] = ()) -> None:
        super().__init__(finding)
        self.finding = finding
        self.rows = frozenset(rows)


class Unanswered(Exception):
    """No usable response after all attempts, possibly because of the content sent.

    `error` is the error to raise once the content is ruled out; `finding` describes the failure; `rows` are as in
    `AnswerMalformed`.
    """

    def __init__(self, error: AlmanacError, finding: str, rows: Collection[int] = ()) -> None:
        super().__init__(finding)
        self.error = error
        self.finding = finding
        self.rows = frozenset(rows)


class _Failure:
    """Classification of a failed attempt.

    Args:
        error: What to raise when no attempts are left.
        attempts: Total number of attempts that this kind of failure justifies; 1 means no retry.
        retry_after: Value of the Retry-After header.
        may_be_content: Whether the content sent may have caused the failure.
        rows: Inputs whose results are unusable.
    """

    def __init__(
        self,
        error: AlmanacError,
        *,
        attempts: int = 1,
        retry_after: str | None = None,
        may_be_content: bool = False,
        rows: Collection[int] = (),
    ):
        self.error = error
        self.attempts = attempts
        self.retry_after = retry_after
        self.may_be_content = may_be_content
        self.rows = rows


class MistralApi:
    """Access to one server with one key and one rate limit. Safe to share among threads.

    Args:
        server_url: The server's base URL, without `/v1`; None for Mistral's own.
        limit: Rate limit that every attempt waits for.
        timeout_s: Seconds to wait for a response, and at most for reading its body.
        retry: Number of attempts and delays between them.
        section: Section of the declaration that it serves, `embed` or `generate`, for hints.

    Raises CredentialRefused when MISTRAL_API_KEY is missing or cannot be sent in a header.
    """

    # frozen
    def __init__(
        self,
        server_url: str | None,
        limit: RateLimit,
        *,
        timeout_s: float = 60.0,
        retry: Retry = Retry(),  # noqa: B008
        section: str = "embed",
    ) -> None:
        self._section = section
        self._again = "run again" if section == "embed" else "ask again"
        self._kept = "; what was embedded is kept" if section == "embed" else ""
        require_extra("mistral", "provider: mistral")
        self.server = server_url or MISTRAL_URL
        self._require_key()
        self._limit = limit
        self._retry = retry
        http, self._client = _make_client(self.server, timeout_s)
        weakref.finalize(self, http.close)

    def call(self, send: Callable[["Mistral"], T], *, tokens: int = 0, attempts: int | None = None) -> T:
        """Calls `send` with the SDK's client and returns its result; failed attempts are repeated where that can help.

        Args:
            send: Makes one request and converts the response; raises AnswerMalformed for a response that it cannot use.
            tokens: Estimated tokens of the request, for the rate limit.
            attempts: Maximum number of attempts; None leaves it to the kind of failure.

        Raises Unanswered where the content may be at fault (400, 413, 422, 500, malformed responses), and otherwise an
        AlmanacError: CredentialRefused (401, 403), DeclarationError (404, 405, redirects), Retriable (408, 409, 425,
        429, other 5xx), Unreachable, OperationalError.
        """
        for attempt in itertools.count():
            self._require_key()
            self._limit.wait(tokens)
            try:
                return send(self._client)
            except Exception as error:
                failure = self._judge(error)
            if attempt + 1 >= min(failure.attempts, attempts or failure.attempts):
                if failure.may_be_content:
                    raise Unanswered(failure.error, failure.error.message, failure.rows)
                raise failure.error
            delay_s = self._retry.delay_s(attempt, failure.retry_after)
            _log.info(
                "request_tried_again",
                server=self.server,
                attempt=attempt + 1,
                in_s=round(delay_s, 2),
                finding=failure.error.message,
            )
            time.sleep(delay_s)
        raise AssertionError("unreachable")

    def _judge(self, error: Exception) -> _Failure:
        """Classifies an exception of the SDK or of `send`. An unknown exception is a defect and is raised unchanged."""
        import httpx2
        from mistralai.client import errors

        if isinstance(error, AlmanacError):
            return _Failure(error)
        if isinstance(error, AnswerMalformed):
            return self._malformed(error.finding, error.rows)
        if isinstance(error, errors.MistralError):
            if 200 <= error.status_code < 300:
                kind = error.headers.get("content-type", "no type")
                return self._malformed(
                    f"its answer is not what the API says ({self._said(kind)}): {self._said(error.body)}"
                )
            return self._refused(error.status_code, self._said(error.body), error.headers)
        if isinstance(error, httpx2.DecodingError | UnicodeDecodeError):
            return self._malformed(f"its answer cannot be decoded: {self._masked(str(error))}")
        if isinstance(error, httpx2.HTTPError | httpx2.StreamError | errors.NoResponseError):
            what = self._masked(str(error)) or "no answer"
            hint = f"check the network and {self._section}.server_url; then {self._again}"
            return _Failure(
                Unreachable(f"{type(error).__name__}: {what}", where=self.server, hint=hint),
                attempts=self._retry.attempts,
            )
        raise error

    def _malformed(self, finding: str, rows: Collection[int] = ()) -> _Failure:
        hint = f"is it a server with Mistral's API? {self._again}{self._kept}"
        error = OperationalError(finding, where=self.server, hint=hint)
        return _Failure(error, attempts=self._retry.malformed_attempts, may_be_content=True, rows=rows)

    def _refused(self, status: int, said: str, headers: "httpx2.Headers") -> _Failure:
        finding = f"the server answers {status}: {said}"
        may_be_content = status in _ABOUT_THE_CONTENT
        if status in (401, 403):
            return _Failure(
                CredentialRefused(
                    finding,
                    where=self.server,
                    hint="MISTRAL_API_KEY holds the key; is it one of this server, and allowed the model?",
                )
            )
        if 300 <= status < 400:
            to = self._masked(headers.get("location", "nowhere"))
            return _Failure(
                DeclarationError(
                    f"the server redirects to {to}", where=self.server, hint="declare the final address as server_url"
                )
            )
        if status in (404, 405):
            return _Failure(
                DeclarationError(finding, where=self.server, hint="check server_url (without /v1) and model")
            )
        if status == 429:
            told = read_retry_after(headers.get("retry-after"))
            wait = f"in {math.ceil(told):,} s, as it says" if told is not None and math.isfinite(told) else "later"
            hint = f"{self._again} {wait}{self._kept}. {self._section}.requests_per_second keeps below a limit"
            limited = RateLimited(f"its rate limit is reached: {finding}", where=self.server, hint=hint)
            limited.retry_after_s = told
            return _Failure(limited, attempts=self._retry.attempts, retry_after=headers.get("retry-after"))
        if status in _WORTH_ANOTHER_TRY or status >= 500:
            error = Retriable(finding, where=self.server, hint=f"{self._again} later{self._kept}")
            return _Failure(
                error,
                attempts=self._retry.attempts,
                retry_after=headers.get("retry-after"),
                may_be_content=may_be_content,
            )
        return _Failure(
            OperationalError(finding, where=self.server, hint="check model and server_url; the server says why"),
            may_be_content=may_be_content,
        )

    def _said(self, body: str) -> str:
        """Extracts the message from an error body: one line of printable characters, at most 300, with the key
        masked.
        """
        try:
            told: Any = from_json(body)  # ValueError for JSON that is nested too deeply
        except ValueError:
            told = body
        while isinstance(told, dict):
            inner = next((told[key] for key in ("message", "error", "detail") if told.get(key)), None)
            if inner is None:
                break
            told = inner
        text = self._masked(told if isinstance(told, str) else json.dumps(told, ensure_ascii=False))
        # no terminal control sequences
        text = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
        return text[:_SAID] + ("…" if len(text) > _SAID else "") or "nothing"

    @staticmethod
    def _masked(text: str) -> str:
        key = mistral_api_key()
        return text.replace(key, "***").replace(json.dumps(key)[1:-1], "***") if key else text

    @staticmethod
    def _require_key() -> None:
        key = mistral_api_key()
        if key is None:
            raise CredentialRefused(
                "there is no key",
                where="MISTRAL_API_KEY",
                hint="export MISTRAL_API_KEY=…; any text works for a server without authentication",
            )
        if not _KEY.fullmatch(key):
            raise CredentialRefused(
                "is not a valid key: it contains a space, a line break or a letter beyond ASCII (its value is not "
                "shown)",
                where="MISTRAL_API_KEY",
            )


def shared_limit(
    data: DataDir | None,
    server_url: str | None,
    model: str,
    requests_per_second: float | None,
    tokens_per_minute: float | None,
) -> RateLimit:
    """Returns the rate limit of one model on one server, shared by all processes that use the data directory.

    Args:
        data: Data directory that holds the limit's file; None for the one that the environment or the project
            determines.
        server_url: The server's base URL; None for Mistral's own.
        model: Name of the model: each has a limit of its own.
        requests_per_second: Maximum rate of requests; None for no limit.
        tokens_per_minute: Maximum rate of tokens; None for no limit.
    """
    name = sha256(f"{server_url or MISTRAL_URL} {model}")[:16]
    return RateLimit((data or DataDir.locate()).limits / name, requests_per_second, tokens_per_minute)


def _make_client(server: str, timeout_s: float) -> "tuple[httpx2.Client, Mistral]":
    import httpx2
    from mistralai.client import Mistral
    from mistralai.client.utils.logger import NoOpLogger

    def bound(response: "httpx2.Response") -> None:
        response.stream = _bounded(response, time.monotonic() + timeout_s)

    os.environ.pop("MISTRAL_SDK_TELEMETRY", None)  # asked for by the SDK with the first request
    trusted = httpx2.create_ssl_context()
    http = httpx2.Client(verify=trusted, follow_redirects=False, event_hooks={"response": [bound]})
    client = Mistral(
        api_key=_key,
        server_url=server,
        client=http,
        # never opened; the SDK's default one would start an event loop when it is disposed of
        async_client=httpx2.AsyncClient(verify=trusted),
        timeout_ms=round(1000 * timeout_s),
        debug_logger=NoOpLogger(),
    )
    return http, client


def _key() -> str:
    return mistral_api_key() or ""


def _bounded(response: "httpx2.Response", deadline: float) -> "httpx2.SyncByteStream":
    """Wraps a response body with a deadline (`time.monotonic` seconds) and a maximum size.

    httpx limits only the wait for each part, so a server that sends one byte a second would keep a request open for
    ever.
    """
    import httpx2

    assert isinstance(response.stream, httpx2.SyncByteStream)
    stream: httpx2.SyncByteStream = response.stream

    class Bounded(httpx2.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            size = 0
            for part in stream:
                size += len(part)
                if time.monotonic() > deadline:
                    raise httpx2.ReadTimeout("the answer takes too long")
                if size > _LARGEST_ANSWER:
                    raise httpx2.DecodingError("the answer is too large")
                yield part

        def close(self) -> None:
            stream.close()

    return Bounded()
