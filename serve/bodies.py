"""Middleware for request bodies: limits their size and duration, and validates that they are JSON, before the
application reads them.
"""

import asyncio
import json
import time
from typing import Any, NoReturn

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from almanac.serve.problems import ProblemDetails
from almanac.serve.settings import Settings

# seconds for which the rest of a body that is too long is read and dropped: a client reads the response only after
# sending it
_DRAIN_S = 2.0


class BodyLimits:
    """Middleware that passes on only requests with a complete body of limited size and unambiguous JSON: UTF-8, no
    repeated names, no NaN, no lone surrogates.

    Others are answered with 400 (not JSON), 408 (too slow), 413 (too long) or 415 (other type, or compressed). GET,
    HEAD and OPTIONS requests are passed on.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app, self._most, self._seconds = app, settings.max_request_bytes, settings.body_timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD", "OPTIONS"):
            await self._app(scope, receive, send)
            return
        try:
            body = await self._read(Headers(scope=scope), receive)
            if body is None:  # the client has disconnected
                return
            _require_json(Headers(scope=scope), body)
        except ProblemDetails as problem:
            await problem.response(scope)(scope, receive, send)
            return
        await self._app(scope, _replayed(body, receive), send)

    async def _read(self, headers: Headers, receive: Receive) -> bytes | None:
        declared = headers.get("content-length", "")
        is_too_long = declared.isdecimal() and (len(declared) > 18 or int(declared) > self._most)
        body, complete = bytearray(), False
        try:
            async with asyncio.timeout(self._seconds):
                while not complete and not is_too_long:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    body += message.get("body", b"")
                    complete = not message.get("more_body", False)
                    if len(body) > self._most:
                        break
        except TimeoutError:
            raise ProblemDetails(
                408, f"the body did not arrive within {self._seconds:g} s", headers={"Connection": "close"}
            ) from None
        if complete and len(body) <= self._most:
            return bytes(body)
        # a client that sent Expect waits for the status and sends no body
        await _drain(receive, complete=complete or "expect" in headers)
        raise ProblemDetails(
            413, f"a body of more than {self._most:,} bytes", headers={"Connection": "close"}, limit=self._most
        )


async def _drain(receive: Receive, *, complete: bool) -> None:
    end = time.monotonic() + _DRAIN_S
    while not complete and time.monotonic() < end:
        try:
            message = await asyncio.wait_for(receive(), end - time.monotonic())
        except TimeoutError:
            return
        complete = message["type"] == "http.disconnect" or not message.get("more_body", False)


def _replayed(body: bytes, receive: Receive) -> Receive:
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return pending.pop() if pending else await receive()

    return replay


def _require_json(headers: Headers, body: bytes) -> None:
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if body and kind != "application/json":
        raise ProblemDetails(
            415,
            f"a body of type {kind[:80] or 'none'}; application/json is understood",
            headers={"Accept": "application/json"},
        )
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise ProblemDetails(415, "a body that is compressed", headers={"Accept-Encoding": "identity"})
    if not body:
        return
    try:
        value = json.loads(body.decode("utf-8"), parse_constant=_refuse, object_pairs_hook=_once)
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8")
    except RecursionError:
        raise ProblemDetails(400, "the body is nested too deeply", kind="invalid-json") from None
    except UnicodeEncodeError:
        raise ProblemDetails(
            400, "the body has half of a surrogate pair, which is no character", kind="invalid-json"
        ) from None
    except UnicodeDecodeError as error:
        raise ProblemDetails(
            400, f"the body is not UTF-8: byte {error.start} begins no character", kind="invalid-json"
        ) from None
    except ValueError as error:
        raise ProblemDetails(400, f"the body is not JSON: {error}", kind="invalid-json") from None


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the name {next(name for name in names if names.count(name) > 1)!r} is there twice")
    return found
