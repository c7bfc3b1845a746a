"""An API on loopback that takes POST: records in pages, by number, offset or cursor, to whoever has a token that lasts
for so many answers.
"""

import base64
import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any
from urllib.parse import parse_qs

CLIENT, SECRET, KEY = "reader one", "s3cr3t-2718&x", "key-3141"


@dataclass
class Posts:
    """What the API has, and what was asked of it.

    Attributes:
        lamps: the records.
        lasts: answers that a token opens; None where none is wanted.
        expires_in: what is told of a token; None for nothing.
        refuses: what is answered to whoever wants a token.
        error: what is told in place of records.
    """

    base: str = ""
    lamps: list[dict[str, Any]] = field(default_factory=list)
    size: int = 3
    lasts: int | None = None
    expires_in: float | None = None
    refuses: tuple[int, dict[str, str]] | None = None
    error: str = ""
    sent: list[tuple[str, dict[str, Any]]] = field(default_factory=list)  # path and body
    forms: list[tuple[dict[str, list[str]], str]] = field(default_factory=list)  # of token requests, with who asks
    tokens: list[str] = field(default_factory=list)
    left: int = 0


@contextmanager
def posts_api() -> Iterator[Posts]:
    """The API, which has ended at the end of the block."""
    api, turn = Posts(), Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002, ARG002  # the base class's signature
            return

        def do_GET(self) -> None:
            self._answer(404 if self.path == "/robots.txt" else 405, {"error": "by POST alone"})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            with turn:
                if self.path == "/token":
                    self._give_token(parse_qs(body.decode()))
                elif api.lasts is not None and not self._may_pass():
                    self._answer(401, {"error": "invalid_token"})
                else:
                    request = json.loads(body)
                    api.sent.append((self.path, request))
                    self._answer(200, self._records(request))

        def _records(self, request: dict[str, Any]) -> dict[str, Any]:
            if api.error:
                return {"error": api.error}
            kind = request.get("filter", {}).get("kind")
            lamps = [lamp for lamp in api.lamps if kind in (None, lamp["kind"])]
            if "variables" in request:  # as GraphQL does
                after = request["variables"]["after"]
                first = (
                    0 if after is None else 1 + next(n for n, lamp in enumerate(lamps) if f"c/{lamp['id']}" == after)
                )
                shown = lamps[first : first + api.size]
                more = first + api.size < len(lamps)
                info = {"hasNextPage": more, "endCursor": f"c/{shown[-1]['id']}" if shown else None}
                return {"data": {"lamps": {"nodes": shown, "pageInfo": info}}}
            first = (request["page"] - 1) * api.size if "page" in request else request["from"]
            return {"hits": lamps[first : first + api.size]}

        def _may_pass(self) -> bool:
            api.left -= 1
            return api.left >= 0 and self.headers.get("Authorization") == f"Bearer {api.tokens[-1]}"

        def _give_token(self, form: dict[str, list[str]]) -> None:
            who = self.headers.get("Authorization", "").removeprefix("Basic ")
            api.forms.append((form, base64.b64decode(who).decode()))
            if api.refuses is not None:
                self._answer(*api.refuses)
                return
            api.tokens.append(f"token-{secrets.token_hex(8)}")
            api.left = api.lasts or 0
            expiry = {} if api.expires_in is None else {"expires_in": api.expires_in}
            self._answer(200, {"access_token": api.tokens[-1], "token_type": "Bearer", **expiry})

        def _answer(self, status: int, reply: Any) -> None:
            body = json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    api.base = f"http://127.0.0.1:{server.server_address[1]}"
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    try:
        yield api
    finally:
        server.shutdown()
        server.server_close()
