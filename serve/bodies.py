"""Middleware for request bodies: limits their size and time, and requires JSON of one meaning, before the application
reads them.
"""

import asyncio
import json
from typing import Any, NoReturn

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from almanac.serve.problem_details import ProblemDetails
from almanac.serve.server_settings import Settings


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
            body = await self._read(scope, receive)
            _require_json(Headers(scope=scope), body)
        except ProblemDetails as problem:
            await problem.response(scope)(scope, receive, send)
        except ClientDisconnect:
            pass
        else:
            await self._app(scope, _replayed(body, receive), send)

    async def _read(self, scope: Scope, receive: Receive) -> bytes:
        """What is too long is read to its end, and dropped: a client reads the response only after it has sent all."""
        body, closing = bytearray(), {"Connection": "close"}
        try:
            async with asyncio.timeout(self._seconds):
                async for piece in Request(scope, receive).stream():
                    body += piece if len(body) <= self._most else b""
        except TimeoutError:
            if len(body) <= self._most:
                raise ProblemDetails(
                    408, f"the body did not arrive within {self._seconds:g} s", headers=closing
                ) from None
        if len(body) > self._most:
            raise ProblemDetails(413, f"a body of more than {self._most:,} bytes", headers=closing, limit=self._most)
        return bytes(body)


def _replayed(body: bytes, receive: Receive) -> Receive:
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return pending.pop() if pending else await receive()

    return replay


def _require_json(headers: Headers, body: bytes) -> None:
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if body and kind != "application/json":
        finding = f"a body of type {kind[:80] or 'none'}; application/json is understood"
        raise ProblemDetails(415, finding, headers={"Accept": "application/json"})
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise ProblemDetails(415, "a body that is compressed", headers={"Accept-Encoding": "identity"})
    try:
        value = json.loads(body.decode("utf-8"), parse_constant=_refuse, object_pairs_hook=_once) if body else None
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8")
    except RecursionError:
        finding = "the body is nested too deeply"
    except UnicodeEncodeError:
        finding = "the body has half of a surrogate pair, which is no character"
    except UnicodeDecodeError as error:
        finding = f"the body is not UTF-8: byte {error.start} begins no character"
    except ValueError as error:
        finding = f"the body is not JSON: {error}"
    else:
        return
    raise ProblemDetails(400, finding, kind="invalid-json")


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the name {next(name for name in names if names.count(name) > 1)!r} is there twice")
    return members
