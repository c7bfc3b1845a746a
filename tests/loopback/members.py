"""A site on loopback that shows its pages to whoever is logged in: by a form with a token that counts once, and
sessions that end.
"""

import html
import secrets
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal
from urllib.parse import parse_qs, urlsplit

_BAR, _OTHERS_BAR = '<a class="out" href="/logout">Log out</a>', '<a href="/login?next=/">Log in</a>'
USER, PASSWORD = "ann@members.example", "pass-2718 & more"


@dataclass
class Members:
    """What the site shows, and what was asked of it.

    Attributes:
        pages: path → what the page's `<main>` has.
        public: paths that everybody sees; `bare` ones show nobody who they are.
        lasts: pages that a session shows.
        refuses: how the others are answered.
        accepts: whether a login is accepted; it is asked for each.
    """

    base: str = ""
    pages: dict[str, str] = field(default_factory=dict)
    public: set[str] = field(default_factory=set)
    forbidden: set[str] = field(default_factory=set)
    bare: set[str] = field(default_factory=set)
    lands_at: str = "/"  # after a login
    lasts: int = 1_000_000
    refuses: Literal["form", "redirect", "script", "unauthorized"] = "form"
    accepts: Callable[[], bool] = lambda: True
    form: str = (
        '<form action="/search"><input name="q"></form><form method="post" action="/session">'
        '<input type="hidden" name="token" value="{token}"><input name="user"><input type="password" name="password">'
        '<input type="checkbox" name="stay" checked value="yes"><button name="do" value="login">Log in</button></form>'
    )
    requests: Counter[str] = field(default_factory=Counter)  # by their paths
    logins: int = 0
    sent: list[dict[str, list[str]]] = field(default_factory=list)  # forms
    cookies: list[str] = field(default_factory=list)  # that were set
    got: list[str] = field(default_factory=list)  # headers
    tokens: set[str] = field(default_factory=set)
    left: dict[str, int] = field(default_factory=dict)  # of each session


@contextmanager
def members_site() -> Iterator[Members]:
    """The site, which has ended at the end of the block."""
    site, turn = Members(), threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002, ARG002  # the base class's signature
            return

        def do_GET(self) -> None:
            with turn:
                path = urlsplit(self.path).path
                site.requests[path] += 1
                site.got.append(self._cookie())
                if path == "/robots.txt":
                    self._answer(200, "User-agent: *\nDisallow: /login\n", kind="text/plain")
                elif path == "/login":
                    self._form()
                elif path in site.forbidden:
                    self._answer(403, "<html>not for you</html>")
                elif path not in site.pages:
                    self._answer(404, "nothing here")
                elif (session := self._session()) or path in site.public:
                    bar = _BAR if session else _OTHERS_BAR
                    bar = "" if path in site.bare else bar
                    shown = f"<html><nav>{bar}</nav><main>{site.pages[path]}</main></html>"
                    is_known = self.headers.get("If-None-Match") == f'"{zlib.crc32(shown.encode())}"'
                    self._answer(304 if is_known else 200, shown, ETag=f'"{zlib.crc32(shown.encode())}"')
                elif site.refuses == "redirect":
                    self._answer(302, "", Location=f"/login?next={path}")
                elif site.refuses == "script":
                    self._answer(200, "<html><script>location.href = '/login?next=/'</script></html>")
                elif site.refuses == "unauthorized":
                    self._answer(401, "<html>log in first</html>")
                else:
                    self._form()

        def do_POST(self) -> None:
            with turn:
                sent = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                site.sent.append(sent)
                token = sent.get("token", [""])[0]
                is_right = (sent.get("user"), sent.get("password")) == ([USER], [PASSWORD]) and site.accepts()
                if self.path != "/session" or token not in site.tokens or f"csrf={token}" not in self._cookie():
                    self._answer(400, "the token is not that of the form")
                elif not is_right:
                    self._answer(302, "", Location="/login?error=1")
                else:
                    site.tokens.remove(token)
                    site.logins += 1
                    session = f"session-{secrets.token_hex(8)}"
                    site.left[session] = site.lasts
                    headers = {"Location": site.lands_at, "Set-Cookie": self._set("session", session)}
                    self._answer(302, "", **headers)

        def _cookie(self) -> str:
            return self.headers.get("Cookie") or ""

        def _session(self) -> bool:
            session = self._cookie().rpartition("session=")[2].partition(";")[0]
            site.left[session] = site.left.get(session, 0) - 1
            return site.left[session] >= 0

        def _set(self, name: str, value: str) -> str:
            site.cookies.append(value)
            return f"{name}={value}; Path=/; HttpOnly"

        def _form(self) -> None:
            token = secrets.token_hex(8)
            site.tokens.add(token)
            shown = f"<html><h1>Log in</h1>{site.form.format(token=html.escape(token))}</html>"
            self._answer(200, shown, **{"Set-Cookie": self._set("csrf", token)})

        def _answer(self, status: int, body: str, *, kind: str = "text/html; charset=utf-8", **headers: str) -> None:
            self.send_response(status)
            body = "" if status == 304 else body
            for name, value in {"Content-Type": kind, "Content-Length": str(len(body.encode())), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body.encode())

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    site.base = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
