"""Access control of requests: API keys or, without keys, checks of the Host and Origin headers; and a rate limit for
each key.
"""

from pathlib import Path

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from almanac.serve.api_keys import LOCAL, ApiKeys, Caller, names_loopback
from almanac.serve.problem_details import ProblemDetails
from almanac.serve.rates import Rates
from almanac.serve.server_settings import Settings

PUSHED = "/api/documents"
_RATE = 600  # default rate limit of a key, requests per minute
_ONCE = ("host", "origin", "authorization", "content-type")
_OPEN = ("/", "/health")  # need no key, as the page's files below /static/: they reveal nothing of any knowledge base


class Guard:
    """Middleware that puts the Caller into the request's state, or responds with 400, 401, 403, 421 or 429.

    Without keys and without a configured rate, requests are not limited. `shared` is the folder that the processes of a
    server share, None for a single one.
    """

    def __init__(
        self, app: ASGIApp, settings: Settings, keys: ApiKeys, push_keys: ApiKeys, shared: Path | None = None
    ) -> None:
        self._app, self._keys, self._push_keys, self._bound = app, keys, push_keys, settings.host
        self._rate = settings.rate_per_minute or (_RATE if keys or push_keys else None)
        names = [*(keys.names or [LOCAL.name]), *push_keys.names]
        self._rates = None if self._rate is None else Rates(self._rate, names, shared)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                self._let_in(scope)
            except ProblemDetails as problem:
                await problem.response(scope)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _let_in(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        _require_one_meaning(headers)
        if not self._keys:
            _require_own(headers, self._bound, is_page=scope["path"] == "/")
        if scope["path"] in _OPEN or scope["path"].startswith("/static/"):
            return
        if scope["path"] == PUSHED:
            caller = self._push_keys.caller(headers.get("authorization"))
        else:
            caller = self._keys.caller(headers.get("authorization")) if self._keys else LOCAL
        if caller is None and scope["path"] == PUSHED and not self._push_keys:
            raise ProblemDetails(
                403, "nobody may push documents to this server", hint="ALMANAC_PUSH_KEYS has the keys of those who may"
            )
        if caller is None:
            raise ProblemDetails(
                401,
                "this needs an API key",
                headers={"WWW-Authenticate": "Bearer"},
                hint="send it as Authorization: Bearer KEY",
            )
        self._count(caller)
        scope.setdefault("state", {})["caller"] = caller

    def _count(self, caller: Caller) -> None:
        """Counts a request against the caller's rate. Raises ProblemDetails 429 beyond it."""
        if self._rates is not None and (wait_s := self._rates.take(caller.name)):
            raise ProblemDetails(
                429, f"more than {self._rate} requests a minute", headers={"Retry-After": str(wait_s)}, limit=self._rate
            )


def _require_one_meaning(headers: Headers) -> None:
    """Raises ProblemDetails 400, and has the connection closed, where a proxy may have read another request."""
    finding = next((f"the header {name} is there twice" for name in _ONCE if len(headers.getlist(name)) > 1), None)
    if "content-length" in headers and "transfer-encoding" in headers:
        finding = "the body has a length, and is sent in chunks"
    if finding:
        raise ProblemDetails(400, finding, headers={"Connection": "close"})


def _require_own(headers: Headers, bound: str, *, is_page: bool) -> None:
    """Raises ProblemDetails 421 for a Host header of another machine, and 403 for what the page of another website asks
    for, but a link to the chat page.

    Without keys, every program on this machine may ask, and a browser is one that sends requests on behalf of any
    website. It names the Origin of some requests only, and of all in Sec-Fetch-Site whether a page elsewhere asks.
    """
    if not names_loopback(headers.get("host"), bound):
        raise ProblemDetails(
            421, "the Host header names another machine", hint="without API keys ask at localhost or 127.0.0.1"
        )
    origin = headers.get("origin")
    is_elsewhere = origin is not None and origin.lower().partition("://")[2] != headers.get("host", "").lower()
    # same-site: another port of this machine
    if headers.get("sec-fetch-site", "none").lower() not in ("none", "same-origin"):
        is_elsewhere = is_elsewhere or not (is_page and headers.get("sec-fetch-dest") == "document")
    if is_elsewhere:
        raise ProblemDetails(
            403, "a page of another website asked for this", hint="pages elsewhere ask through a server of their own"
        )
