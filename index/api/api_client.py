"""Requests to an API of models: classification of failures, retries, and errors that never reveal the key.

The client libraries of providers (`sdks`) send and parse; retries are done here and not by them, which would honour a
Retry-After of any length. They also follow no redirects, which would take the key and the texts to another host.
"""

import itertools
import json
import math
import os
import re
import time
import weakref
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from pydantic_core import from_json

from almanac.core.extras import Extra, require_extra
from almanac.core.logs import get_logger
from almanac.core.retry_after import read_retry_after
from almanac.core.settings import DataDir
from almanac.index.api.rate_limit import RateLimit
from almanac.index.api.retry import Retry
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

_KEY = re.compile(r"[\x21-\x7e]+")  # characters allowed in an HTTP header value
_SHOWN = 300  # characters of a server's message shown in an error
_LARGEST_ANSWER = 256 << 20  # bytes; 128 vectors of 4,096 numbers are 12 MB
_WORTH_ANOTHER_TRY = frozenset({408, 409, 425, 429})
_ABOUT_THE_CONTENT = frozenset({400, 413, 422, 500})
_log = get_logger("almanac.api")
T = TypeVar("T")


class Refusal(NamedTuple):
    """A response with which a server refuses a request, or one that its client library cannot read."""

    status: int
    body: str
    headers: "httpx2.Headers"


class Sdk(Protocol):
    """The client library of a provider.

    `extra` is the extra that it comes with, `address` the key that declares the server, `protocol` whose API it speaks.
    """

    extra: Extra
    address: str
    protocol: str
    path_hint: str  # what is said of an address that the server does not know

    def client(self, server: str, key: Callable[[], str], http: "httpx2.Client", timeout_s: float) -> Any:
        """A client that sends what `key` returns with each request, and tries nothing twice."""

    def refusal(self, error: Exception) -> Refusal | None:
        """What a server answered, if `error` is the library's own about that."""

    def cause(self, error: Exception) -> Exception:
        """The error of the transport or of a parser below one of the library's own; `error` itself if there is none."""


@dataclass(frozen=True)
class ApiKey:
    """A key of one server, in a variable of the environment. It is read for every request and never stored, so that no
    object, log or traceback can reveal it.

    `variable` None: the server wants no key, and is sent none.
    """

    variable: str | None

    def value(self) -> str:
        """The key; an empty text where there is none."""
        return os.environ.get(self.variable, "").strip() if self.variable else ""

    def require(self) -> None:
        """Raises CredentialRefused where the key is missing, or cannot be sent in a header."""
        if self.variable is None:
            return
        key = self.value()
        if not key:
            raise CredentialRefused(
                "there is no key",
                where=self.variable,
                hint=f"export {self.variable}=…; any text works for a server without authentication",
            )
        if not _KEY.fullmatch(key):
            raise CredentialRefused(
                "is not a valid key: it contains a space, a line break or a letter beyond ASCII (its value is not "
                "shown)",
                where=self.variable,
            )

    def masked(self, text: str) -> str:
        """`text` with the key in it masked."""
        key = self.value()
        return text.replace(key, "***").replace(json.dumps(key)[1:-1], "***") if key else text


class AnswerMalformed(Exception):
    """A response that does not match the request. `rows` are the inputs whose results are unusable; empty where the
    response as a whole is.
    """

    def __init__(self, finding: str, rows: Collection[int] = ()) -> None:
        super().__init__(finding)
        self.finding = finding
        self.rows = frozenset(rows)


class Unanswered(Exception):
    """No usable response after all attempts, possibly because of the content sent. `error` is the one to raise once the
    content is ruled out; `rows` are as in `AnswerMalformed`.
    """

    def __init__(self, error: AlmanacError, rows: Collection[int] = ()) -> None:
        super().__init__(error.message)
        self.error = error
        self.rows = frozenset(rows)


@dataclass(frozen=True, slots=True)
class _Failure:
    """A failed attempt: what to raise when none are left, and how many in all this kind of failure is worth; 1: no
    other. `rows` are the inputs whose results are unusable.
    """

    error: AlmanacError
    attempts: int = 1
    retry_after: str | None = None  # the header's value
    may_be_content: bool = False  # whether the content sent may have caused it
    rows: Collection[int] = ()


class Api:
    """Access to one server with one key and one rate limit. Safe to share among threads.

    Args:
        sdk: The client library that speaks with it.
        server: The server's address.
        key: Its key.
        limit: Rate limit that every attempt waits for.
        timeout_s: Seconds to wait for a response, and at most for reading its body.
        retry: Number of attempts and delays between them.
        section: Section of the declaration that it serves, `embed` or `generate`, for hints.

    Raises CredentialRefused where the key is missing or cannot be sent in a header.
    """

    # frozen
    def __init__(
        self,
        sdk: Sdk,
        server: str,
        key: ApiKey,
        limit: RateLimit,
        *,
        timeout_s: float = 60.0,
        retry: Retry = Retry(),  # noqa: B008
        section: str = "embed",
    ) -> None:
        self._sdk, self.server, self._key = sdk, server, key
        self._section = section
        self._again = "run again" if section == "embed" else "ask again"
        self._kept = "; what was embedded is kept" if section == "embed" else ""
        require_extra(sdk.extra, f"provider: {sdk.extra}")
        key.require()
        self._limit = limit
        self._retry = retry
        http = _make_transport(timeout_s)
        self._client = sdk.client(server, key.value, http, timeout_s)
        weakref.finalize(self, http.close)

    def call(self, send: Callable[[Any], T], *, tokens: int = 0, attempts: int | None = None) -> T:
        """Calls `send` with the library's client and returns its result; failed attempts are repeated where that helps.

        Args:
            send: Makes one request and converts the response; raises AnswerMalformed for a response that it cannot use.
            tokens: Estimated tokens of the request, for the rate limit.
            attempts: Maximum number of attempts; None leaves it to the kind of failure.

        Raises Unanswered where the content may be at fault (400, 413, 422, 500, malformed responses), and otherwise an
        AlmanacError: CredentialRefused (401, 403), DeclarationError (404, 405, redirects), Retriable (408, 409, 425,
        429, other 5xx), Unreachable, OperationalError.
        """
        for attempt in itertools.count():
            self._key.require()
            self._limit.wait(tokens)
            try:
                return send(self._client)
            except Exception as error:
                failure = self._judge(error)
            if attempt + 1 >= min(failure.attempts, attempts or failure.attempts):
                if failure.may_be_content:
                    raise Unanswered(failure.error, failure.rows)
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
        """Classifies an exception of the library or of `send`. An unknown exception is a defect and is raised
        unchanged.
        """
        import httpx2

        if isinstance(error, AlmanacError):
            return _Failure(error)
        if isinstance(error, AnswerMalformed):
            return self._malformed(self._key.masked(error.finding), error.rows)
        if (refused := self._sdk.refusal(error)) is not None:
            if 200 <= refused.status < 300:
                kind = refused.headers.get("content-type", "no type")
                return self._malformed(
                    f"its answer is not what the API says ({self._message_in(kind)}): {self._message_in(refused.body)}"
                )
            return self._refused(refused)
        cause = self._sdk.cause(error)
        if isinstance(cause, httpx2.DecodingError | UnicodeDecodeError | json.JSONDecodeError):
            return self._malformed(f"its answer cannot be decoded: {self._key.masked(str(cause))}")
        if isinstance(cause, httpx2.HTTPError | httpx2.StreamError):
            what = self._key.masked(str(cause)) or "no answer"
            hint = f"check the network and {self._section}.{self._sdk.address}; then {self._again}"
            return _Failure(
                Unreachable(f"{type(cause).__name__}: {what}", where=self.server, hint=hint),
                attempts=self._retry.attempts,
            )
        raise error

    def _malformed(self, finding: str, rows: Collection[int] = ()) -> _Failure:
        hint = f"is it a server with {self._sdk.protocol}'s API? {self._again}{self._kept}"
        error = OperationalError(finding, where=self.server, hint=hint)
        return _Failure(error, attempts=self._retry.malformed_attempts, may_be_content=True, rows=rows)

    def _refused(self, refused: Refusal) -> _Failure:
        status, headers, address = refused.status, refused.headers, self._sdk.address
        finding = f"the server answers {status}: {self._message_in(refused.body)}"
        may_be_content = status in _ABOUT_THE_CONTENT

        def failure(kind: type[AlmanacError], hint: str, **more: Any) -> _Failure:
            return _Failure(kind(finding, where=self.server, hint=hint), **more)

        if status in (401, 403):
            if self._key.variable is None:
                hint = f"declare {self._section}.key: ${{NAME}}, and export the key of this server as NAME"
            else:
                hint = f"{self._key.variable} holds the key; is it one of this server, and allowed the model?"
            return failure(CredentialRefused, hint)
        if 300 <= status < 400:
            finding = f"the server redirects to {self._key.masked(headers.get('location', 'nowhere'))}"
            return failure(DeclarationError, f"declare the final address as {address}")
        if status in (404, 405):
            return failure(DeclarationError, f"check {address} ({self._sdk.path_hint}) and model")
        again: dict[str, Any] = {"attempts": self._retry.attempts, "retry_after": headers.get("retry-after")}
        if status == 429:
            wait_s = read_retry_after(headers.get("retry-after"))
            wait = "later"
            if wait_s is not None and math.isfinite(wait_s):
                wait = f"in {math.ceil(wait_s):,} s, as it says"
            hint = f"{self._again} {wait}{self._kept}. {self._section}.requests_per_second keeps below a limit"
            limited = RateLimited(f"its rate limit is reached: {finding}", where=self.server, hint=hint)
            limited.retry_after_s = wait_s
            return _Failure(limited, **again)
        if status in _WORTH_ANOTHER_TRY or status >= 500:
            return failure(Retriable, f"{self._again} later{self._kept}", may_be_content=may_be_content, **again)
        hint = f"check model and {address}; the server says why"
        if may_be_content and self._section == "generate":
            hint += "; generate.passage_tokens makes prompts shorter"
        return failure(OperationalError, hint, may_be_content=may_be_content)

    def _message_in(self, body: str) -> str:
        """Extracts the message from an error body: one line of printable characters, at most 300, with the key
        masked.
        """
        try:
            message: Any = from_json(body)  # ValueError for JSON that is nested too deeply
        except ValueError:
            message = body
        while isinstance(message, dict):
            inner = next((message[key] for key in ("message", "error", "detail") if message.get(key)), None)
            if inner is None:
                break
            message = inner
        text = self._key.masked(message if isinstance(message, str) else json.dumps(message, ensure_ascii=False))
        # no terminal control sequences
        text = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
        return text[:_SHOWN] + ("…" if len(text) > _SHOWN else "") or "nothing"


def shared_limit(
    data: DataDir | None,
    server: str,
    model: str,
    requests_per_second: float | None,
    tokens_per_minute: float | None,
) -> RateLimit:
    """Returns the rate limit of one model on one server, shared by all processes that use the data directory.

    Args:
        data: Data directory that holds the limit's file; None for the one that the environment or the project
            determines.
        server: The server's address.
        model: Name of the model: each has a limit of its own.
        requests_per_second: Maximum rate of requests; None for no limit.
        tokens_per_minute: Maximum rate of tokens; None for no limit.
    """
    name = sha256(f"{server} {model}")[:16]
    return RateLimit((data or DataDir.locate()).limits / name, requests_per_second, tokens_per_minute)


def _make_transport(timeout_s: float) -> "httpx2.Client":
    import httpx2

    def bound(response: "httpx2.Response") -> None:
        response.stream = _bounded(response, time.monotonic() + timeout_s)

    return httpx2.Client(verify=httpx2.create_ssl_context(), follow_redirects=False, event_hooks={"response": [bound]})


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
